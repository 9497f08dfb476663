"""Where the files of the corpus come from: git directories that a variable names, or GitHub."""

from __future__ import annotations

import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from tests.corpus.corpus_rows import Row, read_corpus

VARIABLE = "TPU_PROVISIONER_CORPUS"
"""Names a folder with the git directory of each repository, as OWNER+NAME: clones, bare or not."""
REMEDY = (
    f"access to raw.githubusercontent.com, or {VARIABLE} naming a folder with a git clone of each, as OWNER+NAME"
)
ROWS = read_corpus()
_HOST = "https://raw.githubusercontent.com"
_SECONDS = 30


def find_corpus() -> bool:
    """Return whether the files can be had: from the folder, if one is named, else from GitHub."""
    if folder := os.environ.get(VARIABLE):
        firsts = {row.repository: row for row in ROWS}.values()
        return all(_find_clone(Path(folder), row) for row in firsts)
    try:
        with urllib.request.urlopen(_address(ROWS[0]), timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def read_file(row: Row, folder: str) -> bytes:
    """Return the text of a row's file at its commit, from a folder of clones, or from GitHub."""
    if folder:
        clone = _find_clone(Path(folder), row)
        if clone is None:
            raise LookupError(f"{folder}: has no clone of {row.repository} with {row.commit}; valid: OWNER+NAME")
        command = ["git", f"--git-dir={clone}", "show", f"{row.commit}:{row.path}"]
        return subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS).stdout
    with urllib.request.urlopen(_address(row), timeout=_SECONDS) as answer:
        text: bytes = answer.read()
    return text


def _find_clone(folder: Path, row: Row) -> Path | None:
    root = folder / row.repository.replace("/", "+")
    clone = next((each for each in (root / ".git", root) if (each / "HEAD").is_file()), None)
    if clone is None:
        return None
    command = ["git", f"--git-dir={clone}", "cat-file", "-e", row.commit]
    return clone if subprocess.run(command, capture_output=True, check=False).returncode == 0 else None


def _address(row: Row) -> str:
    return f"{_HOST}/{row.repository}/{row.commit}/{urllib.parse.quote(row.path)}"
