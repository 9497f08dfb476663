"""One function as it is deployed: cold start, warm events, memory, beside the floors under it.

It is served by the framework as the buildpack starts it. What it talks to (metadata server, GKE,
Kubernetes API) answers from memory and judges nothing: an answer must only cost as little as
possible. The variants take turns, so that a busy neighbour hits all of them alike.
"""

import base64
import http.client
import json
import re
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import Distribution
from pathlib import Path
from typing import Self

from benchmarks.figures import Figure, compare
from benchmarks.metering import Consumption, Failed, MeteredProcess
from benchmarks.samples import CLUSTER, NAMESPACE, SINCE, Template, jobset_name, jobset_uid, sample_of
from benchmarks.staging import make_environment
from shared.model.messages import Event, EventType, format_message
from shared.model.names import ObjectName
from standins.kit.addresses import HOST, draw_ports
from standins.kit.local_answers import Answer, Asked, LocalAnswers

_NUMBER = re.compile(r"\b(\d{9})\b")
"""In the name of each object: which one it is."""
_OPERATION = {"name": "operation-1", "operationType": "CREATE_NODE_POOL", "status": "RUNNING"}
_NAMED = {
    "namespaces": b'{"metadata": {"name": "NAME", "uid": "of-default"}}',
    "clusters": b'{"name": "NAME", "releaseChannel": {"channel": "REGULAR"}}',
}
"""Objects of which only the name matters, by their kind."""
_TOKEN = {"access_token": "bench", "expires_in": 3599, "token_type": "Bearer"}
_METADATA: dict[str, bytes] = {
    "/": b"computeMetadata/\n",
    "/computeMetadata/v1/project/project-id": b'"bench-project"',
    "/computeMetadata/v1/universe/universe-domain": b'"googleapis.com"',
    "/computeMetadata/v1/instance/service-accounts/default/": json.dumps(
        {"aliases": ["default"], "email": "functions@bench-project.iam.gserviceaccount.com", "scopes": []}
    ).encode(),
    "/computeMetadata/v1/instance/service-accounts/default/token": json.dumps(_TOKEN).encode(),
}


class CloudStandIn(LocalAnswers):
    """All of it on two ports of 127.0.0.1 while its ``with`` block runs."""

    def __init__(self) -> None:
        sample = sample_of("JobSet")
        self._leader, self._jobset = sample.waiting, sample.running
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
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

    def take_counts(self) -> Counter[str]:
        """Return how often each thing was asked for since the last time, and begin anew."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        return counts

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1

    def _answer(self, asked: Asked) -> Answer:
        numbers, path, method = _NUMBER.findall(asked.path), asked.path.partition("?")[0], asked.method
        number = int(numbers[-1]) if numbers else 0
        if path in _METADATA:
            self._count("metadata")
            return Answer(200, _METADATA[path])
        if method == "POST" and path.endswith("/nodePools"):
            self._count("create")
            return Answer(200, json.dumps(_OPERATION).encode())
        if method == "POST" and path.endswith("/events"):
            self._count("event")
            return Answer(201, asked.body)
        if path.endswith("/pods"):
            self._count("list")
            return Answer(200, b'{"metadata": {}, "items": [%s]}' % _make_young(self._leader, number))
        if path.endswith(("/nodePools", "/operations")):
            self._count("list")
            return Answer(200, b"{}")
        kind, name = path.split("/")[-2:]
        named = _NAMED.get(kind, b"").replace(b"NAME", name.encode())
        found = _make_young(self._jobset, number) if kind == "jobsets" else named
        self._count("get" if found else f"unknown {method} {path}")
        return Answer(200, found) if found else Answer(404, b'{"error": {"message": "no such object"}}')


def _make_young(sample: Template, number: int) -> bytes:
    """Return an object made now, as that of a plain demand; an older one makes more reads."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return sample.make(number).replace(SINCE.encode(), now.encode())


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
    """File in the bundle."""
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


