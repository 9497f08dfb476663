"""What happens to clusters and pools that nobody asked for.

Google's own operations, and other people's.

Driven by the faults `cluster_busy` and `external_actor`.
"""

from standins.google.gke.faults.fault_rules import ClusterBusy, ExternalActor, Target
from standins.google.gke.model.lifecycle import Lifecycle
from standins.google.gke.model.operations import OperationDesk
from standins.google.gke.model.proto_messages import OperationType
from standins.google.gke.model.state import ClusterRecord, PoolRecord, World

_TRY_AGAIN = 10.0


class Disturbances:
    """Starts operations that no caller asked for."""

    def __init__(self, world: World, desk: OperationDesk, lifecycle: Lifecycle) -> None:
        self._world = world
        self._desk = desk
        self._lifecycle = lifecycle
        lifecycle.when_running.append(self._expect_somebody)

    def before_call(self, cluster: ClusterRecord, target: Target) -> None:
        """Start scripted operations where nothing stands in their way."""
        if self._desk.blocking(cluster.name, "") is None:
            busy = self._world.faults.take(ClusterBusy, target)
            if busy is not None:
                self._lifecycle.occupy_cluster(cluster, OperationType[busy.type], busy.seconds)

    def _expect_somebody(self, cluster: ClusterRecord, pool: PoolRecord) -> None:
        fault = self._world.faults.take(ExternalActor, self._world.target(cluster.name, pool))
        if fault is not None:
            self._world.agenda.after(fault.seconds, lambda: self._act(cluster, pool, fault))

    def _act(self, cluster: ClusterRecord, pool: PoolRecord, fault: ExternalActor) -> None:
        if not self._lifecycle.exists(cluster, pool):
            return
        if not pool.resting or self._desk.blocking(cluster.name, pool.name) is not None:
            self._world.agenda.after(_TRY_AGAIN, lambda: self._act(cluster, pool, fault))
            return
        pool.message.config.labels.clear()
        pool.message.config.labels.update(fault.labels)
        self._lifecycle.renew_etag(cluster, pool)
        seconds = self._world.draw("update", cluster.name, pool.name, self._world.scenario.timings.update)
        self._lifecycle.reconcile(cluster, pool, OperationType.UPGRADE_NODES, seconds)
