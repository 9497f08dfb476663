"""What happens to clusters and pools that nobody asked for.

Google's own operations, and other people's.

Driven by the faults `cluster_busy`, `pool_busy` and `external_actor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from standins.fakegke.faults.fault_rules import ClusterBusy, ExternalActor, PoolBusy
from standins.fakegke.model.proto_messages import OperationType

if TYPE_CHECKING:
    from standins.fakegke.faults.fault_rules import Target
    from standins.fakegke.model.lifecycle import Lifecycle
    from standins.fakegke.model.operations import OperationDesk
    from standins.fakegke.model.state import ClusterRecord, PoolRecord, World

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
        faults = self._world.faults
        if faults.has(ClusterBusy) and self._desk.blocking(cluster.name, "") is None:
            busy = faults.take(ClusterBusy, target)
            if busy is not None:
                self._lifecycle.occupy_cluster(cluster, OperationType[busy.type], busy.seconds)
        if not faults.has(PoolBusy):
            return
        for pool in list(cluster.pools.values()):
            if pool.resting and self._desk.blocking(cluster.name, pool.name) is None:
                self._occupy(cluster, pool)

    def _occupy(self, cluster: ClusterRecord, pool: PoolRecord) -> None:
        busy = self._world.faults.take(PoolBusy, self._world.target(cluster.name, pool))
        if busy is not None:
            visible = busy.type != "SET_NODE_POOL_MANAGEMENT"
            self._lifecycle.reconcile(cluster, pool, OperationType[busy.type], busy.seconds, visible=visible)

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
        if fault.action == "delete":
            self._lifecycle.delete(cluster, pool)
            return
        if fault.action == "relabel":
            pool.message.config.labels.clear()
            pool.message.config.labels.update(fault.labels)
        self._lifecycle.renew_etag(cluster, pool)
        seconds = self._world.draw(
            f"update:{cluster.name.cluster}:{pool.name}", self._world.scenario.timings.update
        )
        self._lifecycle.reconcile(cluster, pool, OperationType.UPGRADE_NODES, seconds)
