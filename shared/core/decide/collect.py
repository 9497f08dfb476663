"""Decides whether a pool may be deleted, from its owner and the pods on it. Pure and total.

A pool with errors whose owner is live is decided about without a record of earlier reads. The nodes
say whether it serves now; GKE's count does not follow the size of an elastic pool. The creation
times of the pods that wait say since when it cannot serve: an older pod than the pool never ran on
it, and a younger one may have an ancestor that did. Another clock wrote them, so ours bounds them.

A pool that was never made and holds neither nodes nor a reservation is kept, since it is the record
of the failure: it is deleted when the next attempt was submitted (`shared.core.decide.attempts`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.decide.limits import may_hold_machines
from shared.core.decide.pool_facts import OwnerState, PoolFacts, PoolPods
from shared.core.decide.warm_pools import decide_warm, find_stay
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.pools import BROKEN, PoolStatus
from shared.core.times import measure_seconds

if TYPE_CHECKING:
    from shared.core.settings import Settings

SKEW_SECONDS = 30.0
"""A pod that is created so long after its pool counts as older than it: clocks differ, and the
first node of a pool takes longer, so no ancestor of the pod ran there."""


def decide_collect(facts: PoolFacts, *, now: float, settings: Settings) -> Decision:
    """Return the decision for one pool. A DELETE is decided again on fresh facts before it is done.

    The time `now` is in unix seconds.
    """
    pool, name = facts.pool, facts.pool.name
    owner = pool.owner
    if owner is None:
        return _keep(Reason.FOREIGN_LABELS, f"node pool {name} was not created by this provisioner")
    if pool.status == PoolStatus.STOPPING:
        return _wait(Reason.POOL_STOPPING, f"node pool {name} is being deleted")
    if facts.owner == OwnerState.UNKNOWN:
        return _keep(Reason.OWNER_UNKNOWN, f"the workload of node pool {name} could not be read")
    if pool.status == PoolStatus.UNKNOWN:
        return _keep(Reason.STATUS_UNKNOWN, f"node pool {name} has a status that this version does not know")
    if facts.owner == OwnerState.LIVE:
        return _decide_live(facts, now, settings)
    return _decide_ended(facts, now, settings)


def decide_absent_pool(name: str) -> Decision:
    """Return the decision for a pool that no longer exists."""
    return Decision(Verdict.NOTHING, Reason.POOL_GONE, f"node pool {name} no longer exists")


def decide_without_pools(workload: str) -> Decision:
    """Return the decision for a workload that has no node pools."""
    return Decision(Verdict.NOTHING, Reason.POOL_GONE, f"{workload} has no node pools")


def needs_cap(facts: PoolFacts) -> bool:
    """Return whether one sweep may delete only some pools on such facts.

    What the owner itself says, found by its UID, needs no cap: it completed, failed or is
    suspended. Many absent owners or failed pools at once are more often a mistake, for example a
    list that is wrongly empty, than true.
    """
    return not (facts.owner_found and facts.owner in _OWN_WORD)


_OWN_WORD = (OwnerState.OVER, OwnerState.SUSPENDED)


def decide_over_cap(name: str, settings: Settings) -> Decision:
    """Return the decision for a pool that this sweep leaves to the next one."""
    return _keep(
        Reason.SWEEP_OVER_CAP,
        f"node pool {name} is left to the next sweep: this one has deleted as many node pools without a word of "
        f"their owners as sweep_deletions_max={settings.sweep_deletions_max} allows",
    )


def _decide_live(facts: PoolFacts, now: float, settings: Settings) -> Decision:
    """Keep the pool of a live owner, unless its pods can never run on it."""
    pool, name = facts.pool, facts.pool.name
    pods = facts.pods
    busy = pods is not None and (pods.own or pods.others)
    stuck = pool.status == PoolStatus.PROVISIONING and pool.is_older(settings.creation_seconds_max, now)
    if stuck and not busy:
        return _delete(
            Reason.POOL_STUCK, f"node pool {name} is still being created after {settings.creation_seconds_max} s"
        )
    if pool.status == PoolStatus.PROVISIONING:
        return _wait(Reason.POOL_IN_PROGRESS, f"node pool {name} is being created")
    if pool.status in BROKEN:
        return decide_broken(facts, now=now, settings=settings)
    kept = facts.parent.keeps if facts.parent else ""
    return _keep(
        Reason.PARENT_OVER if kept else Reason.OWNER_LIVE, kept or f"the workload of node pool {name} is live"
    )


_ENDED_REASONS = {
    OwnerState.SUSPENDED: Reason.WORKLOAD_SUSPENDED,
    OwnerState.SURPLUS: Reason.POOL_SURPLUS,
    OwnerState.OVER: Reason.WORKLOAD_OVER,
    OwnerState.GONE: Reason.OWNER_GONE,
}


def _decide_ended(facts: PoolFacts, now: float, settings: Settings) -> Decision:
    """Delete the pool of an ended owner when no pod needs it any more."""
    pool, name = facts.pool, facts.pool.name
    reason = _ENDED_REASONS[facts.owner]
    seconds = measure_seconds(facts.owner_since, now)
    # A suspension without a time that can be true began after the pool was made, by our own clock.
    suspended = pool.age_seconds(now) if seconds is None else seconds
    if facts.owner == OwnerState.SUSPENDED and (suspended is None or suspended < settings.grace_seconds):
        return _keep(
            Reason.GRACE_NOT_OVER,
            f"the workload is suspended; node pool {name} is kept for {settings.grace_seconds} s",
        )
    pods = facts.pods or PoolPods()
    if pods.others:
        users = f"{len(pods.others)} accelerator pods of other workloads"
        lent = (
            f"the workload of node pool {name} is over, and {users} use it" if find_stay(facts, settings) else ""
        )
        reason = Reason.POOL_LENT if lent else Reason.POOL_IN_USE
        return _keep(reason, lent or f"{users} still run on {name}")
    if pods.staying and facts.owner == OwnerState.SUSPENDED:
        # A workload may have resumed between two reads: its pods say more than its condition. This
        # is no rule for a completed one, because some workers run on after their workload is over.
        return _wait(
            Reason.PODS_STILL_BOUND, f"the workload is suspended, but {pods.staying} of its pods run on {name}"
        )
    if pods.own and (seconds is None or seconds < settings.drain_seconds_max):
        whose = "a workload of the same name" if facts.workload_over else "its workload"
        run = {OwnerState.GONE: f"of {whose} run", OwnerState.SURPLUS: "of its workload run"}
        does = run.get(facts.owner) if pods.staying else None
        message = f"{pods.staying if does else pods.own} pods {does or 'are still terminating'} on {name}"
        return _wait(Reason.PODS_STILL_BOUND, message)
    if pool.status == PoolStatus.PROVISIONING and not pool.is_older(settings.creation_seconds_max, now):
        # GKE refuses to delete a pool that it is still creating.
        return _wait(Reason.POOL_IN_PROGRESS, f"node pool {name} is still being created")
    warm = decide_warm(facts, now=now, settings=settings)
    scaled = facts.owner == OwnerState.GONE and not facts.workload_over
    state = "still there and no longer asks for this pool" if scaled else facts.owner
    return warm or _delete(reason, f"deleting node pool {name}: its workload is {state}")


def decide_broken(facts: PoolFacts, *, now: float, settings: Settings) -> Decision:
    """Return the decision for a pool in `BROKEN` with a live owner; `now` is in unix seconds.

    Before nodes and pods were read, DELETE means that the second look decides.
    """
    pool, failed = facts.pool, facts.pool.status == PoolStatus.ERROR
    created = pool.owner.created_at if pool.owner else None
    in_grace = now - _find_start(facts, now) < settings.grace_seconds
    if facts.pods is None:
        young = not failed and created is not None and in_grace
        return _keep_broken(facts, "it has the grace") if young else _delete_broken(facts, failed=failed)
    leader_since = facts.waiting.leader_since
    never_used = created is not None and leader_since is not None and leader_since <= created + SKEW_SECONDS
    never_made = failed and not (facts.ready_nodes if never_used else facts.nodes or may_hold_machines(pool))
    if facts.pods.own or facts.pods.others:
        why = "pods run on it"
    elif is_whole(facts):
        why = "all of its nodes are Ready"
    elif pool.autoscaled and not failed and not facts.nodes:
        why = "GKE's autoscaler fills it"
    elif failed and facts.superseded and not facts.nodes:
        return _delete_broken(facts, failed=True)
    elif leader_since is None:
        why = "no pod waits for it"
    elif in_grace and not never_made:
        why = f"it is without pods for less than {settings.grace_seconds} s"
    elif never_made and not _holds_machines(facts):
        message = f"node pool {pool.name} failed and is kept until its next attempt: {pool.error or pool.status}"
        return Decision(Verdict.KEEP, Reason.POOL_FAILED, message)
    else:
        return _delete_broken(facts, failed=never_made)
    return _keep_broken(facts, why)


def is_whole(facts: PoolFacts) -> bool:
    """Return whether all nodes of a pool with errors are Ready, so that it serves all the same."""
    owner = facts.pool.owner
    return 0 < (facts.nodes if owner and owner.elastic else facts.pool.node_count) <= facts.ready_nodes


def decide_whole(pool_name: str) -> Decision:
    """Return the decision for a slice without pods whose pool has errors and is whole."""
    message = f"node pool {pool_name} has errors, and all of its nodes are Ready"
    return Decision(Verdict.KEEP, Reason.POOL_SERVES, message)


def _holds_machines(facts: PoolFacts) -> bool:
    """Return whether a failed pool has to go before the next one is created.

    An elastic pool without a list has one name only. Broken pools may hold a part of a reservation,
    but not one that failed because the reservation had nothing for it. If another candidate
    follows, it follows at once and needs other machines, so the failed pool goes after it.
    """
    pool, owner = facts.pool, facts.pool.owner
    index, count = owner.candidates if owner else (0, 1)
    elastic = owner is not None and owner.elastic and count == 1
    if index + 1 < count:
        return False
    return elastic or (pool.reserved and may_hold_machines(pool)) or facts.nodes > 0


def _find_start(facts: PoolFacts, now: float) -> float:
    """Return when the grace began, in unix seconds: with the youngest pod, or with the pool.

    A time that cannot be true says nothing about a pool without a Ready node, which serves no pod.
    With Ready nodes the grace lasts until that time is past by the grace, so that it ends.
    """
    youngest = facts.waiting.youngest_since
    if not facts.ready_nodes and measure_seconds(youngest, now) is None:
        youngest = 0.0
    return max((facts.pool.owner and facts.pool.owner.created_at) or 0, youngest)


def _keep_broken(facts: PoolFacts, why: str) -> Decision:
    pool = facts.pool
    message = f"node pool {pool.name} has errors and is kept, because {why}: {pool.error or pool.status}"
    return Decision(Verdict.KEEP, Reason.POOL_DEGRADED, message)


def _delete_broken(facts: PoolFacts, *, failed: bool) -> Decision:
    pool, error = facts.pool, facts.pool.error or facts.pool.status
    if failed:
        return Decision(Verdict.DELETE, Reason.POOL_FAILED, f"node pool {pool.name} failed: {error}")
    message = f"node pool {pool.name} has errors, its pods wait, and it does not serve them: {error}"
    return Decision(Verdict.DELETE, Reason.POOL_DEGRADED, message)


def _keep(reason: Reason, message: str) -> Decision:
    return Decision(Verdict.KEEP, reason, message)


def _wait(reason: Reason, message: str) -> Decision:
    return Decision(Verdict.WAIT, reason, message)


def _delete(reason: Reason, message: str) -> Decision:
    return Decision(Verdict.DELETE, reason, message)
