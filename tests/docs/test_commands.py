"""Each command that a page shows is run on fakes if it is our own; others exist, with options."""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from cli.app import app
from tests.cli.cli_world import a_deployment, put_in_place, run
from tests.engine.world import World

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")])
EXAMPLE = ROOT / "examples/v6e-spot.yaml"  # in place of a manifest of the reader
PAST = ("CHANGELOG.md", "what-went.md")  # they tell of commands that are gone
FENCE = re.compile(r"^ *```(?:console|)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:make|tpu-provisioner|\.venv/bin/python -m|python -m) [^`]+)`")
TARGETS = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].split()
VARIABLES = {*re.findall(r"\$\((?:if \$\()?([A-Z]+)\b", (ROOT / "Makefile").read_text())}


def list_commands(page: Path) -> Iterator[str]:
    """Yield the commands of a page: those in code blocks, and those in the text."""
    yield from list_blocks(page)
    yield from (" ".join(each.split()) for each in INLINE.findall(page.read_text(encoding="utf-8")))


def list_blocks(page: Path) -> Iterator[str]:
    """Yield the commands in the code blocks of a page, without what a shell does with them."""
    for block in FENCE.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            words = line.strip().removeprefix("$ ").partition("  #")[0].partition(" # ")[0]
            yield re.split(r" [&|>]+ ?|;", words)[0].strip()


def name_what_is_wrong(command: str) -> str:
    """Return what a command names that does not exist; empty if all of it does."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    program, *rest = words or [""]
    if program == "make":
        return check_make(rest)
    if program == "tpu-provisioner":
        return check_ours(rest)
    if program.endswith("python") and rest[:1] == ["-m"]:
        return "" if is_module(rest[1]) else f"no module {rest[1]}"
    paths = [each for each in words if each.startswith("examples/") and "*" not in each]
    return next((f"no {each}" for each in paths if not (ROOT / each).exists()), "")


def check_make(words: list[str]) -> str:
    """Return a target or a variable that the Makefile does not have."""
    for word in (each for each in words if not each.startswith("-")):
        variable, is_variable, _ = word.partition("=")
        if is_variable and variable not in VARIABLES | {"PYTHON"}:
            return f"no variable {variable}"
        if not is_variable and word.islower() and word not in TARGETS and "/" not in word:
            return f"no target {word}"
    return ""


def check_ours(words: list[str]) -> str:
    """Return a command or an option that `tpu-provisioner` does not have."""
    command: Any = typer.main.get_command(app)
    for word in words:
        commands = getattr(command, "commands", {})
        options = {each for parameter in command.params for each in (*parameter.opts, *parameter.secondary_opts)}
        name = word.partition("=")[0]
        if name.startswith("-") and name not in options | {"--help", "--install-completion"}:
            return f"no option {name} of {command.name}"
        if commands and name.islower() and not name.startswith("-"):
            if name not in commands:
                return f"no command {name}"
            command = commands[name]
    return ""


def is_module(name: str) -> bool:
    """Return whether `python -m` can run this name here."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_of_a_page_exists(page: Path) -> None:
    wrong = {each: problem for each in list_commands(page) if (problem := name_what_is_wrong(each))}

    assert page.name in PAST or wrong == {}


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("make demo-scarce", "no target demo-scarce"),
        ("make demo BORED=1", "no variable BORED"),
        ("tpu-provisioner letters list", "no command letters"),
        ("tpu-provisioner why a/b --sinze 2h", "no option --sinze of why"),
        (".venv/bin/python -m demo.bored", "no module demo.bored"),
        ("kubectl apply -f examples/none.yaml", "no examples/none.yaml"),
    ],
)
def test_a_command_that_is_gone_is_noticed(command: str, problem: str) -> None:
    assert name_what_is_wrong(command) == problem


ENDLESS = ("--watch", "-w", "--install-completion")
OURS = sorted(
    {
        each.partition("tpu-provisioner ")[2]
        for page in PAGES
        if page.name not in PAST
        for each in list_blocks(page)
        if each.startswith("tpu-provisioner ")
    }
)


@pytest.mark.parametrize("command", OURS)
def test_each_command_of_ours_in_a_block_runs(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(slices=2)
    world.wait(0)
    put_in_place(monkeypatch, a_deployment(world, project="p"))
    monkeypatch.setattr("cli.board.site.serve_board", lambda *_arguments, **_options: None)
    monkeypatch.setattr("cli.messages.replay.confirm", lambda _question: None)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("cli.usage.usage_command.read_records", lambda *_arguments: iter(()))
    words = [each for each in shlex.split(command) if each not in ENDLESS]
    words = [str(EXAMPLE) if each.endswith(".yaml") and not list(ROOT.glob(each)) else each for each in words]

    result = run(*(words or ["--help"]), given="")

    assert result.exit_code in (0, 1, 3), result.output  # found, needs a person, no answer: not wrong arguments
    assert result.exception is None or isinstance(result.exception, SystemExit)
