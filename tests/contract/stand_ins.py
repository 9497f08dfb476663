"""Starts the stand-ins as processes and talks to their admin ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import urllib3

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS_MAX = 60.0


@contextmanager
def stand_in(folder: Path, *command: str) -> Iterator[dict[str, str]]:
    """Run ``python -m COMMAND --ports-file …`` and give what it writes there once it listens.

    A fake GKE whose clock the test moves plays what the test says, call by call. So it keeps its
    own answers with ``make test ANSWERS=…`` (docs/conformance.md).
    """
    scripted = "--manual-clock" in command
    ports_file, output = folder / "ports.json", folder / "output.txt"
    with output.open("w") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", *command, "--ports-file", str(ports_file)],
            cwd=ROOT,
            env={key: value for key, value in os.environ.items() if key != "FAKEGKE_ANSWERS" or not scripted},
            stdout=written,
            stderr=subprocess.STDOUT,
        )
        try:
            give_up_at = time.monotonic() + START_SECONDS_MAX
            while not ports_file.exists():
                assert process.poll() is None, f"{command} ended: {output.read_text()}"
                assert time.monotonic() < give_up_at, f"{command} does not listen: {output.read_text()}"
                time.sleep(0.02)
            yield json.loads(ports_file.read_text())
        finally:
            process.terminate()
            process.wait(20)


def ask(method: str, url: str, body: Any = None) -> Any:
    """Send JSON, return JSON; anything but a success fails the test with the answer's text."""
    answer = urllib3.request(method, url, json=body) if body is not None else urllib3.request(method, url)
    assert answer.status < 300, f"{method} {url}: {answer.status}: {answer.data.decode()}"
    return answer.json()
