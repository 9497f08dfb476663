"""One function as it is deployed: cold start, warm events, memory, beside the floors under it.

It is served by the framework as the buildpack starts it. What it talks to (metadata server, GKE,
Kubernetes API) answers from memory and judges nothing: an answer must only cost as little as
possible.
"""

import base64
import http.client
import json
import re
import socket
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Self, TypeVar

from benchmarks.figures import Figure, compare
from benchmarks.processes import Consumption, Failed, MeteredProcess, Staged
from benchmarks.samples import CLUSTER, NAMESPACE, SINCE, Template, jobset_name, jobset_uid, sample_of
from shared.model.messages import Event, EventType, format_message
from shared.model.names import ObjectName
from standins.kit.addresses import HOST, draw_ports
from standins.kit.local_answers import Answer, Asked, LocalAnswers

T = TypeVar("T")
_NUMBER = re.compile(r"\b(\d{9})\b")  # in the name of each object: which one it is
_ACCOUNT = {"aliases": ["default"], "email": "functions@bench-project.iam.gserviceaccount.com", "scopes": []}
_METADATA: dict[str, Any] = {
    "/": {},
    "/computeMetadata/v1/project/project-id": "bench-project",
    "/computeMetadata/v1/universe/universe-domain": "googleapis.com",
    "/computeMetadata/v1/instance/service-accounts/default/": _ACCOUNT,
    "/computeMetadata/v1/instance/service-accounts/default/token": {
        "access_token": "bench",
        "expires_in": 3599,
        "token_type": "Bearer",
    },
}
_OPERATION = b'{"name": "operation-1", "operationType": "CREATE_NODE_POOL", "status": "RUNNING"}'
_NAMED = {
    "namespaces": b'{"metadata": {"name": "NAME", "uid": "of-default"}}',
    "clusters": b'{"name": "NAME", "releaseChannel": {"channel": "REGULAR"}}',
}
"""Objects of which only the name matters, by their kind."""


class CloudStandIn(LocalAnswers):
    """All of it on one port of 127.0.0.1 while its ``with`` block runs."""

    def __init__(self) -> None:
        self._sample = sample_of("JobSet")
        self._creates: list[str] = []
        super().__init__(self._answer)

    def environment(self) -> dict[str, str]:
        """Return the variables by which a function finds all this.

        As on the platform, the function has a Google account.
        """
        clusters = {CLUSTER: {"endpoint": self.url, "zone": "us-east5-b"}}
        return {
            "TPU_PROVISIONER_CLUSTERS": json.dumps(clusters),
            "TPU_PROVISIONER_GKE_ENDPOINT": self.url,
            "TPU_PROVISIONER_CREDENTIALS": "google",
            "GCE_METADATA_HOST": self.address,
            "GCE_METADATA_IP": self.address,
            # No configuration of this machine's user may answer first.
            "CLOUDSDK_CONFIG": "/nonexistent",
        }

    def take_creates(self) -> int:
        """Return how many pools were created since the last time."""
        creates, self._creates = self._creates, []
        return len(creates)

    def _answer(self, asked: Asked) -> Answer:
        path = asked.path.partition("?")[0]
        numbers, (kind, name) = _NUMBER.findall(asked.path), path.split("/")[-2:]
        number = int(numbers[-1]) if numbers else 0
        if path in _METADATA:
            return Answer(200, json.dumps(_METADATA[path]).encode())
        if asked.method == "POST" and name == "nodePools":
            self._creates.append(path)
            return Answer(200, _OPERATION)
        if asked.method == "POST":  # an Event
            return Answer(201, asked.body)
        answers: dict[str, Callable[[], bytes]] = {
            "pods": lambda: b'{"metadata": {}, "items": [%s]}' % _make_young(self._sample.waiting, number),
            "nodePools": lambda: b"{}",
            "operations": lambda: b"{}",
            "jobsets": lambda: _make_young(self._sample.running, number),
        }
        if answer := answers.get(name) or answers.get(kind):
            return Answer(200, answer())
        found = kind in _NAMED
        return Answer(200 if found else 404, _NAMED.get(kind, b"{}").replace(b"NAME", name.encode()))


def _make_young(sample: Template, number: int) -> bytes:
    """Return an object made now, as that of a plain demand; an older one makes more reads."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return sample.make(number).replace(SINCE.encode(), now.encode())


THREADS = "8"  # what the deployment sets: as many as the requests that one instance takes at a time
_START_SECONDS = 90.0
_HEADERS = {
    "Content-Type": "application/json",
    "ce-specversion": "1.0",
    "ce-id": "1",
    "ce-source": "//pubsub.googleapis.com/projects/bench-project/topics/workload-events",
    "ce-type": "google.cloud.pubsub.topic.v1.messagePublished",
}
"""As Eventarc sends them; an HTTP function does not look at the ``ce-`` ones."""
COLD = "function: cold start to first handled event (CPU)"
WARM = "function: warm event (CPU)"
MEMORY = "function: memory after the warm events"
EVENTS, WARMING_EVENTS = 300, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to build the function."""

    name: str
    source: str  # file in the bundle
    target: str
    signature: str = "http"
    creates: int = 0  # pools that it must create per event; anything else fails the measurement


