"""Copies of a tree, in which tests run and mutants are applied."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT

PYTEST = [
    *("-q", "--no-header", "--tb=no", "--assert=plain"),
    *("--timeout=90", "-p", "no:cacheprovider", "-p", "no:xdist"),
]
OWN = Path(__file__).resolve().parent


@dataclass(slots=True)
class Tree:
    """A copy of the tracked files of a repository, with this package."""

    root: Path
    stamp: float = 0.0  # when a file was changed last, in unix seconds
    _server: subprocess.Popen[str] | None = None

    @contextmanager
    def changed(self, file: str, text: str) -> Iterator[None]:
        """Let a file have another text for a while."""
        path = self.root / file
        plain = path.read_text()
        try:
            self._write(path, text)
            yield
        finally:
            self._write(path, plain)

    def _write(self, path: Path, text: str) -> None:
        """Write a file with a time of its own: Python's cache goes by seconds and size."""
        path.write_text(text)
        self.stamp = max(self.stamp, path.stat().st_mtime) + 2
        os.utime(path, (self.stamp, self.stamp))

    def fork(self, program: str, *, seconds: float) -> tuple[int | None, str]:
        """Return how a Python program ended in a fork of the warm process, and what it wrote."""
        if self._server is None:
            words, variables = [sys.executable, "-m", "tests.mutants.warm"], {"PYTHONPATH": str(self.root)}
            self._server = subprocess.Popen(
                words, cwd=self.root, env=os.environ | variables, stdin=PIPE, stdout=PIPE, text=True
            )
        if self._server.stdin is None or self._server.stdout is None:
            raise RuntimeError("the warm process has no pipes")
        self._server.stdin.write(json.dumps({"program": program, "seconds": seconds}) + "\n")
        self._server.stdin.flush()
        code, written = json.loads(self._server.stdout.readline())
        return code, written

    def test(self, *words: str, seconds: float) -> tuple[int | None, str]:
        """Return how pytest ended, and what it wrote."""
        return self.fork(f"import sys, pytest\nsys.exit(pytest.main({[*PYTEST, *words]!r}))", seconds=seconds)

    def expect_sound(self) -> None:
        """Return if tests begin in this tree; else each mutant would seem to be caught."""
        code, written = self.test("--collect-only", "tests/rules", seconds=120)
        if code:
            raise RuntimeError(f"the tests of {self.root} do not begin:\n{written}")

    def close(self) -> None:
        """End the warm process."""
        if self._server is not None:
            self._server.communicate()
            self._server = None

    def run(self, *words: str, seconds: float, environ: Mapping[str, str] | None = None) -> tuple[int | None, str]:
        """Return how a Python program ended, None if it did not in time, and what it wrote."""
        command = [sys.executable, *words]
        variables = {**os.environ, "PYTHONPATH": str(self.root), **(environ or {})}
        with subprocess.Popen(
            command, cwd=self.root, env=variables, stdout=PIPE, stderr=STDOUT, text=True, start_new_session=True
        ) as program:
            try:
                written, _ = program.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(program.pid, signal.SIGKILL)
                return None, ""
        return program.returncode, written


def list_files(tree: Path) -> list[str]:
    """Return the tracked files of a repository."""
    listed = subprocess.run(["git", "-C", tree, "ls-files", "-z"], capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if (tree / name).is_file()]


def name_commit(tree: Path) -> str:
    """Return the commit of a repository."""
    words = ["git", "-C", str(tree), "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def copy_tree(tree: Path, to: Path) -> Tree:
    """Return a copy of a repository."""
    for name in list_files(tree):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tree / name, to / name, follow_symlinks=False)
    shutil.copytree(OWN, to / "tests/mutants", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    if (tree / ".venv").exists():
        (to / ".venv").symlink_to((tree / ".venv").resolve())
    return Tree(to)
