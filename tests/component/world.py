"""One deployment on fakes, with the few words that tests need: deliver, sweep, and the outcome."""

import dataclasses
import json
import logging
from typing import Any

from shared.answer import Answer
from shared.core import labels
from shared.core.identity.names import SliceClaim, build_pool_name
from shared.core.identity.pools import PoolSnapshot
from shared.core.messages import Event, Message
from shared.core.ports import Ports, SideBySide
from shared.core.settings import ClusterSettings
from shared.core.times import SHARED_SECONDS
from shared.core.workloads import PodView
from shared.deliver import deliver, deliver_sweep
from shared.edges.structured_logs import StructuredFormatter
from shared.engine.looks.shared_reads import RecentReads
from tests.builders import CLUSTER, NOW, a_claim, a_jobset, a_pod, a_pool, a_push, settings
from tests.component.fakes import FakeCluster, FakeNodePools, StepClock

OTHER = "projects/p/locations/us-east5/clusters/other"
"""The second cluster of a world of two."""


def claim_of(index: int) -> SliceClaim:
    """Return the claim of a slice of the plain case."""
    return a_claim(slice_key=f"default/train-workers-{index}")


def slice_name(index: int, attempt: int = 0) -> str:
    """Return the name of the pool of an attempt of a slice of the plain case."""
    return build_pool_name(claim_of(index), attempt)


def name_of(attempt: int) -> str:
    """Return the name of the pool of an attempt of the first slice."""
    return slice_name(0, attempt)


NAME = name_of(0)


def orphan(name: str, *, kind: str = "JobSet", age_seconds: float = 60.0) -> PoolSnapshot:
    """A pool whose workload of this name does not exist."""
    claim = a_claim(kind=kind, name=name, owner_uid=f"uid-{name}", slice_key=f"default/{name}-w-0")
    return a_pool(claim=claim, age_seconds=age_seconds)


class Records(logging.Handler):
    """What was logged, as the JSON that Cloud Logging would get."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(StructuredFormatter("test"))
        self.found: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(json.loads(self.format(record)))

    def expect_in_order(self, *patterns: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the records that match the patterns in this order; others may be between."""
        rest, matched = iter(self.found), []
        for pattern in patterns:
            for record in rest:
                if pattern.items() <= record.items():
                    matched.append(record)
                    break
            else:
                raise AssertionError(f"no record {pattern} after {matched}; logged: {self.found}")
        return matched


class World:
    """The plain case: JobSet ``default/train`` waits for its first slice."""

    def __init__(self, records: Records, *, clusters: tuple[str, ...] = (CLUSTER,), **overrides: Any) -> None:
        self.records = records
        self.pools = FakeNodePools()
        self.clusters = {name: FakeCluster() for name in clusters}
        self.cluster = self.clusters[CLUSTER]
        self.clock = StepClock(NOW)
        self.use(**overrides)
        self.cluster.add(a_pod(), a_jobset())

    def use(self, *, mode: str = "", **overrides: Any) -> None:
        """Set other settings from here on, and the mode of the namespace of the workloads."""
        for live in self.clusters.values():
            live.namespace_labels["default"] = {labels.MODE: mode} if mode else {}
        self.ports = Ports(
            settings=settings(**overrides), pools=self.pools, clusters=dict(self.clusters), clock=self.clock
        )

    def share_reads(self) -> None:
        """Let deliveries of the same few seconds share what they list, as in one instance."""
        self.ports = dataclasses.replace(self.ports, lists=RecentReads(self.clock, SHARED_SECONDS))

    def add_slices(self, count: int, **pod: Any) -> list[PodView]:
        """Let the JobSet have so many slices, and each leader wait; return the leaders."""
        pods = [a_pod(index=index, uid=f"pod-{index}", **pod) for index in range(count)]
        self.cluster.add(a_jobset(replicas=count), *pods)
        return pods

    def add_pools(self, count: int, **fields: Any) -> list[PoolSnapshot]:
        """Let so many slices of the JobSet have a pool that runs."""
        pools = [a_pool(claim=claim_of(index), **fields) for index in range(count)]
        self.pools.add(CLUSTER, *pools)
        return pools

    def deliver(self, sent: Event | Message | bytes, function: str = "provision") -> Answer:
        body = sent if isinstance(sent, bytes) else a_push(sent)
        return deliver(function, body, self.ports)

    def collect(self, event: Event) -> Answer:
        return self.deliver(event, "collect")

    def sweep(self, *, threads: SideBySide | None = None) -> tuple[int, dict[str, int]]:
        """Return the status of the answer, and what the sweep counted."""
        answer, counts = deliver_sweep(dataclasses.replace(self.ports, threads=threads))
        return answer.status, counts

    @property
    def last(self) -> dict[str, Any]:
        return self.records.found[-1]

    def says(self) -> tuple[str, str]:
        """Return verdict and reason of what was logged last."""
        return str(self.last.get("decision")), str(self.last.get("reason"))

    def notices(self) -> list[tuple[str, str, bool]]:
        """Return the Kubernetes Events: object kind, reason, warning."""
        return [(each.kind, each.reason, each.warning) for each in self.cluster.notices]

    def alive(self) -> set[str]:
        """Return the names of the pools that are not being deleted."""
        return {name for (_, name), pool in self.pools.pools.items() if pool.status != "STOPPING"}

    def expect_one_pool(self, *, created: int = 1) -> str:
        """Return the name of the one pool there is, made by so many creates that GKE accepted."""
        names = self.pools.names(CLUSTER)
        assert len(names) == 1, f"one pool wanted, found {names}"
        assert len(self.pools.bodies) == created
        return names[0]


def two_clusters(records: Records, **overrides: Any) -> World:
    """Return the plain case beside a second, empty cluster."""
    world = World(records, clusters=(CLUSTER, OTHER))
    other = ClusterSettings(endpoint="http://127.0.0.1:9", zone="us-east5-a")
    world.use(clusters=settings().clusters | {OTHER: other}, **overrides)
    return world
