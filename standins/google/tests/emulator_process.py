"""Starts Google's emulator, the installed one or a container (emulator_choice), and ends it
whole.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import docker.errors  # type: ignore[import-untyped]
import httpx
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from standins.google.tests.emulator_choice import REMEDY, EmulatorMissingError, Way, choose_way, find_launcher
from standins.processes.child import Command
from standins.processes.free_ports import draw_ports
from standins.processes.stand_ins import running

START_SECONDS = 120.0
IMAGE = "gcr.io/google.com/cloudsdktool/google-cloud-cli:528.0.0-emulators"
"""The release on which the differences were observed."""


@contextlib.contextmanager
def running_emulator(folder: Path) -> Iterator[dict[str, str]]:
    """Run Google's emulator and yield its addresses (gRPC and REST share a port)."""
    way, port = choose_way(), draw_ports(1)[0]
    start = _installed_emulator if way is Way.INSTALLED else _contained_emulator
    with start(folder, port):
        yield {"grpc": f"127.0.0.1:{port}", "rest": f"http://127.0.0.1:{port}"}


@contextlib.contextmanager
def _installed_emulator(folder: Path, port: int) -> Iterator[None]:
    arguments = (str(find_launcher()), "--host=127.0.0.1", f"--port={port}")
    command = Command(name="emulator", arguments=arguments, folder=folder)
    with running(command, folder, lambda: _answers(f"http://127.0.0.1:{port}")):
        yield


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

    It has the network of its host (Docker Desktop: Settings > Resources > Network > Enable host
    networking), since the scenarios let it push to receivers that listen on the loopback address
    only. The class that testcontainers has for this emulator maps a port instead, and imports the
    client of Datastore.
    """
    start = f"gcloud beta emulators pubsub start --project=conformance --host-port=127.0.0.1:{port}"
    return DockerContainer(IMAGE, command=start, network_mode="host")


def _wait_for_container(container: DockerContainer, url: str) -> None:
    until = time.monotonic() + START_SECONDS
    while not _answers(url):
        container.reload()
        if container.status != "running" or time.monotonic() > until:
            output = container.get_wrapped_container().logs().decode(errors="replace")
            raise RuntimeError(f"the emulator in {IMAGE} did not start; its log ends with:\n{output[-2000:]}")
        time.sleep(0.2)


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url, timeout=1, trust_env=False).status_code == 200
    return False
