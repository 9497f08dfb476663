"""Starting the servers that the scenarios run against, each as a process of its own, and ending them whole.

Google's emulator is the installed one or a container (emulator_choice). The installed launcher starts java, so its
process group is ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import docker.errors
import httpx
from emulator_choice import REMEDY, EmulatorMissingError, Way, choose_way, find_launcher
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from local.ports import draw_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START_SECONDS = 120.0
IMAGE = "gcr.io/google.com/cloudsdktool/google-cloud-cli:528.0.0-emulators"
"""The release on which the differences were observed."""


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
    way, port = choose_way(), draw_ports(1)[0]
    start = _installed_emulator if way is Way.INSTALLED else _contained_emulator
    with start(folder, port):
        yield {"grpc": f"127.0.0.1:{port}", "rest": f"http://127.0.0.1:{port}"}


@contextlib.contextmanager
def _installed_emulator(folder: Path, port: int) -> Iterator[None]:
    with (folder / "emulator.log").open("wb") as log:
        process = subprocess.Popen(
            [str(find_launcher()), "--host=127.0.0.1", f"--port={port}"],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _wait(process, lambda: _answers(f"http://127.0.0.1:{port}"), folder / "emulator.log")
        yield
    finally:
        _end_group(process)


@contextlib.contextmanager
def _contained_emulator(_: Path, port: int) -> Iterator[None]:
    # Its side-car would be one more image to pull; the container ends with the block.
    testcontainers_config.ryuk_disabled = True
    container = emulator_container(port)
    try:
        container.start()
    except docker.errors.DockerException as error:
        container.stop()
        raise EmulatorMissingError(f"the engine does not run {IMAGE}: {error}; else it needs {REMEDY}") from error
    try:
        _wait_for_container(container, f"http://127.0.0.1:{port}")
        yield
    finally:
        container.stop()


def emulator_container(port: int) -> DockerContainer:
    """Return the container, not yet started.

    It has the network of its host (Docker Desktop: Settings > Resources > Network > Enable host networking), since
    the scenarios let it push to receivers that listen on the loopback address only. The class that testcontainers
    has for this emulator maps a port instead, and imports the client of Datastore.
    """
    start = f"gcloud beta emulators pubsub start --project=conformance --host-port=127.0.0.1:{port}"
    return DockerContainer(IMAGE, command=start, network_mode="host")


def _wait_for_container(container: DockerContainer, url: str) -> None:
    until = time.monotonic() + START_SECONDS
    while not _answers(url):
        container.reload()
        if container.status != "running" or time.monotonic() > until:
            said = container.get_wrapped_container().logs().decode(errors="replace")
            raise RuntimeError(f"the emulator in {IMAGE} did not start; its log ends with:\n{said[-2000:]}")
        time.sleep(0.2)


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


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
    process.wait(timeout=20)
