"""Our rules for prose (docs/develop/style.md): 100 columns, and no phrases of the old style."""

import ast
import json
import re
import sys
import tomllib
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from tests.program_runs import run_program

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 100
SKIPPED_FOLDERS = {".venv", ".git", ".local", "build", "node_modules"}
DEPLOYED_ROOMS = ("shared", "functions", "exporter", "cli", "terminal")
OLD_STYLE = re.compile(
    r"\bstands?\b(?!-in)|\bspeaks?\b|\bis said\b|\b(?:no|some|any)body\b|\blies\b|\bwhoever\b"
    r"|\bpassed over\b",
    re.IGNORECASE,
)
STYLE_PAGE = "docs/develop/style.md"
"""It quotes the old style."""


def list_pages() -> dict[str, str]:
    """Every Markdown page of the project, by path."""
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*.md"))
    pages = [path for path in found if not SKIPPED_FOLDERS & set(path.parts)]
    return {str(path): (ROOT / path).read_text() for path in sorted(pages)}


def find_long_lines(text: str) -> list[str]:
    """The lines of a page over the limit; tables, code, images and one long link are exempt."""
    found, fenced, indented, blank = [], False, False, True
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        indented = line.startswith("    ") and (blank or indented)
        blank = not line.strip()
        exempt = fenced or indented or line.lstrip().startswith(("|", "![")) or " " not in line.strip(" -*>")
        if len(line) > COLUMNS and not exempt:
            found.append(line)
    return found


@cache
def find_long_documentation() -> frozenset[str]:
    """Every Python file with a docstring or comment over the limit."""
    ruff = Path(sys.executable).parent / "ruff"
    limit = f"lint.pycodestyle.max-doc-length={COLUMNS}"
    rooms = [str(path.parent.relative_to(ROOT)) for path in ROOT.glob("*/__init__.py")]
    options = ("--isolated", "--select=W505", "--exit-zero", "--output-format=json", "--config", limit)
    places = ("infra", "conftest.py", *rooms)
    result = run_program(ruff, "check", *options, *places, cwd=ROOT, seconds=280, succeeds=True)
    return frozenset(str(Path(each["filename"]).relative_to(ROOT)) for each in json.loads(result.stdout))


def list_texts(source: str) -> list[str]:
    """The texts of a module that users may see: every string that is not a docstring."""
    tree = ast.parse(source)
    documents = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in documents)
    return [node.value for node in constants if isinstance(node.value, str)]


def find_old_style() -> dict[str, list[str]]:
    """The texts for users with phrases of the old style, by file."""
    files = [path for room in DEPLOYED_ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    texts = {str(path.relative_to(ROOT)): list_texts(path.read_text()) for path in files}
    found = {file: [text for text in each if OLD_STYLE.search(text)] for file, each in texts.items()}
    return {file: each for file, each in found.items() if each}


def test_every_page_wraps_at_100_columns() -> None:
    pages = list_pages()
    long = {page: found for page, text in pages.items() if (found := find_long_lines(text))}

    assert len(pages) > 30
    assert long == {}


@pytest.mark.parametrize(
    ("page", "long"),
    [
        ("x " * 51, 1),
        ("x " * 50, 0),
        ("| " + "x " * 60, 0),
        ("```\n" + "x " * 60 + "\n```\n" + "y " * 60, 1),
        ("text\n\n    " + "x " * 60, 0),
        ("- text\n    " + "x " * 60, 1),
        ("- [" + "x" * 120 + "](y)", 0),
    ],
)
def test_a_long_line_is_seen_and_what_is_exempt_is_not(page: str, long: int) -> None:
    assert len(find_long_lines(page)) == long


def test_every_python_file_wraps_at_100_columns_and_none_is_exempt() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]

    assert settings["pycodestyle"]["max-doc-length"] == COLUMNS
    assert settings["select"] == ["ALL"]
    assert not {"W", "W5", "W505"} & {*settings["ignore"], *chain(*settings["per-file-ignores"].values())}
    assert sorted(find_long_documentation()) == []


def test_no_text_for_users_has_a_phrase_of_the_old_style() -> None:
    assert find_old_style() == {}


def test_no_page_has_a_phrase_of_the_old_style() -> None:
    found = {page: OLD_STYLE.findall(text) for page, text in list_pages().items() if page != STYLE_PAGE}

    assert {page: phrases for page, phrases in found.items() if phrases} == {}


def test_the_old_style_is_found_in_texts_and_not_in_docstrings() -> None:
    source = '"""Nobody."""\n\ndef f(x: int) -> str:\n    """Speaks."""\n    return f"nobody leads {x}"\n'

    assert [text for text in list_texts(source) if OLD_STYLE.search(text)] == ["nobody leads "]
    assert not OLD_STYLE.search("a stand-in answers")
