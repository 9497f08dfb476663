"""Judges after a sweep whether idle pools are where they should be: marked, or gone in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model.pools import PoolStatus

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Node, SimCluster
    from tests.simulation.sim_pool_bodies import Pool
    from tests.simulation.sim_world import World

QUIET_SECONDS = 30.0
"""A pool that was used or changed so shortly before the sweep is left to the next one."""


def judge_idle_pools(world: World, began: float) -> None:
    """Report each idle pool that a sweep without errors has neither marked nor deleted in time.

    So a pool is gone at most its idle time and the time between three sweeps after its last use.
    """
    scenario = world.scenario
    if not scenario.idle_seconds or scenario.mode == "report-only" or scenario.cap < len(world.gke.pools) * 10:
        return
    for cluster in world.clusters.values():
        if cluster.stop_mode:
            continue
        for pool in world.gke.pools[cluster.name].values():
            nodes = cluster.list_nodes(pool)
            if nodes and _is_of_ended(cluster, pool, began - QUIET_SECONDS):
                _judge(world, pool, nodes, began)


def _is_of_ended(cluster: SimCluster, pool: Pool, before: float) -> bool:
    """Return whether a whole pool may stay idle, and did not change since some moment."""
    owner = pool.owner
    if owner is None or not owner.idle_seconds or pool.status != PoolStatus.RUNNING:
        return False
    made = cluster.find_owner(pool)
    if made is not None and made.uid == owner.owner_uid and not made.terminal:
        return False
    healthy = pool.healthy_since is not None and pool.healthy_since < before
    return healthy and pool.used_at < before and (made is None or made.changed_at < before)


def _judge(world: World, pool: Pool, nodes: list[Node], began: float) -> None:
    marks = [node.mark for node in nodes]
    since = min((mark.since for mark in marks if mark), default=None)
    idle = world.scenario.idle_seconds
    pods = [pod for node in nodes for pod in node.pods if pod.units and not pod.view.finished]
    if pods:  # those that take very long to end count neither way
        if any(marks) and any(pod.live for pod in pods):
            world.judge.report("idle time", f"{pool.name} is used, and the sweep did not remove its marks")
    elif since is None or not all(marks):
        world.judge.report("idle time", f"{pool.name} is idle, and the sweep did not mark its nodes")
    elif began - since >= idle:
        text = f"{pool.name} is idle for {began - since:.0f} s, and not {idle} s, and stays"
        world.judge.report("idle time", text)
