"""Finds from a decision whether a demand lacks capacity, and whether a pool is idle. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.decisions import FAILURE_REASONS, Decision, Reason, Verdict
from shared.core.identity.pools import PoolStatus

if TYPE_CHECKING:
    from shared.core.identity.pools import PoolSnapshot

LACKING = FAILURE_REASONS | frozenset(
    {
        Reason.POOL_ABSENT,
        Reason.POOL_IN_PROGRESS,
        Reason.POOL_IN_PROGRESS_DIFFERS,
        Reason.POOL_GROWS,
        Reason.POOL_STOPPING,
        Reason.POOL_DEGRADED,
        Reason.PERMISSION_DENIED,
        Reason.GKE_BUSY,
        Reason.SWEEP_OVER_CAP,
    }
)
"""A leader that is answered with one of them has no running pool, and waits for GKE."""
IDLE = frozenset(
    {
        Reason.POOL_SERVES,
        Reason.POD_UNPLACED,
        Reason.GRACE_NOT_OVER,
        Reason.PARENT_OVER,
        Reason.POOL_WARM,
        Reason.MODE_REPORT_ONLY,
        Reason.SWEEP_OVER_CAP,
        Reason.GKE_BUSY,
    }
)
"""The leader waits beside its running pool (the first two), or the pool's workload is over."""
PAID = frozenset({PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR, PoolStatus.RECONCILING})


def lacks_capacity(answer: Decision) -> bool:
    """Return whether a waiting leader has no running pool because GKE has not provided one yet.

    What a limit, a mode or the workload itself forbids is no lack of capacity, and neither is a
    running pool that other workloads use.
    """
    return answer.reason in LACKING


def is_idle(pool: PoolSnapshot, decision: Decision) -> bool:
    """Return whether a pool is paid for and does no work, as far as a decision tells.

    Args:
        pool: as GKE listed it.
        decision: about the pool, or about the waiting leader of its slice.
    """
    return pool.status in PAID and (decision.verdict == Verdict.DELETE or decision.reason in IDLE)
