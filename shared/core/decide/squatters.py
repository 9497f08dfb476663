"""Decides on Events for the pods that keep a pool whose own workload no longer needs it. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from shared.core.decide.limits import count_pool_chips
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.times import format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import BoundPod

WORKLOADS_TOLD_MAX = 20
"""The most workloads that are told about one pool."""
PODS_TOLD_MAX = 5
"""The most pods of each of them that are told, beside the workload."""
_NAMED_MAX = 3


def decide_squatters(
    pool: PoolSnapshot, others: Sequence[BoundPod]
) -> list[tuple[Decision, tuple[str, str, str], list[BoundPod]]]:
    """Return what to tell each workload that keeps a pool, with its kind, namespace, name and pods.

    Args:
        pool: one whose own workload is gone, over or suspended, or needs another shape.
        others: the accelerator pods of other workloads on it.
    """
    found: defaultdict[tuple[str, str, str], list[BoundPod]] = defaultdict(list)
    for pod in sorted(others, key=lambda each: each.name):
        found[pod.kind or "Pod", pod.namespace, pod.workload or pod.name].append(pod)
    told = sorted(found.items())[:WORKLOADS_TOLD_MAX]
    return [(_decide(pool, workload, pods), workload, pods[:PODS_TOLD_MAX]) for workload, pods in told]


def _decide(pool: PoolSnapshot, workload: tuple[str, str, str], pods: Sequence[BoundPod]) -> Decision:
    kind, namespace, name = workload
    owner, chips = pool.owner, sum(pod.chips for pod in pods)
    made_for = f"{owner.kind} {owner.namespace}/{owner.name}" if owner else "another workload"
    size = f"{pool.node_count} nodes, {count_pool_chips(pool)} chips or GPUs"
    names = ", ".join(pod.name for pod in pods[:_NAMED_MAX])
    more = f" and {len(pods) - _NAMED_MAX} more" if len(pods) > _NAMED_MAX else ""
    since = min((pod.created_at for pod in pods if pod.created_at is not None), default=None)
    created = f", created at {format_time(since)}" if since is not None else ""
    return Decision(
        Verdict.KEEP,
        Reason.POOL_IN_USE,
        f"{kind} {namespace}/{name} keeps node pool {pool.name} ({size}) with {chips} chips or GPUs (pod {names}"
        f"{more}{created}); {made_for}, for which the pool was created, does not need it any more, and the pool "
        "is deleted when these pods end. Delete them, or select a node label of their own for them, so that they "
        "run elsewhere",
    )
