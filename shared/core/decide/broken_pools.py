"""Decides about a pool with errors whose owner is live, by its nodes and the pods. Pure and total.

There is no record of earlier reads. The nodes say whether the pool serves now. The creation
times of the pods that wait say since when it cannot serve: a pod that is older than the pool never
ran on it, and a pod that is younger may have an ancestor that did. The clock of Kubernetes wrote
these times, so they are bounded by ours.

A pool that was never made and holds neither nodes nor a reservation is kept, since it is the record
of the failure: it is deleted when the next attempt was submitted (`shared.core.decide.attempts`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shared.core.decide.failures import Failure, classify_failure
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.pools import PoolStatus
from shared.core.settings import Mode
from shared.core.times import measure_seconds

if TYPE_CHECKING:
    from shared.core.decide.pool_facts import PoolFacts
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.settings import Settings

BROKEN = (PoolStatus.ERROR, PoolStatus.RUNNING_WITH_ERROR)
_RUNNING = re.compile(r"\brunning [1-9]")
SKEW_SECONDS = 30.0
"""A pod that is created so long after its pool counts as older than it: clocks differ, and the
first node of a pool takes longer, so no ancestor of the pod ran there."""


def decide_broken(facts: PoolFacts, *, now: float, settings: Settings) -> Decision:
    """Return the decision for a pool in `BROKEN` with a live owner; `now` is in unix seconds.

    Before nodes and pods were read, DELETE means that the second look decides.
    """
    pool, failed = facts.pool, facts.pool.status == PoolStatus.ERROR
    created = pool.owner.created_at if pool.owner else None
    in_grace = now - _find_start(facts, now) < settings.grace_seconds
    if facts.pods is None:
        young = not failed and created is not None and in_grace
        return _keep(facts, "it has the grace") if young else _delete(facts, failed=failed)
    leader_since = facts.waiting.leader_since
    never_used = created is not None and leader_since is not None and leader_since <= created + SKEW_SECONDS
    never_made = failed and never_used and not facts.ready_nodes
    if facts.pods.own or facts.pods.others:
        why = "pods run on it"
    elif 0 < pool.node_count <= facts.ready_nodes:
        why = "all of its nodes are Ready"
    elif failed and facts.superseded and not facts.nodes:
        return _delete(facts, failed=True)
    elif leader_since is None:
        why = "no pod waits for it"
    elif in_grace and not never_made:
        why = f"it is without pods for less than {settings.grace_seconds} s"
    elif never_made and not _holds_machines(facts, settings):
        message = f"node pool {pool.name} failed and is kept until its next attempt: {pool.error or pool.status}"
        return Decision(Verdict.KEEP, Reason.POOL_FAILED, message)
    else:
        return _delete(facts, failed=never_made)
    return _keep(facts, why)


def _holds_machines(facts: PoolFacts, settings: Settings) -> bool:
    """Return whether a failed pool has to go before the next one is created.

    An elastic pool without a list has one name only. Broken pools may hold a part of a reservation,
    but not one that failed because the reservation had nothing for it. If another candidate
    follows, it follows at once and needs other machines, so the failed pool goes after it.
    """
    pool, owner = facts.pool, facts.pool.owner
    index, count = owner.candidates if owner else (0, 1)
    elastic = owner is not None and owner.elastic and count == 1
    if owner is not None and settings.find_mode(owner.namespace) == Mode.ACTIVE and index + 1 < count:
        return False
    return elastic or (pool.reserved and may_hold_machines(pool)) or facts.nodes > 0


def may_hold_machines(pool: PoolSnapshot) -> bool:
    """Return whether a pool may have machines, or get some, as far as GKE's list tells.

    GKE makes all nodes of a TPU slice or none, so such a pool has none if it failed because no
    machine could be made: https://cloud.google.com/kubernetes-engine/docs/concepts/tpus. The same
    is true of one node. Of any other some may run, as in ``Expected 18, running 16``.
    """
    if pool.status != PoolStatus.ERROR:
        return pool.status != PoolStatus.STOPPING
    elastic = pool.owner is None or pool.owner.elastic
    partial = pool.node_count != 1 and (elastic or pool.gpus_per_node > 0)
    made_some = classify_failure(pool.error) in (Failure.INTERNAL, Failure.UNKNOWN) or _RUNNING.search(pool.error)
    return partial or bool(made_some)


def _find_start(facts: PoolFacts, now: float) -> float:
    """Return when the grace began, in unix seconds: with the youngest pod, or with the pool.

    A time that cannot be true says nothing about a pool without a Ready node, which serves no pod.
    With Ready nodes the grace lasts until that time is past by the grace, so that it ends.
    """
    youngest = facts.waiting.youngest_since
    if not facts.ready_nodes and measure_seconds(youngest, now) is None:
        youngest = 0.0
    return max((facts.pool.owner and facts.pool.owner.created_at) or 0, youngest)


def _keep(facts: PoolFacts, why: str) -> Decision:
    pool = facts.pool
    message = f"node pool {pool.name} has errors and is kept, because {why}: {pool.error or pool.status}"
    return Decision(Verdict.KEEP, Reason.POOL_DEGRADED, message)


def _delete(facts: PoolFacts, *, failed: bool) -> Decision:
    pool, error = facts.pool, facts.pool.error or facts.pool.status
    if failed:
        return Decision(Verdict.DELETE, Reason.POOL_FAILED, f"node pool {pool.name} failed: {error}")
    message = f"node pool {pool.name} has errors, its pods wait, and it does not serve them: {error}"
    return Decision(Verdict.DELETE, Reason.POOL_DEGRADED, message)
