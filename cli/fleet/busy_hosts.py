"""Which hosts of the pools have accelerator pods, by few calls: one list for each workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model.errors import KindAbsent
from shared.model.pools import PAID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.engine.outside import Cluster
    from shared.model.pools import PoolSnapshot

NODES_MAX = 64
"""A pool without pods of its own workload is asked node by node, if it has at most so many."""


def count_busy_hosts(live: Cluster, pools: Sequence[PoolSnapshot]) -> dict[str, int]:
    """Return how many nodes of each pool have accelerator pods; nothing for a pool without nodes.

    A pool that its own workload does not use may have pods of others. If it is large, it is left
    out.

    Raises:
        ProvisionerError: the cluster did not answer.
    """
    paid = {pool.name: pool for pool in pools if pool.owner is not None and pool.status in PAID}
    nodes = live.find_pools_of_nodes(list(paid)) if paid else {}
    busy = _find_own_nodes(live, list(paid.values())) & nodes.keys()
    found = {}
    for name in dict.fromkeys(nodes.values()):
        own = {node for node, pool in nodes.items() if pool == name}
        used = own & busy
        if not used and len(own) > NODES_MAX:
            continue
        found[name] = len(used or {pod.node or pod.name for pod in live.list_pool_pods(name) if pod.chips})
    return found


def _find_own_nodes(live: Cluster, pools: Sequence[PoolSnapshot]) -> set[str]:
    """Return the nodes that have pods of the pools' own workloads."""
    owners = {(pool.owner.kind, pool.owner.namespace, pool.owner.name) for pool in pools if pool.owner}
    found: set[str] = set()
    for owner in sorted(owners):
        try:
            workload = live.get_workload(*owner)
        except KindAbsent:
            continue
        if workload is not None:
            found |= {pod.node_name for pod in live.list_workload_pods(workload) if pod.node_name}
    return found
