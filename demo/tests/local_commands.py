"""The project's commands as a person runs them, their processes, and runs in this process."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
from rich.console import Console

from demo.feed import Outcome, View
from demo.following import Run, RunOptions
from demo.manifests import load
from demo.settings import StackSettings
from demo.stack import Stack
from tests.program_runs import run_python

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 450
"""For a command: many times what the slowest takes alone, because a busy machine is no failure."""
TEST_SECONDS_MAX = 500


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the demo to its end.

    What it and its processes write temporarily goes to the folder.
    """
    environment = os.environ | {"TMPDIR": str(folder)}
    return run_python("-m", "demo", *arguments, cwd=ROOT, env=environment, seconds=SECONDS_MAX)


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the same without waiting; its output is read as lines."""
    return subprocess.Popen(
        [sys.executable, "-m", "demo", *arguments],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def find_processes(folder: Path) -> Iterator[psutil.Process]:
    """Yield every process that descends from a command run in a folder, orphans too, newest first.

    They are known by the variable that all of them have inherited.
    """
    for process in sorted(psutil.process_iter(), key=lambda each: each.pid, reverse=True):
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


def perform(home: Path, pattern: str, settings: StackSettings, options: RunOptions) -> tuple[Outcome, str]:
    """Run manifests on a stack of their own; return what it came to, and what a person saw."""
    console = Console(record=True, width=300, file=io.StringIO())
    view = View(console)
    with Stack(home / "stack", settings, say=view.say) as stack:
        outcome = Run(stack, view, options).perform(load([pattern]))
    return outcome, console.export_text()
