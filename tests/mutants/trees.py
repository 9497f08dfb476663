"""Copies of a tree, in which tests run and mutants are applied."""

import os
import queue
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

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

    def test(self, *words: str, seconds: float) -> tuple[int | None, str]:
        """Return how pytest ended, and what it wrote."""
        return self.run("-m", "pytest", *PYTEST, *words, seconds=seconds)

    def expect_sound(self) -> None:
        """Return if tests begin in this tree; else each mutant would seem to be caught."""
        code, written = self.test("--collect-only", "tests/rules", seconds=120)
        if code:
            raise RuntimeError(f"the tests of {self.root} do not begin:\n{written}")

    def run(self, *words: str, seconds: float, environ: Mapping[str, str] | None = None) -> tuple[int | None, str]:
        """Return how a Python program ended, None if it did not in time, and what it wrote.

        Its own seconds are bounded; on a busy machine it may have to wait for long beside them.
        """
        variables = {**os.environ, "PYTHONPATH": str(self.root), **(environ or {})}
        with subprocess.Popen(
            [sys.executable, *words],
            cwd=self.root,
            env=variables,
            stdout=PIPE,
            stderr=STDOUT,
            text=True,
            start_new_session=True,
        ) as program:
            resource.prlimit(program.pid, resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
            try:
                written, _ = program.communicate(timeout=4 * seconds)
            except subprocess.TimeoutExpired:
                os.killpg(program.pid, signal.SIGKILL)
                return None, ""
        return (None if program.returncode < 0 else program.returncode), written


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


def spread(trees: Sequence[Tree], work: Callable[[Item, Tree], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Return what comes of each item in some tree, where one is worked on at a time."""
    free: queue.SimpleQueue[Tree] = queue.SimpleQueue()
    for tree in trees:
        free.put(tree)

    def work_somewhere(item: Item) -> Result:
        tree = free.get()
        try:
            return work(item, tree)
        finally:
            free.put(tree)

    with ThreadPoolExecutor(len(trees)) as pool:
        yield from pool.map(work_somewhere, items)
