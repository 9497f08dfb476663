"""The exporter of a scenario: the real memory sees what a watch of the cluster would show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from exporter.observed_objects import ObservedPods, ObservedWorkloads, WatchedPod
from shared.edges.kubernetes import ObjectMeta
from shared.kinds.table import KINDS
from shared.model.times import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.model.messages import Event
    from tests.simulation.sim_cluster import SimPod
    from tests.simulation.sim_workloads import Workload
    from tests.simulation.sim_world import World


class SimExporter:
    """One cluster's exporter, which may be down."""

    def __init__(self, world: World, cluster: str) -> None:
        self._world, self._cluster = world, cluster
        self.up = True
        self._start()

    def _start(self) -> None:
        self._pods = {kind.name: ObservedPods(self._cluster, kind) for kind in KINDS}
        self._workloads = {kind.name: ObservedWorkloads(self._cluster, kind) for kind in KINDS[:-1]}

    def stop(self) -> None:
        """Let it end, with all that it remembers and keeps: a new one reports that again."""
        self.up = False

    def start(self) -> None:
        """Let a new one start: it lists everything."""
        if self.up:
            return
        self.up = True
        self._start()
        truth = self._world.clusters[self._cluster]
        for made in list(truth.workloads.values()):
            self.see_workload(made)
        for pod in list(truth.waiting.values()):
            self.see_pod(pod)

    def see_pod(self, pod: SimPod) -> None:
        """Show a pod without a node."""
        if self.up and pod.kind:
            self._publish(self._pods[pod.kind.name].see(build_pod(pod)))

    def lose_pod(self, pod: SimPod) -> None:
        if self.up and pod.kind:
            gone = WatchedPod(metadata=ObjectMeta(uid=pod.view.uid))
            self._publish(self._pods[pod.kind.name].lose(gone))

    def see_workload(self, made: Workload) -> None:
        if self.up and made.kind in self._workloads:
            self._publish(self._workloads[made.kind].see(made.view))

    def lose_workload(self, made: Workload) -> None:
        if self.up and made.kind in self._workloads:
            self._publish(self._workloads[made.kind].lose(made.view))

    def _publish(self, events: Iterable[Event]) -> None:
        for event in events:
            self._world.publish(self._cluster, event)


def build_pod(pod: SimPod) -> WatchedPod:
    """Return a pod as the API has it."""
    since = format_time(pod.view.unschedulable_since)
    word = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since}
    body = msgspec.json.encode(pod.body | {"status": {"conditions": [word] if since else []}})
    return msgspec.json.decode(body, type=WatchedPod)
