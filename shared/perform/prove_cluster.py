"""Reads what proves that the endpoint of a cluster is the API of that cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.decide.cluster_proof import is_contradicted, judge_nodes, list_witnesses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Cluster, Ports


def is_proven(cluster: str, pool: PoolSnapshot, ports: Ports) -> bool:
    """Return whether the API surely shows what runs on a pool; asked before each deletion.

    A node of the pool is enough, because its pods are seen there. Else a node of any other pool of
    the cluster shows that this one has no nodes. Only if no node tells, the label of the pool does.

    Raises:
        Retryable: something could not be read.
        Denied: a permission to read is missing.
    """
    live = ports.clusters[cluster]
    if live.find_pools_of_nodes([pool.name], some=True):
        return True
    judged = _judge(live, ports.pools.list(cluster))
    if judged is None:
        said = pool.owner.cluster_uid if pool.owner else ""
        return bool(said) and said == read_cluster_uid(live)
    return judged


def is_other(live: Cluster, pools: Sequence[PoolSnapshot]) -> bool:
    """Return whether an API is surely not that of the cluster whose pools these all are.

    Raises:
        Retryable: something could not be read.
        Denied: a permission to read is missing.
    """
    judged = _judge(live, pools)
    return is_contradicted(pools, read_cluster_uid(live)) if judged is None else not judged


def _judge(live: Cluster, pools: Sequence[PoolSnapshot]) -> bool | None:
    witnesses = list_witnesses(pools)
    return judge_nodes(witnesses, live.find_pools_of_nodes(witnesses.names, some=True))


def read_cluster_uid(live: Cluster) -> str:
    """Return the UID of the namespace ``kube-system``; empty if there is none.

    Raises:
        Retryable: it could not be read.
        Denied: the permission to read it is missing.
    """
    found = live.get_namespace("kube-system")
    return found.uid if found else ""
