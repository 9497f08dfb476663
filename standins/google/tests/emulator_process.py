"""Google's emulator of Pub/Sub: how it is found and run, and where it differs."""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import docker.errors  # type: ignore[import-untyped]
import httpx
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from standins.kit.addresses import draw_ports
from standins.kit.processes import Command, running

VARIABLE = "TEST_PUBSUB_EMULATOR"
BELOW_SDK = "platform/pubsub-emulator/bin/cloud-pubsub-emulator"
PACKAGED_SDK = Path("/usr/lib/google-cloud-sdk")
REMEDY = (
    "either `gcloud components install pubsub-emulator` (or apt-get install google-cloud-cli-pubsub-emulator) and"
    " any Java runtime 11 or newer, or a Docker engine that can pull from gcr.io"
)


class Way(StrEnum):
    INSTALLED = "installed"
    CONTAINER = "container"


class EmulatorMissingError(RuntimeError):
    """Neither way, or not the one that was asked for, is open on this machine."""


def choose_way() -> Way:
    """Return the way that was asked for, else the installed emulator where there is one, else the
    container.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked and asked not in list(Way):
        raise ValueError(f"{VARIABLE}={asked}: must be one of {', '.join(Way)}, or empty for whichever is there")
    if asked in ("", Way.INSTALLED) and find_launcher() is not None:
        return Way.INSTALLED
    if asked in ("", Way.CONTAINER) and engine_answers():
        return Way.CONTAINER
    only = f" as {VARIABLE}={asked} asks for it" if asked else ""
    raise EmulatorMissingError(f"Google's Pub/Sub emulator is not to be had{only}; it needs {REMEDY}")


def find_launcher() -> Path | None:
    """Return the installed emulator's launcher, if it and the java that it starts are there."""
    if shutil.which("java") is None:
        return None
    gcloud = shutil.which("gcloud")
    parents = [*list(Path(gcloud).resolve().parents)[1:3], PACKAGED_SDK] if gcloud else [PACKAGED_SDK]
    return next((path for parent in parents if (path := parent / BELOW_SDK).exists()), None)


def engine_answers() -> bool:
    """Return whether there is a container engine that answers; whether it can pull shows when it
    does.
    """
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "version"], capture_output=True, timeout=30, check=False).returncode == 0


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


@dataclass(frozen=True)
class Difference:
    """What the emulator was seen to do, in the scenario's own terms."""

    observed: object
    sentence: str


UNFILTERED = ["bare", "demand", "over", "red"]
NEVER_FILTERS = "Stores the filter, returns it, and delivers everything."

# Observed on emulator 0.8.20 (Google Cloud SDK 528).
DIFFERENCES: dict[str, Difference] = {
    "a_filter_lets_through_what_matches": Difference(UNFILTERED, NEVER_FILTERS),
    "a_negated_filter_lets_through_the_rest": Difference(UNFILTERED, NEVER_FILTERS),
    "a_filter_outside_the_grammar_is_refused": Difference(
        ["OK", "OK", "OK"], "Accepts any text as a filter, even a longer one than 256 bytes."
    ),
    "messages_beyond_the_limits_are_refused": Difference(
        ("INVALID_ARGUMENT", "OK", "OK", "OK", "OK"),
        "Refuses an empty message and nothing else: long values, 101 attributes, reserved and long keys all pass.",
    ),
    "a_dead_letter_is_forwarded_without_another_pull": Difference(
        [], "Forwards a dead letter of a pull subscription only when somebody pulls again."
    ),
    "a_retry_policy_delays_the_redelivery": Difference(
        False,  # what the scenario saw
        "Redelivers a nacked message to a pull at once, whatever the retry policy.",
    ),
    "a_push_states_the_attempt_under_a_dead_letter_policy": Difference(
        ["absent", "absent", "absent"], "Leaves the delivery attempt out of pushes."
    ),
    "only_the_documented_statuses_acknowledge": Difference(
        {200: "ack", 201: "ack", 202: "nack", 203: "ack", 204: "ack", 301: "nack", 404: "nack", 500: "nack"},
        "Takes 202 for a nack and 203 for an ack.",
    ),
    "a_subscription_pushes_more_than_two_at_a_time": Difference(
        False,  # what the scenario saw
        "Has at most two pushes of a subscription under way.",
    ),
}
