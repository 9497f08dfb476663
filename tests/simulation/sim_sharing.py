"""Judges how many nodes and chips pools have together: of one claim, and of a cluster."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from shared.model.pools import PoolStatus
from tests.simulation.sim_growth import LIVE
from tests.simulation.sim_workloads import list_pods

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulation.sim_faults import Invocation
    from tests.simulation.sim_pool_bodies import Pool
    from tests.simulation.sim_workloads import Workload
    from tests.simulation.sim_world import World

SURGE_SHARE = 0.25
"""Of the pods of a Deployment so many more run while they are replaced."""
CHANGED_SECONDS = 30.0
"""So long after a change of the workload a request may still be sent for what it was before."""


def judge_sharing(world: World, run: Invocation, pool: Pool, nodes: int) -> bool:
    """Return whether a pool may have others of its claim beside it; report if all are too large."""
    made = world.clusters[pool.cluster].find_owner(pool)
    if made is None or not made.elastic or pool.owner is None or pool.owner.candidates[1] == 1:
        return False
    if text := _find_excess(world, run, pool, nodes):
        world.judge.report("no more nodes than asked", text)
    return True


def count_wanted(made: Workload) -> int:
    """Return for how many pods at a time an elastic pool must have nodes."""
    pods = len(list_pods(made))
    return pods + math.ceil(pods * SURGE_SHARE) * (made.kind == "Deployment")


def _find_excess(world: World, run: Invocation, pool: Pool, nodes: int) -> str:
    """Return in words that a pool with so many nodes is too much beside the others; empty if not.

    Nothing can recall a request that is on its way while another pool is created or grows, or while
    a person changes the workload. What GKE shows may be old.
    """
    made = world.clusters[pool.cluster].find_owner(pool)
    others = [
        each
        for each in world.gke.pools[pool.cluster].values()
        if each is not pool and each.claim_hash == pool.claim_hash and _count_nodes(world, each)
    ]
    if not others or made is None or world.faults.stale_seconds:
        return ""
    asked = run.find_call_began() - 1
    late = any(max(each.made_at, each.grown_at) > asked for each in others)
    late = late or run.find_call_began() - made.changed_at < CHANGED_SECONDS
    total, wanted = nodes + sum(_count_nodes(world, each) for each in others), count_wanted(made)
    if late or total <= wanted:
        return ""
    return f"{pool.name} with {nodes} nodes makes {total} of {made.kind} {made.name}, which wants {wanted}"


def _count_nodes(world: World, pool: Pool) -> int:
    """Return how many nodes a pool is to have; of one whose creation failed, how many it has."""
    if pool.status == PoolStatus.ERROR:
        return len(world.clusters[pool.cluster].list_nodes_of(pool.name))
    return pool.size if pool.status in LIVE else 0


def count_chips(others: Iterable[Pool], pool: Pool, run: Invocation) -> int:
    """Return the chips of a cluster's pools with one that is created now.

    Another program reserves nothing, so what it has made since the list cannot be counted. The list
    that counts is older than the last one, which only shows whether the slice has a pool.
    """
    read, chips = run.pool_reads.get((pool.cluster, "")), pool.size * pool.units
    for each in others:
        known = bool(each.claim_hash) or read is None or each.made_at <= read.shows - CHANGED_SECONDS
        if known and each.status != PoolStatus.STOPPING and not is_never_made(each):
            chips += each.size * each.units
    return chips


def is_never_made(pool: Pool) -> bool:
    """Return whether the creation of a pool failed without a node."""
    return pool.status == PoolStatus.ERROR and not pool.made_nodes
