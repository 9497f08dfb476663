"""The HTTP answers: /healthz (is the process alive?), /readyz (what is missing?), /metrics.

The process is alive if its loops run, whether or not it reaches Pub/Sub and the API server. So an
outage of one of them does not restart the exporter again and again.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import prometheus_client as prometheus
from prometheus_client.exposition import ThreadingWSGIServer

from shared import VERSION

if TYPE_CHECKING:
    from wsgiref.types import StartResponse

HEARTBEAT_SECONDS_MAX = 180.0
"""A loop shows itself at least every 90 s of silence plus the pauses and time-outs of one attempt:
twice that."""
PREFIX = "tpu_provisioner_exporter"
Clock = Callable[[], float]  # returns seconds that never go back
_LATENCY_SECONDS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5),
    *(1, 2.5, 5, 10, 30, 60, 300, 600),
)


class Role(StrEnum):
    """The role of this process among the exporters of the cluster."""

    STARTING = "starting"
    STANDBY = "standby"  # another exporter reports. This one waits for the lease.
    LEADER = "leader"
    ENDING = "ending"


class Health:
    """The state of every loop: written by the loops, read by the HTTP server."""

    def __init__(self, expected: Collection[str], clock: Clock = time.monotonic) -> None:
        """Begin as starting. All `expected` kinds must be listed once before a leader is ready."""
        self._expected, self._clock = expected, clock
        self._lock = threading.Lock()
        self._beats: dict[str, float] = {}
        self._listed: set[str] = set()
        self._lacks: dict[str, str] = {}
        self.role = Role.STARTING

    def beat(self, loop: str) -> None:
        """Note that a loop runs."""
        self._beats[loop] = self._clock()

    def note_listed(self, resource: str) -> None:
        """Note that a kind has been listed in full, or does not have to be in the cluster."""
        with self._lock:
            self._listed.add(resource)

    def note_lack(self, resource: str, what: str) -> None:
        """Note what a loop cannot do now; an empty text when it can again."""
        with self._lock:
            self._lacks[resource] = what

    def liveness(self) -> tuple[bool, Mapping[str, object]]:
        """Return whether every loop has run lately, and how long ago each did."""
        now = self._clock()
        ages = {loop: round(now - beat, 1) for loop, beat in self._beats.items()}
        alive = all(age <= HEARTBEAT_SECONDS_MAX for age in ages.values())
        return alive, {"alive": alive, "heartbeat_age_seconds": ages}

    def readiness(self) -> tuple[bool, Mapping[str, object]]:
        """Return whether this process is ready, and what is missing if it is not."""
        with self._lock:
            lacks = {name: what for name, what in self._lacks.items() if what}
            unlisted = [name for name in self._expected if name not in self._listed]
        if self.role is Role.LEADER:
            for name in unlisted:
                lacks.setdefault(name, "the first list is not complete yet")
        ready = self.role is Role.STANDBY or (self.role is Role.LEADER and not unlisted)
        return ready, {"ready": ready, "role": self.role, "missing": lacks}


class Metrics:
    """All metrics of one exporter, in their own registry without the default collectors.

    docs/messages.md lists them for operators.
    """

    def __init__(self) -> None:
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = prometheus.CollectorRegistry()
        self.published = self._counter("events_published", "Events stored by Pub/Sub.", ("type",))
        self.publish_failures = self._counter(
            "publish_failures", "Failed attempts to publish a batch.", ("reason",)
        )
        self.publish_seconds = prometheus.Histogram(
            "publish_seconds",
            "Seconds from the arrival of a watch event until Pub/Sub has stored the event.",
            namespace=PREFIX,
            registry=self.registry,
            buckets=_LATENCY_SECONDS,
        )
        self.watch_restarts = self._counter(
            "watch_restarts",
            "Watches that were started again, by the reason why the previous one ended.",
            ("resource", "reason"),
        )
        self.unreadable = self._counter(
            "objects_unreadable", "Objects skipped because they could not be read.", ("resource",)
        )
        own: Any = {"namespace": PREFIX, "registry": self.registry}
        prometheus.Info("build", "The version that runs.", **own).info({"version": VERSION})
        self.is_leader = self._gauge("is_leader", "1 while this exporter is the leader.")

    def observe(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Add a gauge whose value is asked for at each scrape."""
        self._gauge(name, help_text).set_function(read)

    def _counter(self, name: str, help_text: str, labels: tuple[str, ...]) -> prometheus.Counter:
        return prometheus.Counter(name, help_text, labels, namespace=PREFIX, registry=self.registry)

    def _gauge(self, name: str, help_text: str) -> prometheus.Gauge:
        return prometheus.Gauge(name, help_text, namespace=PREFIX, registry=self.registry)


class HealthServer:
    """A small HTTP server in threads of its own; any other path is 404."""

    def __init__(self, host: str, port: int, health: Health, metrics: Metrics) -> None:
        """Listen; port 0 takes a free one."""
        self._judgements = {"/healthz": health.liveness, "/readyz": health.readiness}
        self._show_metrics = prometheus.make_wsgi_app(metrics.registry)
        self._server = make_server(host, port, self._answer, ThreadingWSGIServer, _Handler)
        self.port = self._server.server_port

    def start(self) -> None:
        """Answer from now on."""
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()

    def stop(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            shown: Iterable[bytes] = self._show_metrics(environ, start)
            return shown
        judge = self._judgements.get(path)
        if judge is None:
            start("404 Not Found", [])
            return []
        good, facts = judge()
        status = "200 OK" if good else "503 Service Unavailable"
        start(status, [("Content-Type", "application/json")])
        return [json.dumps(facts).encode() + b"\n"]


class _Handler(WSGIRequestHandler):
    timeout = 10

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- http.server's name
        """Log nothing: probes come every few seconds."""
