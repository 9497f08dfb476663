"""Each command that a page shows exists, with its options, variables and files."""

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from cli.app import app
from tests.program_runs import run_program

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


def find_not_made(arguments: str) -> list[str]:
    """The targets and variables of a command line that the Makefile does not have."""
    words = [word for word in shlex.split(arguments) if not word.startswith("-")]
    names = [word.partition("=")[0] for word in words]
    return [name for name in names if name not in (VARIABLES if name.isupper() else TARGETS)]


def test_a_variable_that_is_misspelt_ends_make_before_anything_runs() -> None:
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = run_program("make", "-n", "demo", "SPED=60", cwd=ROOT, env=alone)

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


def is_ours(words: str) -> bool:
    """Return whether a module is one of the project's, and not of Python's."""
    return (ROOT / re.split(r"[. ]", words)[0]).is_dir()


Find = Callable[[str], list[str]]


@pytest.mark.parametrize(
    ("form", "find", "least"), [(SHOWN, find_unknown, 10), (MADE, find_not_made, 40), (MODULE, find_missing, 10)]
)
def test_each_command_that_a_page_shows_exists_with_its_words(
    form: re.Pattern[str], find: Find, least: int
) -> None:
    shown = {words: page for words, page in list_shown(form).items() if form is not MODULE or is_ours(words)}

    assert len(shown) > least
    assert {f"{page}: {words}": found for words, page in shown.items() if (found := find(words))} == {}


@pytest.mark.parametrize(
    ("find", "words", "unknown"),
    [
        (find_unknown, "status", []),
        (find_unknown, "plan a.yaml --zone=us-east5-b --diff", []),
        (find_unknown, "statsu", ["statsu"]),
        (find_unknown, "why team/job --colour", ["--colour"]),
        (find_not_made, "demo SPEED=60", []),
        (find_not_made, 'demo JOBSET="a.yaml b/" BOARD=1', []),
        (find_not_made, "-s env", []),
        (find_not_made, "down up", []),
        (find_not_made, "dmeo SPED=60", ["dmeo", "SPED"]),
        (find_missing, "demo.stack up --speed=3", []),
        (find_missing, "tests.unit.golden_tables --write", []),
        (find_missing, "demo.stak", ["demo.stak"]),
        (find_missing, "demo.loop --sped=3", ["--sped"]),
    ],
)
def test_what_the_command_make_or_a_module_does_not_know_is_found(
    find: Find, words: str, unknown: list[str]
) -> None:
    assert find(words) == unknown


STARTED = re.compile(r'"-m",\s*"((?:standins|demo|benchmarks|cli)[\w.]*)"')
FOREIGN = {"--install-completion", "--no-cache"}
"""Of a test that also starts one of our programs: refused on purpose, and an option of ruff."""


def test_each_option_that_a_test_gives_a_program_exists() -> None:
    """A test of a slow tier runs late, so this check finds first that an option is gone."""
    listed = run_program("git", "ls-files", "*.py", cwd=ROOT, succeeds=True)
    files = {path: (ROOT / path).read_text() for path in listed.stdout.split()}
    tests = {path: text for path, text in files.items() if "/test" in path or path.startswith("tests/")}
    words = {word for path in files.keys() - tests.keys() for word in re.findall(r"[\w-]+", files[path])}
    starting = {path: text for path, text in tests.items() if STARTED.search(text) and path != "tests/run.py"}

    assert len(starting) > 10
    given = {path: set(re.findall(r'"(--[a-z][a-z-]+)', text)) - FOREIGN for path, text in starting.items()}
    assert {
        (path, option)
        for path, options in given.items()
        for option in options
        if not {option, option[2:].replace("-", "_")} & words
    } == set()


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
