"""What is true of workloads and pools: whose a pool is, what fits, what is wanted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tests.simulation.sim_workloads import list_wanted

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import SimCluster
    from tests.simulation.sim_pool_bodies import Pool
    from tests.simulation.sim_workloads import Workload
    from tests.simulation.sim_world import World

SURGE_SHARE = 0.25  # of the pods of a Deployment so many more run while they are replaced


def find_workload(world: World, pool: Pool) -> Workload | None:
    """Return the live workload that a pool is of."""
    return world.clusters[pool.cluster].find_owner(pool)


def is_of(pool: Pool, made: Workload) -> bool:
    """Return whether a pool is of a workload, and of none before it of its name."""
    owner = pool.owner
    return owner is not None and (owner.kind, owner.name) == (made.kind, made.name) and owner.uid in ("", made.uid)


def fits(pool: Pool, made: Workload) -> bool:
    """Return whether the pods of a workload can run on a pool, by its machine."""
    return answers(pool, made) and (made.tolerates or not pool.listed.spot)


def answers(pool: Pool, made: Workload) -> bool:
    """Return whether a pool is what the pods of a workload ask, if they can run there or not."""
    listed, shape = pool.listed, made.shape
    gpu = shape.accelerator if shape.gpu else ""
    same = (listed.machine_type, listed.accelerator) == (shape.machine_type, gpu)
    sized = made.elastic or not pool.whole or pool.size == shape.hosts
    return same and sized and listed.spot == made.spot


def follows(later: Pool, pool: Pool) -> bool:
    """Return whether a pool is an earlier try that GKE made after a later one of its slot.

    GKE did it long after the caller had given up; the later one stands for the slot.
    """
    old, new = pool.owner, later.owner
    if old is None or new is None or (old.need, old.slot) != (new.need, new.slot):
        return False
    return new.attempt > old.attempt and later.made_at < pool.made_at


def count_slices(made: Workload) -> int:
    """Return how many pools a workload with slices may have now."""
    slices = len({plan.slice_name for plan in list_wanted(made)})
    if made.kind == "Deployment":
        return slices + math.ceil(made.replicas * SURGE_SHARE)
    return slices + (slices > 0 and made.kind == "LeaderWorkerSet" and made.restarts > 0)


def count_nodes_wanted(made: Workload) -> int:
    """Return for how many pods at a time an elastic pool must have nodes."""
    pods = len(list_wanted(made))
    return pods + math.ceil(pods * SURGE_SHARE) * (made.kind == "Deployment")


def count_pools_needed(cluster: SimCluster, made: Workload, *, surges: bool) -> int:
    """Return how many pools a workload needs beside those of others on which it runs."""
    if not made.elastic:
        slices = count_slices(made) if surges else len({plan.slice_name for plan in list_wanted(made)})
        return slices - len(list_homes(cluster, made, own=False))
    nodes = count_nodes_wanted(made) if surges else len(list_wanted(made))
    elsewhere = sum(pod.node is not None and not is_of(pod.node.pool, made) for pod in cluster.list_pods_of(made))
    return int(nodes > elsewhere)


def list_homes(cluster: SimCluster, made: Workload, *, own: bool) -> set[str]:
    """Return the slices of a workload of which a pod runs on pools of its own, or elsewhere."""
    return {
        pod.plan.slice_name
        for pod in cluster.list_pods_of(made)
        if pod.node is not None and is_of(pod.node.pool, made) == own
    }
