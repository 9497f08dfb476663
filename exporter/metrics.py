"""The exporter's metrics, in their own registry without the default collectors.

Names begin with ``tpu_provisioner_exporter_`` and are listed for operators in docs/exporter.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
    generate_latest,
)

from shared.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "tpu_provisioner_exporter"
_LATENCY_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600)


class Metrics:
    """All metrics of one exporter."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus-client leaves it untyped
        self.registry = CollectorRegistry(auto_describe=True)
        self.published = self._counter("events_published", "Events stored by Pub/Sub.", ("type", "observed"))
        self.merged = self._counter(
            "events_merged", "Events that a later message about the same workload covers.", ("type", "observed")
        )
        self.publish_failures = self._counter(
            "publish_failures", "Failed attempts to publish a batch.", ("reason",)
        )
        self.publish_seconds = Histogram(
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
        self.watch_events = self._counter("watch_events", "Watch events received.", ("resource", "type"))
        self.unreadable = self._counter(
            "objects_unreadable", "Objects skipped because they could not be read.", ("resource",)
        )
        self.list_seconds = self._gauge("list_seconds", "Seconds that the last full list took.", ("resource",))
        self.listed = self._gauge("listed", "1 after a full list has succeeded.", ("resource",))
        self.absent = self._gauge(
            "resource_absent", "1 while the kind is not installed in the cluster.", ("resource",)
        )
        Info("build", "The version that runs.", namespace=PREFIX, registry=self.registry).info(
            {"version": VERSION}
        )
        self.is_leader = self._gauge("is_leader", "1 while this exporter is the leader.", ())

    def observe(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Add a gauge whose value is asked for at each scrape."""
        self._gauge(name, help_text, ()).set_function(read)

    def observe_labelled(self, name: str, help_text: str, readings: dict[str, Callable[[], float]]) -> None:
        """Add a gauge with one value per resource, asked for at each scrape."""
        gauge = self._gauge(name, help_text, ("resource",))
        for resource, read in readings.items():
            gauge.labels(resource).set_function(read)

    def render(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        return generate_latest(self.registry)

    def _counter(self, name: str, help_text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, help_text, labels, namespace=PREFIX, registry=self.registry)

    def _gauge(self, name: str, help_text: str, labels: tuple[str, ...]) -> Gauge:
        return Gauge(name, help_text, labels, namespace=PREFIX, registry=self.registry)
