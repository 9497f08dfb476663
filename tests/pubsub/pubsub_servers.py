"""Starting the servers that the scenarios run against, each as a process of its own, and ending them whole.

Google's emulator is found below the Google Cloud SDK; its launcher starts java, so its process group is ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS = 60.0
EMULATOR_BELOW_SDK = "platform/pubsub-emulator/bin/cloud-pubsub-emulator"
INSTALL_HINT = (
    "This test needs Google's Pub/Sub emulator and java: install the Google Cloud SDK, then run"
    " `gcloud components install pubsub-emulator` (or apt-get install google-cloud-cli-pubsub-emulator)."
    " Without it, leave the tier out: pytest -m 'not tool'."
)


@contextlib.contextmanager
def running_broker(folder: Path, *options: str) -> Iterator[dict[str, str]]:
    """Run `python -m local.pubsub serve` and yield its addresses."""
    ports_file = folder / "ports.json"
    command = [sys.executable, "-m", "local.pubsub", "serve", "--ports-file", str(ports_file), *options]
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait(process, ports_file.exists, folder / "broker.log")
        yield json.loads(ports_file.read_text())
    finally:
        _end_group(process)


@contextlib.contextmanager
def running_emulator(folder: Path) -> Iterator[dict[str, str]]:
    """Run Google's emulator and yield its addresses (gRPC and REST share a port)."""
    launcher = _emulator_launcher()
    port = _free_port()
    with (folder / "emulator.log").open("wb") as log:
        process = subprocess.Popen(
            [str(launcher), "--host=127.0.0.1", f"--port={port}"],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _wait(process, lambda: _answers(f"http://127.0.0.1:{port}"), folder / "emulator.log")
        yield {"grpc": f"127.0.0.1:{port}", "rest": f"http://127.0.0.1:{port}"}
    finally:
        _end_group(process)


def _emulator_launcher() -> Path:
    gcloud = shutil.which("gcloud")
    launcher = Path(gcloud).resolve().parents[1] / EMULATOR_BELOW_SDK if gcloud else None
    if launcher is None or not launcher.exists() or shutil.which("java") is None:
        raise FileNotFoundError(INSTALL_HINT)
    return launcher


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url, timeout=1, trust_env=False).status_code == 200
    return False


def _wait(process: subprocess.Popen[bytes], ready: object, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while not ready():  # type: ignore[operator]  # a callable of either server
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"the server did not start; its log ends with:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
    process.wait(timeout=5)
