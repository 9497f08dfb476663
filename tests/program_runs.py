"""Runs a program to its end, and keeps what it wrote."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from standins.kit.processes import PATIENCE_SECONDS


def run_program(
    *command: str | Path, seconds: float = PATIENCE_SECONDS, succeeds: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Return how a program ended.

    Args:
        command: The program and its arguments.
        seconds: After which it is killed, and the test fails.
        succeeds: Whether its failure fails the test, with all that it wrote.
        options: Of `subprocess.run`: where it runs, its environment, its input.
    """
    words = [str(each) for each in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False, **options)
    assert not succeeds or done.returncode == 0, f"{' '.join(words)}:\n{done.stdout}{done.stderr}"
    return done


def run_python(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Return how a program in this Python ended; the options are those of `run_program`."""
    return run_program(sys.executable, *arguments, **options)
