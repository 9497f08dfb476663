"""GKE's autoscaler of one cluster: adds all nodes of an empty pool for pods that wait, or none.

Its loop, back-off and times are those of Kubernetes' cluster autoscaler:
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md. It runs only after
something has changed, because nothing else could make it act.
"""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING

from shared.core.identity.pools import PoolStatus
from tests.simulation.sim_creations import EXHAUSTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.sim_cluster import Node, SimCluster, SimPod
    from tests.simulation.sim_pool_bodies import Pool
    from tests.simulation.sim_world import World

LOOP_SECONDS = 10.0
BACK_OFF_SECONDS, BACK_OFF_SECONDS_MAX = 300.0, 1800.0
UNNEEDED_SECONDS = 600.0
UNREGISTERED_SECONDS = 900.0
"""A pool whose nodes do not come for so long is given up."""
_FAILED = (
    "Node scale up in zones {zone} associated with this pod failed: GCE out of resources. Pod is at risk of not "
    "being scheduled."
)
_IN_BACK_OFF = "pod didn't trigger scale-up: {count} in backoff after failed scale-up"


class Autoscaler:
    """Adds and removes the nodes of the autoscaled pools of one cluster."""

    def __init__(self, world: World, cluster: SimCluster) -> None:
        self._world, self._cluster = world, cluster
        self._rng = Random(f"{world.story.seed} autoscaler of {cluster.name}")
        self._due = math.inf

    def wake(self, at: float = 0.0) -> None:
        """Look at the waiting pods in the next loop, or in the first one after a moment."""
        time = self._world.time
        if not any(pool.autoscaled for pool in self._world.gke.pools[self._cluster.name].values()):
            return
        due = (max(time.now, at) // LOOP_SECONDS + 1) * LOOP_SECONDS
        if due < self._due:
            self._due = due
            time.at(due, self._look)

    def note_idle(self, pool: Pool) -> None:
        """Remove the nodes of a pool when nothing has needed them for ten minutes."""
        if pool.autoscaled:
            self._world.time.after(
                UNNEEDED_SECONDS + LOOP_SECONDS * self._rng.random(), lambda: self._shrink(pool)
            )

    def note_loss(self, pool: Pool, *, comes_back: bool) -> None:
        """Take in that nodes of a pool are lost; the group makes them again, or cannot."""
        now, count = self._world.time.now, len(self._cluster.list_nodes_of(pool.name))
        if not pool.autoscaled or pool.short:
            return
        if comes_back:
            pool.note_machines(now, made=count, coming=pool.size - count)
            return
        pool.note_machines(now, made=count, error=EXHAUSTED.format(zone=pool.zone), stays=False)
        self._world.time.after(UNREGISTERED_SECONDS, lambda: self._give_up(pool))

    # --- more nodes -------------------------------------------------------------------------------

    def _look(self) -> None:
        now = self._world.time.now
        if now < self._due:
            return  # an earlier loop has looked meanwhile
        self._due = math.inf
        waiting = [
            pod for pod in self._cluster.waiting.values() if pod.live and pod.units and pod.view.unschedulable
        ]
        unfit = self._leave_out_placed(waiting)
        pools = self._world.gke.pools[self._cluster.name].values()
        empty = [
            pool for pool in pools if pool.waits_empty and not pool.busy and pool.status == PoolStatus.RUNNING
        ]
        fitting = {
            pool.name: found
            for pool in empty
            if (found := [pod for pod in unfit if self._cluster.fits(pod, self._cluster.build_node(pool, ""))])
        }
        choices = [pool for pool in empty if pool.name in fitting and pool.retry_at <= now]
        if choices:
            chosen = self._rng.choice(choices)
            self._ask(chosen, fitting[chosen.name])
            self.wake()
        elif fitting:
            for pod in next(iter(fitting.values())):
                self._cluster.note_scale_up_error(pod, _IN_BACK_OFF.format(count=len(fitting)))

    def _leave_out_placed(self, waiting: Sequence[SimPod]) -> list[SimPod]:
        """Return the pods that have no place on nodes that are there, or are being made."""
        pools = self._world.gke.pools[self._cluster.name].values()
        coming = [pool for pool in pools if pool.busy and pool.status == PoolStatus.RUNNING]
        nodes = [node for node in self._cluster.nodes.values() if node.ready]
        nodes += [self._cluster.build_node(pool, "") for pool in coming for _ in range(pool.size)]
        free = {id(node): node.free for node in nodes}
        homes: dict[str, str] = {}
        left = []
        for pod in waiting:
            node = next((each for each in nodes if self._has_place(pod, each, free[id(each)], homes)), None)
            if node is None:
                left.append(pod)
                continue
            free[id(node)] -= pod.units
            if pod.plan.pool_key:
                homes[pod.plan.pool_key] = node.pool.name
        return left

    def _has_place(self, pod: SimPod, node: Node, free: int, homes: dict[str, str]) -> bool:
        key = pod.plan.pool_key
        taken = [other for other, home in homes.items() if home == node.pool.name]
        mixes = bool(key) and (
            homes.get(key, node.pool.name) != node.pool.name or any(each != key for each in taken)
        )
        return free >= pod.units and not mixes and self._cluster.fits(pod, node)

    def _ask(self, pool: Pool, pods: Sequence[SimPod]) -> None:
        """Ask the group for all nodes of a pool; without machines it fails in seconds."""
        gke, time = self._world.gke, self._world.time
        pool.busy = True
        pool.note_machines(time.now, coming=pool.size)
        if not gke.has_machines(pool):
            time.after(3 + 27 * self._rng.random(), lambda: self._fail(pool, pods))
            return
        self._world.tell(f"the autoscaler adds {pool.size} nodes to {pool.name}")
        pool.short = 0
        started = 10 + 15 * self._rng.random()
        time.after(started, lambda: pool.note_machines(time.now, made=pool.size))
        time.after(started + 25 + 60 * self._rng.random(), lambda: self._finish(pool))

    def _finish(self, pool: Pool) -> None:
        pool.busy = False
        if self._world.gke.is_there(pool):
            pool.back_off = 0.0
            self._world.gke.fill(pool)
            self.note_idle(pool)
            self.wake()

    def _fail(self, pool: Pool, pods: Sequence[SimPod]) -> None:
        world, now = self._world, self._world.time.now
        pool.busy = False
        if not world.gke.is_there(pool):
            return
        world.fills.failed_fills += 1
        world.tell(f"the autoscaler finds no machines for {pool.name}")
        pool.note_machines(now, error=EXHAUSTED.format(zone=pool.zone))
        pool.back_off = min(pool.back_off * 2 or BACK_OFF_SECONDS, BACK_OFF_SECONDS_MAX)
        pool.retry_at = now + pool.back_off
        for pod in pods:
            self._cluster.note_scale_up_error(pod, _FAILED.format(zone=pool.zone))
        world.note_change()
        self.wake(pool.retry_at)
        self.wake()

    # --- fewer nodes ------------------------------------------------------------------------------

    def _shrink(self, pool: Pool) -> None:
        """Remove all nodes of a pool, if none was needed and none is marked."""
        now, gke = self._world.time.now, self._world.gke
        nodes = [node for node in self._cluster.nodes.values() if node.pool is pool]
        used = any(pod.units and not pod.view.finished for node in nodes for pod in node.pods)
        if not nodes or used or pool.busy or not gke.is_there(pool) or any(node.mark for node in nodes):
            return
        needed = max(pool.used_at, *(max(node.created_at, node.unmarked_at) for node in nodes))
        if needed <= now - UNNEEDED_SECONDS:
            self._remove_all(pool, nodes, 5 + 40 * self._rng.random())

    def _give_up(self, pool: Pool) -> None:
        """Remove the nodes that are left of a pool whose other ones do not come."""
        nodes = [node for node in self._cluster.nodes.values() if node.pool is pool]
        if self._world.gke.is_there(pool) and not pool.busy and not pool.short and len(nodes) < pool.size:
            self._remove_all(pool, nodes, 30.0)

    def _remove_all(self, pool: Pool, nodes: Sequence[Node], seconds: float) -> None:
        self._world.tell(f"the autoscaler removes the nodes of {pool.name}")
        pool.busy = True
        pool.note_machines(self._world.time.now)  # machines that the group deletes do not count
        for node in nodes:
            self._cluster.drain_node(node.name)
        self._world.time.after(seconds, lambda: self._empty(pool))

    def _empty(self, pool: Pool) -> None:
        pool.busy, pool.short = False, pool.size
        if not self._world.gke.is_there(pool):
            return
        for name in self._cluster.list_nodes_of(pool.name):
            self._cluster.remove_node(name)
        self._world.gke.note_nodes(pool)
        pool.note_machines(self._world.time.now)
        self._world.note_change()
        self.wake()
