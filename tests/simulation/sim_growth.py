"""Node pools that grow while a zone has too few machines.

GKE goes on trying to make the nodes that are missing, until they are given up by name. What it
reports of such a pool is not known, so both are tried: that it runs, and that it runs with errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model.pools import PoolStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.sim_pool_bodies import Pool
    from tests.simulation.sim_pools import GkePools

RESTING = (PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR)
LIVE = (*RESTING, PoolStatus.PROVISIONING, PoolStatus.RECONCILING)


def find_short(gke: GkePools, pool: Pool, nodes: int) -> int:
    """Return for how many nodes of a new size there is no machine."""
    dry = gke.world.faults.is_out_of_stock(pool.cluster, pool.zone)
    room = 0 if dry else max(0, int(min(gke.find_room(pool.cluster, pool.zone), nodes)))
    return max(0, nodes - (pool.size - pool.short) - room)


def choose_end(gke: GkePools, pool: Pool) -> tuple[PoolStatus, str]:
    """Return status and error of a pool whose resize ends."""
    if pool.short and gke.world.rng.random() < 0.5:
        return PoolStatus.RUNNING_WITH_ERROR, "GCE_STOCKOUT: out of capacity"
    return PoolStatus.RUNNING, ""


def name_missing(gke: GkePools, pool: Pool) -> list[str]:
    """Return names for the nodes of a pool that GKE tries to make."""
    nodes = gke.world.clusters[pool.cluster].list_nodes_of(pool.name)
    count = pool.size - len(nodes) if pool.status in (*RESTING, PoolStatus.ERROR) else 0
    return [f"{pool.name}-missing{index}" for index in range(count)]


def give_up(gke: GkePools, pool: Pool, names: Sequence[str]) -> None:
    """Let GKE no longer try to make some nodes of a pool."""
    count = len(set(names) & set(name_missing(gke, pool)))
    pool.size, pool.short = pool.size - count, max(0, pool.short - count)
    gke.note_nodes(pool)


def refill(gke: GkePools) -> None:
    """Let pools that could not grow have the machines that there are now."""
    for pool in [
        pool for pools in gke.pools.values() for pool in pools.values() if pool.short and not pool.autoscaled
    ]:
        if pool.status in RESTING:
            pool.short -= max(0, int(min(gke.find_room(pool.cluster, pool.zone), pool.short)))
            gke.fill(pool)
