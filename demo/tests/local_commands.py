"""The project's commands as a person runs them, and every process that they have started."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 450
"""For a command: many times what the slowest takes alone, because a busy machine is no failure."""
TEST_SECONDS_MAX = 500


def run(
    module: str, folder: Path, *arguments: str, seconds: float = SECONDS_MAX, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of the project to its end.

    What it and its processes write temporarily goes to the folder.
    """
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(folder)} | environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def start(module: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the same without waiting; its output is read as lines."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def find_processes(folder: Path) -> Iterator[psutil.Process]:
    """Yield every process that descends from a command run in a folder, orphans too.

    They are known by the variable that all of them have inherited.
    """
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # It ended meanwhile, or belongs to somebody else.
            if process.environ().get("TMPDIR") == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def list_processes(folder: Path) -> list[str]:
    """Return the command lines of those processes."""
    found = []
    for process in find_processes(folder):
        with contextlib.suppress(psutil.Error):
            found.append(" ".join(process.cmdline()))
    return found
