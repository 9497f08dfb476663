"""Decides whether an API is that of the cluster whose pools are judged by it. Pure.

What GKE lists and what the API shows come from two addresses in the settings. A node in the API
that belongs to a pool in GKE's list proves that both are of one cluster. A label that we wrote
proves less, because it repeats what the API said at that time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import PoolStatus
from shared.core.shapes.tpu_catalogue import CHIPS_BY_MACHINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.core.identity.pools import PoolSnapshot

_WITH_NODES = (PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR, PoolStatus.RECONCILING)


def list_witnesses(pools: Sequence[PoolSnapshot]) -> PoolIndex:
    """Return the pools whose nodes tell the cluster.

    The name of a pool of ours is made from its cluster. The nodes of any other pool are named after
    its instance group, which has eight random digits; only those of TPU pools are not.
    """
    return PoolIndex.of(pools).select(_tells_cluster)


def judge_nodes(witnesses: Sequence[PoolSnapshot], nodes: Mapping[str, str]) -> bool | None:
    """Return whether an API is that of the cluster with these pools; None if no node tells.

    True if a node belongs to one of the pools. False if a pool of others runs, and no node of any
    pool is there. Pools of ours are no proof against the API: all of their nodes may be preempted.

    Args:
        witnesses: of all pools that GKE lists.
        nodes: some of their nodes in the API, each with the name of its pool.
    """
    known = PoolIndex.of(witnesses)
    if any(_has_node(pool, node) for node, name in nodes.items() if (pool := known.find(name))):
        return True
    runs = any(
        pool.owner is None and pool.node_count and not pool.autoscaled and pool.status in _WITH_NODES
        for pool in witnesses
    )
    return False if runs else None


def is_contradicted(pools: Iterable[PoolSnapshot], cluster_uid: str) -> bool:
    """Return whether pools have the UID of a cluster as their label, and none has this UID."""
    uids = {pool.owner.cluster_uid for pool in pools if pool.owner and pool.owner.cluster_uid}
    return bool(uids) and cluster_uid not in uids


def decide_unproven(pool_name: str) -> Decision:
    """Return the decision to keep a pool because nothing proves that the right API was asked."""
    return Decision(
        Verdict.KEEP,
        Reason.CLUSTER_UNPROVEN,
        f"node pool {pool_name} is kept: nothing proves that the endpoint in the settings is the Kubernetes API "
        "of this cluster",
    )


def decide_other_cluster() -> Decision:
    """Return the refusal to create a pool because the API is another cluster's."""
    return Decision(
        Verdict.REFUSE,
        Reason.CLUSTER_UNPROVEN,
        "no node pool is created: the endpoint in the settings is the Kubernetes API of another cluster, because "
        "no node there belongs to a node pool of this cluster; an operator must correct the endpoint in the "
        "setting clusters",
    )


def _tells_cluster(pool: PoolSnapshot) -> bool:
    return _is_named_for_cluster(pool) or _is_named_for_group(pool)


def _is_named_for_cluster(pool: PoolSnapshot) -> bool:
    return pool.owner is not None and bool(pool.owner.claim_hash)


def _is_named_for_group(pool: PoolSnapshot) -> bool:
    return bool(pool.group_urls) and pool.owner is None and pool.machine_type not in CHIPS_BY_MACHINE


def _has_node(pool: PoolSnapshot, node: str) -> bool:
    """Return whether a node with a pool's name is of that pool, and of no other cluster's.

    The group ``gke-c-p-12ab34cd-grp`` has the nodes ``gke-c-p-12ab34cd-XXXX``.
    """
    groups = {url.rpartition("/")[2].removesuffix("-grp") for url in pool.group_urls}
    return _is_named_for_cluster(pool) or node.rpartition("-")[0] in groups
