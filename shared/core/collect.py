"""Given a pool, its owner and the pods on it, may it go? Pure and total: `decide_collect`, `decide_sweep`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from shared.core.decisions import Decision, Reason, Verdict
from shared.core.pools import PoolSnapshot, PoolStatus
from shared.core.settings import Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.settings import Settings
    from shared.core.workloads import Parent


class OwnerState(StrEnum):
    """What the live cluster says about the workload that a pool was made for."""

    LIVE = "live"
    SUSPENDED = "suspended"
    OVER = "over"
    """Completed or failed for good."""
    GONE = "gone"
    """There is no object with the recorded UID."""
    UNKNOWN = "unknown"
    """The cluster could not be asked; never read as absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPods:
    """The unfinished accelerator pods that are really bound to a pool's nodes."""

    own: int = 0
    """Of the workload that the pool was made for."""
    others: int = 0
    """Of anyone else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """Everything that was gathered about one pool before deciding."""

    pool: PoolSnapshot
    owner: OwnerState
    owner_since: float | None = None
    """Unix seconds since when the owner is in that state; None when nobody recorded it."""
    parent: Parent | None = None
    """What made a live owner, as far as it was looked at."""
    pods: PoolPods | None = None
    """None while they were not looked at; decided as if there were none, and looked at before any delete."""


def decide_collect(facts: PoolFacts, *, now: float, settings: Settings) -> Decision:
    """Return the decision for one pool. Only DELETE destroys, and it is decided again on fresh facts first.

    Args:
        facts: what was gathered.
        now: unix seconds.
        settings: the operator's settings.
    """
    pool, name = facts.pool, facts.pool.name
    owner = pool.owner
    if owner is None:
        return _keep(Reason.FOREIGN_LABELS, f"node pool {name} is not ours")
    if pool.status == PoolStatus.STOPPING:
        return Decision(Verdict.WAIT, Reason.POOL_STOPPING, f"node pool {name} is being deleted")
    if facts.owner == OwnerState.UNKNOWN:
        return _keep(Reason.OWNER_UNKNOWN, f"the owner of node pool {name} could not be read")
    if pool.status == PoolStatus.UNKNOWN:
        return _keep(Reason.STATUS_UNKNOWN, f"node pool {name} has a status that is unknown here")
    if facts.owner == OwnerState.LIVE:
        decision = _decide_live(facts, now, settings)
    else:
        decision = _decide_ended(facts, now, settings)
    if decision.verdict == Verdict.DELETE and settings.find_mode(owner.namespace) == Mode.REPORT_ONLY:
        return _keep(Reason.MODE_REPORT_ONLY, f"would delete node pool {name} ({decision.reason})")
    return decision


def _decide_live(facts: PoolFacts, now: float, settings: Settings) -> Decision:
    """A live owner keeps its pool, unless the pool can never serve it."""
    pool, name = facts.pool, facts.pool.name
    age_seconds = pool.age_seconds(now)
    pods = facts.pods
    busy = pods is not None and (pods.own > 0 or pods.others > 0)
    if pool.status == PoolStatus.PROVISIONING and age_seconds >= settings.creation_seconds_max and not busy:
        return Decision(
            Verdict.DELETE, Reason.POOL_STUCK, f"node pool {name} is being created for {age_seconds:.0f} s"
        )
    if pool.status == PoolStatus.PROVISIONING:
        return Decision(Verdict.WAIT, Reason.POOL_IN_PROGRESS, f"node pool {name} is being created")
    if pool.status == PoolStatus.ERROR and not busy:
        return Decision(Verdict.DELETE, Reason.POOL_FAILED, f"node pool {name} failed: {pool.error or 'ERROR'}")
    if pool.status in (PoolStatus.RUNNING_WITH_ERROR, PoolStatus.ERROR):
        if busy or age_seconds < settings.grace_seconds:
            return _keep(Reason.POOL_DEGRADED, f"node pool {name} runs with errors: {pool.error or pool.status}")
        return Decision(Verdict.DELETE, Reason.POOL_DEGRADED, f"node pool {name} never became whole: {pool.error}")
    kept = facts.parent.keeps if facts.parent else ""
    return _keep(
        Reason.PARENT_OVER if kept else Reason.OWNER_LIVE, kept or f"the owner of node pool {name} is live"
    )


_ENDED_REASONS = {
    OwnerState.SUSPENDED: Reason.WORKLOAD_SUSPENDED,
    OwnerState.OVER: Reason.WORKLOAD_OVER,
    OwnerState.GONE: Reason.OWNER_GONE,
}


def _decide_ended(facts: PoolFacts, now: float, settings: Settings) -> Decision:
    """An owner that is over gives its pool back, once nothing that matters runs on it."""
    pool, name = facts.pool, facts.pool.name
    reason = _ENDED_REASONS[facts.owner]
    seconds = None if facts.owner_since is None else max(0.0, now - facts.owner_since)
    if facts.owner == OwnerState.SUSPENDED and (seconds is None or seconds < settings.grace_seconds):
        return _keep(Reason.GRACE_NOT_OVER, f"the workload is suspended; node pool {name} is kept for a grace")
    pods = facts.pods or PoolPods()
    if pods.others:
        return _keep(
            Reason.POOL_IN_USE, f"{pods.others} accelerator pods of other workloads run on node pool {name}"
        )
    if pods.own and (seconds is None or seconds < settings.drain_seconds_max):
        return Decision(
            Verdict.WAIT, Reason.PODS_STILL_BOUND, f"{pods.own} pods of the workload still end on node pool {name}"
        )
    if pool.status == PoolStatus.PROVISIONING and pool.age_seconds(now) < settings.creation_seconds_max:
        # GKE refuses to delete a pool that it is still creating.
        return Decision(Verdict.WAIT, Reason.POOL_IN_PROGRESS, f"node pool {name} is still being created")
    return Decision(Verdict.DELETE, reason, f"deleting node pool {name}: its workload is {facts.owner}")


def decide_sweep(decisions: Sequence[Decision], *, settings: Settings) -> tuple[Decision, ...]:
    """Return the decisions of one sweep, every deletion turned into KEEP when there are more than the cap.

    An exodus is likelier our own mistake (an empty list that is not empty) than the truth.
    """
    deletions = sum(decision.verdict == Verdict.DELETE for decision in decisions)
    if deletions <= settings.sweep_deletions_max:
        return tuple(decisions)
    message = f"{deletions} deletions in one sweep exceed sweep_deletions_max={settings.sweep_deletions_max}"
    held = _keep(Reason.SWEEP_OVER_CAP, message)
    return tuple(held if decision.verdict == Verdict.DELETE else decision for decision in decisions)


def _keep(reason: Reason, message: str) -> Decision:
    return Decision(Verdict.KEEP, reason, message)
