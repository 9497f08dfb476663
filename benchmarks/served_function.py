"""One function served by the framework as the buildpack starts it, and the pushes sent to it."""

import base64
import http.client
import json
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path
from typing import Self

from benchmarks.metering import Failed, MeteredProcess
from benchmarks.sample_objects import CLUSTER, NAMESPACE, jobset_name, jobset_uid
from benchmarks.staging import make_environment
from shared.model.messages import Event, EventType, format_message
from shared.model.names import ObjectName
from standins.processes.addresses import HOST, draw_ports

THREADS = "8"
"""What the deployment sets: as many as the requests that one instance takes at a time."""
_START_SECONDS = 90.0
_HEADERS = {
    "Content-Type": "application/json",
    "ce-specversion": "1.0",
    "ce-id": "1",
    "ce-source": "//pubsub.googleapis.com/projects/bench-project/topics/workload-events",
    "ce-type": "google.cloud.pubsub.topic.v1.messagePublished",
}
"""As Eventarc sends them; an HTTP function does not look at the ``ce-`` ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to build the function."""

    name: str
    source: str
    """File in the staged bundle."""
    target: str = "provision"
    signature: str = "http"
    creates: int = 1
    """Pools that it must create per event; anything else fails the measurement."""


HELLO = Variant(name="hello world of the framework", source="hello.py", target="hello", creates=0)
NOOP = Variant(
    name="CloudEvent that does nothing", source="noop_event.py", target="noop", signature="cloudevent", creates=0
)
OURS = Variant(name="our bundle", source="main.py")


class Site:
    """Where functions start from: the staged bundle, and an environment of the pinned packages."""

    def __init__(self, bundle: Path, pinned: list[Distribution], folder: Path) -> None:
        """Make the environment; it has exactly these packages."""
        self.bundle = bundle
        self.framework = make_environment(pinned, folder / "environment").parent / "functions-framework"
        """The script that starts the framework."""


class ServedFunction:
    """The framework's server with one function; leaving the ``with`` block ends it."""

    def __init__(self, variant: Variant, site: Site, environment: Mapping[str, str]) -> None:
        (self._port,) = draw_ports(1)
        self.process = MeteredProcess(
            [
                str(site.framework),
                *("--source", str(site.bundle / variant.source), "--target", variant.target),
                *("--signature-type", variant.signature, "--host", HOST, "--port", str(self._port)),
            ],
            folder=site.bundle,
            environment={**environment, "THREADS": THREADS},
            log=site.bundle / "function.log",
        )
        self._variant = variant
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        self.process.__enter__()
        return self

    def __exit__(self, *given: object) -> None:
        if self._connection:
            self._connection.close()
        self.process.__exit__(*given)

    def push(self, body: bytes) -> None:
        """Send one event over the kept connection and wait for the answer.

        Connects first, patiently.

        Raises Failed: the answer is no success, or the function ended.
        """
        connection = self._connection or self._connect()
        connection.request("POST", "/", body, _HEADERS)
        response = connection.getresponse()
        answer = response.read()
        if not 200 <= response.status < 300:
            self.process.check()
            raise Failed(f"{self._variant.name}: HTTP {response.status}: {answer[:200]!r}\n{self.process.tail()}")

    def _connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=_START_SECONDS)
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            with suppress(ConnectionError):
                connection.connect()
                # Otherwise head and body would leave one after the other, 40 ms apart.
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connection = connection
                return connection
            self.process.check()
            time.sleep(0.005)
        raise Failed(f"{self._variant.name}: does not listen after {_START_SECONDS:g} s")


def demand_push(number: int = 7) -> bytes:
    """Return the body of a push about a JobSet, the leader of whose one slice is unschedulable."""
    subject = ObjectName(kind="JobSet", namespace=NAMESPACE, name=jobset_name(number), uid=jobset_uid(number))
    message = format_message(Event(type=EventType.DEMAND, cluster=CLUSTER, subject=subject))
    pushed = {
        "data": base64.b64encode(message.data).decode(),
        "attributes": message.attributes,
        "messageId": "1",
        "publishTime": "2026-11-20T10:00:00Z",
    }
    subscription = "projects/bench-project/subscriptions/provision"
    return json.dumps({"message": pushed, "subscription": subscription, "deliveryAttempt": 1}).encode()