HELLO = Variant(name="hello world of the framework", source="hello.py", target="hello")
NOOP = Variant(name="CloudEvent that does nothing", source="noop_event.py", target="noop", signature="cloudevent")
OURS = Variant(name="the whole provision event (ours)", source="main.py", target="provision", creates=1)


class ServedFunction:
    """The framework's server with one function; leaving the ``with`` block ends it."""

    def __init__(self, variant: Variant, site: Staged, cloud: CloudStandIn) -> None:
        (self._port,) = draw_ports(1)
        self._variant, self._cloud = variant, cloud
        self.process = MeteredProcess(
            [
                str(site.python.with_name("functions-framework")),
                *("--source", str(site.code / variant.source), "--target", variant.target),
                *("--signature-type", variant.signature, "--host", HOST, "--port", str(self._port)),
            ],
            folder=site.code,
            environment={**cloud.environment(), "THREADS": THREADS},
            log=site.code / "function.log",
        )
        self._connection = http.client.HTTPConnection(HOST, self._port, timeout=_START_SECONDS)

    def __enter__(self) -> Self:
        self.process.__enter__()
        return self

    def __exit__(self, *given: object) -> None:
        self._connection.close()
        self.process.__exit__(*given)

    def push(self, numbers: Iterable[int]) -> None:
        """Send an event about each JobSet over the kept connection and wait for its answer.

        Raises Failed: an answer is no success, the function ended, or the events did not lead to
        exactly the creates that they should.
        """
        bodies = [demand_push(number) for number in numbers]  # before the first is sent
        self._cloud.take_creates()
        for body in bodies:
            if self._connection.sock is None:
                self.process.wait_until(f"{self._variant.name} to listen", self._connect)
            self._connection.request("POST", "/", body, _HEADERS)
            response = self._connection.getresponse()
            answer = response.read()
            if not 200 <= response.status < 300:
                raise Failed(f"{self._variant.name}: {response.status}: {answer[:200]!r}\n{self.process.tail()}")
        creates, wanted = self._cloud.take_creates(), self._variant.creates * len(bodies)
        if creates != wanted:
            raise Failed(f"{self._variant.name}: {creates} creates for {len(bodies)} events, not {wanted}")

    def _connect(self) -> bool:
        with suppress(ConnectionError):
            self._connection.connect()
            # Otherwise head and body would leave one after the other, 40 ms apart.
            self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return True
        return False


def demand_push(number: int) -> bytes:
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


def measure_cold(site: Staged, runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Return the figures of `runs` alternating cold starts of each variant.

    One round before them is not counted.
    """

    def start(variant: Variant, cloud: CloudStandIn) -> float:
        with ServedFunction(variant, site, cloud) as function:
            function.push([7])
            return function.process.consumption().cpu_seconds * 1_000

    samples = _take_turns((HELLO, OURS), runs + 1, start, lambda text: say(f"cold start, {text}"))
    floor, ours = samples[HELLO.name][1:], samples[OURS.name][1:]
    return [
        compare(COLD, HELLO.name, "ms", float, floor),
        compare(COLD, OURS.name, "ms", float, ours, floor=floor, budget="cold_start"),
    ]


def measure_warm(site: Staged, runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Return the figures of `runs` alternating runs of a few hundred events each."""

    def send(variant: Variant, cloud: CloudStandIn) -> tuple[float, Consumption]:
        with ServedFunction(variant, site, cloud) as function:
            function.push(range(WARMING_EVENTS))
            before = function.process.consumption()
            function.push(range(WARMING_EVENTS, WARMING_EVENTS + EVENTS))
            after = function.process.consumption()
        return (after.cpu_seconds - before.cpu_seconds) * 1_000 / EVENTS, after

    samples = _take_turns((NOOP, OURS, HELLO), runs, send, lambda text: say(f"warm events, {text}"))
    empty, ours, hello = (samples[each.name] for each in (NOOP, OURS, HELLO))
    peak = "peak resident size of a process"
    return [
        compare(WARM, NOOP.name, "ms", itemgetter(0), empty),
        compare(WARM, OURS.name, "ms", itemgetter(0), ours, floor=empty, budget="warm_event"),
        compare(
            MEMORY, peak, "MiB", lambda each: each[1].peak_mebibytes, ours, floor=hello, budget="function_memory"
        ),
    ]


def _take_turns(
    variants: Iterable[Variant],
    runs: int,
    measure: Callable[[Variant, CloudStandIn], T],
    say: Callable[[str], None],
) -> dict[str, list[T]]:
    """Return the samples of each variant; they take turns, so that a neighbour hits all alike."""
    samples: dict[str, list[T]] = defaultdict(list)
    with CloudStandIn() as cloud:
        for run in range(runs):
            for variant in variants:
                say(f"round {run + 1} of {runs}: {variant.name}")
                samples[variant.name].append(measure(variant, cloud))
    return samples
