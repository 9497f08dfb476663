"""Each command that a page shows exists, with its options, variables and files."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import typer

from cli.app import app

ROOT = Path(__file__).resolve().parents[2]
COMMAND = typer.main.get_command(app)
SHOWN = re.compile(r"(?:`|^|\$ |\$\()tpu-provisioner +([^`|#\n]+)", re.MULTILINE)
"""In a code span, or at the beginning of a line of a block."""


MADE = re.compile(r"(?:`|^|\$ |\$\(|^ {4})make +([^`|#;)\n]+)", re.MULTILINE)
MODULE = re.compile(r"(?:`|^|\$ |^ {4}|/)python3? -m ([a-z][\w.]*[^`|#\n]*)", re.MULTILINE)
MAKEFILE = (ROOT / "Makefile").read_text()
TIERS = [f"test-{name}" for name in MAKEFILE.partition("TIERS :=")[2].partition("\n")[0].split()]
TARGETS = {*MAKEFILE.partition(".PHONY:")[2].partition("\n")[0].replace("$(TIERS:%=test-%)", "").split(), *TIERS}
VARIABLES = set(re.findall(r"[A-Z_]+", MAKEFILE.partition("VALID :=")[2].partition("GIVEN")[0]))


def list_shown(form: re.Pattern[str] = SHOWN) -> dict[str, str]:
    """The arguments of each command that a page shows, with the page."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")]
    pages += [*ROOT.glob("standins/*/README.md"), *ROOT.glob("tests/*/README.md")]
    texts = {page: re.sub(r" *\\\n +", " ", page.read_text()) for page in pages if page.name != "CHANGELOG.md"}
    return {
        found.strip(): str(page.relative_to(ROOT)) for page, text in texts.items() for found in form.findall(text)
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


def test_each_target_and_variable_of_make_that_a_page_shows_exists() -> None:
    shown = list_shown(MADE)
    unknown = {f"{page}: make {words}": found for words, page in shown.items() if (found := find_not_made(words))}

    assert len(shown) > 40
    assert unknown == {}


@pytest.mark.parametrize(
    ("arguments", "unknown"),
    [
        ("demo SPEED=60", []),
        ('demo JOBSET="a.yaml b/" BOARD=1', []),
        ("-s env", []),
        ("down up", []),
        ("dmeo SPED=60", ["dmeo", "SPED"]),
    ],
)
def test_what_make_does_not_know_is_found(arguments: str, unknown: list[str]) -> None:
    assert find_not_made(arguments) == unknown


def find_not_made(arguments: str) -> list[str]:
    """The targets and variables of a command line that the Makefile does not have."""
    words = [word for word in shlex.split(arguments) if not word.startswith("-")]
    names = [word.partition("=")[0] for word in words]
    return [name for name in names if name not in (VARIABLES if name.isupper() else TARGETS)]


def test_a_variable_that_is_misspelt_ends_make_before_anything_runs() -> None:
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", "-n", "demo", "SPED=60"], cwd=ROOT, env=alone, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert "SPED: is not a variable of this Makefile; valid: VENV JOBSET SPEED " in done.stderr


def test_make_lists_at_most_twenty_targets_and_a_page_names_the_others() -> None:
    listed = set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE))
    explained = (ROOT / "CONTRIBUTING.md").read_text()

    assert 10 < len(listed) <= 20
    assert listed < TARGETS
    assert [name for name in sorted(TARGETS - listed) if f"`make {name}" not in explained] == []


def test_make_says_each_variable_of_its_help() -> None:
    explained = set(re.findall(r'@echo "  ([A-Z]+)=', MAKEFILE))

    assert explained
    assert explained <= VARIABLES
    assert set(re.findall(r"^([A-Z]+) \?=", MAKEFILE, re.MULTILINE)) <= VARIABLES


def test_each_module_that_a_page_runs_exists_with_its_options() -> None:
    own = {
        words: page for words, page in list_shown(MODULE).items() if (ROOT / re.split(r"[. ]", words)[0]).is_dir()
    }
    missing = {f"{page}: {words}": find_missing(words) for words, page in own.items() if find_missing(words)}

    assert len(own) > 10
    assert missing == {}


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        ("demo.stack up --speed=3", []),
        ("tests.unit.golden_tables --write", []),
        ("demo.stak", ["demo.stak"]),
        ("demo.loop --sped=3", ["--sped"]),
    ],
)
def test_what_a_module_does_not_know_is_found(words: str, missing: list[str]) -> None:
    assert find_missing(words) == missing


def find_missing(words: str) -> list[str]:
    """The module, if there is none, or the options that its sources do not name."""
    name, *rest = words.split()
    path = ROOT / name.replace(".", "/")
    files = list(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    if not all(each.exists() for each in files):
        return [name]
    texts = "".join(each.read_text() for each in files)
    options = [word.partition("=")[0] for word in rest if word.startswith("--")]
    return [each for each in options if not {each, each[2:].replace("-", "_")} & set(re.findall(r"[\w-]+", texts))]


TOOL = re.compile(r"^(?:\$ | {4})?((?:kubectl|gcloud|helm|terraform) +[^`#\n]+)", re.MULTILINE)
TOP = "|".join(each.name for each in ROOT.iterdir() if each.name[0] not in "._" and each.name != "build")
PATH = re.compile(rf"(?:^|[ =])((?:{TOP})(?:/[\w./-]*)?)(?= |$)")
SUBSTITUTION = re.compile(r"[ ,=](_[A-Z][A-Z_]+)=")


def test_each_file_and_substitution_that_a_tool_gets_on_a_page_exists() -> None:
    shown = list_shown(TOOL)
    paths = {
        (page, path) for words, page in shown.items() for path in PATH.findall(words) if set("/.") & set(path)
    }
    builds = "".join((ROOT / f"cloudbuild.{name}.yaml").read_text() for name in ("provision", "destroy"))
    substitutions = {(page, name) for words, page in shown.items() for name in SUBSTITUTION.findall(words)}

    assert len(paths) > 5
    assert {each for each in paths if not (ROOT / each[1]).exists()} == set()
    assert len(substitutions) > 5
    assert {each for each in substitutions if f"  {each[1]}:" not in builds} == set()
