"""A fake GKE as a process of its own, started and ended by a test."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CLI = [sys.executable, "-m", "local.fakegke"]
PATIENCE = 60.0


class FakeProcess:
    """A running `python -m local.fakegke serve`."""

    def __init__(self, process: subprocess.Popen[str], ports: dict[str, str], ports_file: Path) -> None:
        self.process = process
        self.rest = ports["rest"]
        self.grpc = ports["grpc"]
        self.ports_file = ports_file

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another command of the command line against this process."""
        return run_cli(*arguments, "--url", str(self.ports_file))

    def terminated(self) -> tuple[int, float, list[dict[str, Any]]]:
        """End the process; return its code, the seconds it took and its log records."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=PATIENCE)
        records = [json.loads(line) for line in output.splitlines()]
        return self.process.returncode, time.monotonic() - started, records


def run_cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line to its end."""
    return subprocess.run(
        [*CLI, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@contextmanager
def fake_process(folder: Path, *arguments: str) -> Iterator[FakeProcess]:
    """Start a fake for project demo, cluster alpha in us-east5; ended for certain."""
    ports_file = folder / "ports.json"
    place = ["--project", "demo", "--location", "us-east5", "--cluster", "alpha", "--zone", "us-east5-b"]
    command = [*CLI, "serve", *place, "--ports-file", str(ports_file), *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield FakeProcess(process, _ports(ports_file, process), ports_file)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _ports(path: Path, process: subprocess.Popen[str]) -> dict[str, str]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists():
            return dict(json.loads(path.read_text()))
        time.sleep(0.02)
    raise AssertionError(f"the fake did not start: {process.communicate()[0]}")
