"""Each command of the operator that a page shows exists, with the options that the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from cli.app import app

ROOT = Path(__file__).resolve().parents[2]
COMMAND = typer.main.get_command(app)
SHOWN = re.compile(r"(?:`|^|\$ |\$\()tpu-provisioner +([^`|#\n]+)", re.MULTILINE)
"""In a code span, or at the beginning of a line of a block."""


def list_shown() -> dict[str, str]:
    """The arguments of each command that a page shows, with the page."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")]
    texts = {page: re.sub(r" *\\\n +", " ", page.read_text()) for page in pages if page.name != "CHANGELOG.md"}
    return {
        found.strip(): str(page.relative_to(ROOT)) for page, text in texts.items() for found in SHOWN.findall(text)
    }


def find_unknown(arguments: str) -> list[str]:
    """The words of a command line that the command does not know."""
    command, rest = COMMAND, arguments.split()
    while rest and (commands := getattr(command, "commands", None)) and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name not in commands:
            return [name]
        command = commands[name]
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
    return [word for word in rest if word.startswith("-") and word.partition("=")[0].rstrip(",.") not in known]


def test_each_command_that_a_page_shows_exists_with_its_options() -> None:
    shown = list_shown()
    unknown = {
        f"{page}: tpu-provisioner {words}": found
        for words, page in shown.items()
        if (found := find_unknown(words))
    }

    assert len(shown) > 10
    assert unknown == {}


@pytest.mark.parametrize(
    ("arguments", "unknown"),
    [
        ("status", []),
        ("plan a.yaml --zone=us-east5-b --diff", []),
        ("statsu", ["statsu"]),
        ("why team/job --colour", ["--colour"]),
    ],
)
def test_what_the_command_does_not_know_is_found(arguments: str, unknown: list[str]) -> None:
    assert find_unknown(arguments) == unknown