COLD = "function: cold start to first handled event (CPU)"


def measure_cold(site: Site, runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Return the figures of `runs` alternating cold starts of each variant.

    One round before them is not counted.
    """
    samples: dict[str, list[float]] = defaultdict(list)
    with CloudStandIn() as cloud:
        for run in range(runs + 1):
            for variant in (HELLO, OURS):
                say(f"cold start, round {run} of {runs}: {variant.name}")
                milliseconds = _start_once(variant, cloud, site)
                if run:
                    samples[variant.name].append(milliseconds)
    return compare_variants(COLD, samples, HELLO, [(OURS, "cold_start")])


def compare_variants(
    section: str, samples: Mapping[str, list[float]], floor: Variant, others: Iterable[tuple[Variant, str]]
) -> list[Figure]:
    """Return the milliseconds of a variant, and of others beside it, each with its budget."""
    base = samples[floor.name]
    return [
        compare(section, floor.name, "ms", float, base),
        *(compare(section, each.name, "ms", float, samples[each.name], base, key) for each, key in others),
    ]


def _start_once(variant: Variant, cloud: CloudStandIn, site: Site) -> float:
    """Return the CPU milliseconds of one cold start.

    Raises Failed: the event did not lead to exactly the creates that it should.
    """
    cloud.take_counts()
    with ServedFunction(variant, site, cloud.environment()) as function:
        function.push(demand_push())
        used = function.process.consumption()
    counts = cloud.take_counts()
    check_creates(variant, counts["create"], events=1)
    return used.cpu_seconds * 1_000


def check_creates(variant: Variant, creates: int, *, events: int) -> None:
    """Raise `Failed` unless every event led to the creates that it should."""
    if creates != variant.creates * events:
        raise Failed(f"{variant.name}: {creates} creates for {events} events, not {variant.creates} each")


WARM = "function: warm event (CPU)"
MEMORY = "function: memory after the warm events"
EVENTS = 300
WARMING_EVENTS = 30
WHOLE = Variant(name="the whole provision event (ours)", source="main.py")


def measure_warm(site: Site, runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Return the figures of `runs` alternating runs of a few hundred events each."""
    events: dict[str, list[float]] = defaultdict(list)
    memory: dict[str, list[Consumption]] = defaultdict(list)
    with CloudStandIn() as cloud:
        for run in range(runs):
            for variant in (NOOP, WHOLE, HELLO):
                say(f"warm events, round {run + 1} of {runs}: {variant.name}")
                milliseconds, used_once = _run_warm(variant, cloud, site)
                events[variant.name].append(milliseconds)
                memory[variant.name].append(used_once)
    used, floor = memory[WHOLE.name], memory[HELLO.name]
    peak = f"{OURS.name}: peak resident size of a process"
    charged = f"{OURS.name}: what the instance is charged, gunicorn's master included"
    return [
        *compare_variants(WARM, events, NOOP, [(WHOLE, "warm_event")]),
        compare(MEMORY, peak, "MiB", lambda each: each.peak_mebibytes, used, floor, "function_memory"),
        compare(MEMORY, charged, "MiB", lambda each: each.charged_mebibytes, used, floor),
    ]


def _run_warm(variant: Variant, cloud: CloudStandIn, site: Site) -> tuple[float, Consumption]:
    """Return CPU milliseconds per event, and what the processes had used in the end."""
    bodies = [demand_push(number) for number in range(WARMING_EVENTS + EVENTS)]
    with ServedFunction(variant, site, cloud.environment()) as function:
        for body in bodies[:WARMING_EVENTS]:
            function.push(body)
        cloud.take_counts()
        before = function.process.consumption()
        for body in bodies[WARMING_EVENTS:]:
            function.push(body)
        after = function.process.consumption()
        check_creates(variant, cloud.take_counts()["create"], events=EVENTS)
    return (after.cpu_seconds - before.cpu_seconds) * 1_000 / EVENTS, after
