"""Runs a measuring module in a process of its own and returns the JSON that it prints."""

import json
import subprocess
import sys
from typing import Any

from benchmarks.metering import Failed, clean_environment
from benchmarks.staging import ROOT

_SECONDS_MAX = 300.0


def run_module(module: str, *arguments: str) -> dict[str, Any]:
    """Return what ``python -m module arguments`` prints.

    Raises Failed: it ends with an error; the text is the end of what it said.
    """
    answer = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    if answer.returncode != 0:
        raise Failed(f"{module} {' '.join(arguments)} ended with {answer.returncode}:\n{answer.stderr[-3_000:]}")
    found: dict[str, Any] = json.loads(answer.stdout)
    return found
