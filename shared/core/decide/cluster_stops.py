"""Decides what is not done in a cluster: its mode forbids it, or its API is not proven. Pure.

The mode is a label of a namespace: our own stops a cluster, and a workload's what is done for it.
Each of them can only forbid, so the stricter one applies.

What GKE lists and what the API shows come from two addresses in the settings. A node in the API
that belongs to a pool in GKE's list proves that both are of one cluster. A label that we wrote
proves less, because it repeats what the API said at that time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import PoolStatus
from shared.core.shapes.tpu_catalogue import CHIPS_BY_MACHINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Namespace

_ADDS_NODES = frozenset(
    {
        (Verdict.RESIZE, Reason.POOL_GROWS),
        (Verdict.DELETE, Reason.POOL_DIFFERS),  # a running pool, which could not be made again
    }
)
"""The acts that the mode no-create stops, beside every create."""
_WITH_NODES = (PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR, PoolStatus.RECONCILING)


class Mode(StrEnum):
    """What the provisioner may change."""

    ACTIVE = "active"
    """It creates and deletes pools."""
    NO_CREATE = "no-create"
    """It deletes the pools of workloads that are over. It creates none."""
    REPORT_ONLY = "report-only"
    """It changes nothing. It decides, logs and writes Events as if it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A mode that stops acts in one cluster, or for one namespace of it."""

    mode: Mode
    """`Mode.NO_CREATE` or `Mode.REPORT_ONLY`."""
    reason: Reason
    cause: str
    """Where the mode comes from, in words."""


def stop_without_namespace(name: str) -> Stop:
    """Return the stop of a cluster without our own namespace: its label must not be passed over."""
    cause = f"namespace {name}, whose label sets the mode, does not exist in this cluster"
    return Stop(mode=Mode.REPORT_ONLY, reason=Reason.MODE_UNKNOWN, cause=cause)


def read_mode_label(name: str, namespace: Namespace) -> Stop | None:
    """Return what the label of a namespace stops; None when it stops nothing.

    An unknown value stops every act: a stop that is not understood must not be passed over.
    """
    value = namespace.labels.get(labels.MODE)
    label = f"the label {labels.MODE}={value} of namespace {name}"
    if value is None or value == Mode.ACTIVE:
        return None
    if value == Mode.NO_CREATE:
        return Stop(mode=Mode.NO_CREATE, reason=Reason.MODE_NO_CREATE, cause=label)
    if value == Mode.REPORT_ONLY:
        return Stop(mode=Mode.REPORT_ONLY, reason=Reason.MODE_REPORT_ONLY, cause=label)
    cause = f"{label} has an unknown value; valid: {', '.join(Mode)}"
    return Stop(mode=Mode.REPORT_ONLY, reason=Reason.MODE_UNKNOWN, cause=cause)


def decide_stop(act: Decision, stop: Stop | None) -> Decision | None:
    """Return the decision that replaces an act; None when the act may be done."""
    adds_nodes = act.verdict == Verdict.CREATE or (act.verdict, act.reason) in _ADDS_NODES
    if stop is None or (stop.mode == Mode.NO_CREATE and not adds_nodes):
        return None
    verdict = Verdict.REFUSE if adds_nodes else Verdict.KEEP
    remedy = "; an operator must correct that first" if adds_nodes else ""
    message = f"not done: {act.message}; the mode is {stop.mode}: {stop.cause}{remedy}"
    return Decision(verdict, stop.reason, message)


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
    of_group = bool(pool.group_urls) and pool.owner is None and pool.machine_type not in CHIPS_BY_MACHINE
    return _is_named_for_cluster(pool) or of_group


def _is_named_for_cluster(pool: PoolSnapshot) -> bool:
    return pool.owner is not None and bool(pool.owner.claim_hash)


def _has_node(pool: PoolSnapshot, node: str) -> bool:
    """Return whether a node with a pool's name is of that pool, and of no other cluster's.

    The group ``gke-c-p-12ab34cd-grp`` has the nodes ``gke-c-p-12ab34cd-XXXX``.
    """
    groups = {url.rpartition("/")[2].removesuffix("-grp") for url in pool.group_urls}
    return _is_named_for_cluster(pool) or node.rpartition("-")[0] in groups
