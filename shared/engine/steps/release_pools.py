"""Deletes the pools of a workload that has ended: read, decide, read and decide again, delete."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from shared.core.decide.collect import decide_absent_pool, decide_collect, decide_without_pools, needs_cap
from shared.core.decide.failures import decide_gke_answer
from shared.core.decide.pool_facts import OwnerState, PoolFacts
from shared.core.decide.warm_pools import decide_idle_marking, plan_marks
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.errors import Busy, OldLook
from shared.core.identity.pools import PoolStatus
from shared.core.times import SHARED_SECONDS
from shared.engine.changes import delete_pool, look_again_if_old, mark_nodes
from shared.engine.looks.gather import gather_again, gather_facts
from shared.engine.looks.look import open_look
from shared.engine.looks.side_by_side import run_paced
from shared.engine.tell import Outcome, describe_pool_outcome, explain, get_results, tell_foreign_pods

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.core.identity.pools import PoolSnapshot
    from shared.core.messages import Event
    from shared.core.ports import Ports
    from shared.engine.looks.look import Look

_LOG = logging.getLogger("warm")


def collect(event: Event, ports: Ports) -> list[Outcome]:
    """Answer one event about a workload: look at its pools and delete those that are not needed.

    Pools are looked at side by side. An error about one pool never stops the others; it is raised
    when all have been looked at. What GKE refuses with 429 is tried again while there is time.

    Raises:
        Retryable: something could not be read or is in progress; deliver the event again.
        Denied: a permission is missing.
    """
    subject, look = event.subject, open_look(event.cluster, ports)
    named = look.list_pools().list_named(subject.kind, subject.namespace, subject.name)
    found = [pool for pool in named if pool.owner and pool.owner.owner_uid in ("", subject.uid)]
    # Pools that are being deleted come last, so that each delivery gets further than the last.
    found.sort(key=lambda pool: pool.status == PoolStatus.STOPPING)
    outcomes = collect_pools(look, found, named=named)
    if not outcomes:
        decision = decide_without_pools(str(subject))
        outcomes = [Outcome(decision=decision, cluster=event.cluster, subject=str(subject))]
    return outcomes


def collect_pools(look: Look, found: Sequence[PoolSnapshot], *, named: Sequence[PoolSnapshot]) -> list[Outcome]:
    """Decide about pools of one workload and do it, side by side.

    `named` has at least all pools of workloads of its name.

    Raises:
        Retryable: something could not be read. The other pools were looked at.
        Denied: a permission is missing.
    """
    first, look = look.share_batch(), look.in_batch() if len(found) > 1 else look
    tasks = [partial(collect_pool, look, pool, pools=named, first=first) for pool in found]
    return get_results(run_paced(tasks, look.ports))


def collect_pool(
    look: Look, pool: PoolSnapshot, *, pools: Sequence[PoolSnapshot], first: Look | None = None
) -> Outcome:
    """Decide about one of our pools and do it.

    `pools` has at least all pools of workloads of its owner's name. `first`, from
    `Look.share_batch`, reads for the first look.

    Raises:
        Retryable: something could not be read, or another operation is in progress.
    """
    seen = judge_pool(look, gather_facts(first or look, pool, pools))
    decision = release_pool(look, pool, pools=pools).decision if seen.is_due else seen.decision
    explain(look.live, decision, seen.facts.workload)
    return describe_pool_outcome(look.cluster, pool, decision)


@dataclass(frozen=True, slots=True)
class JudgedPool:
    """One pool with what was read and decided about it."""

    facts: PoolFacts
    decision: Decision

    @property
    def is_due(self) -> bool:
        """Return whether a decision on the owner alone needs the second look, at nodes and pods."""
        return self.decision.verdict == Verdict.DELETE or self.decision.reason == Reason.POOL_WARM

    @property
    def is_limited(self) -> bool:
        """Return whether the pool is to be deleted within the cap of a sweep."""
        return self.decision.verdict == Verdict.DELETE and needs_cap(self.facts)


def judge_pool(look: Look, facts: PoolFacts) -> JudgedPool:
    """Return what is decided about a pool now."""
    return JudgedPool(facts, decide_collect(facts, now=look.now(), settings=look.settings))


def release_pool(look: Look, pool: PoolSnapshot, *, pools: Sequence[PoolSnapshot]) -> JudgedPool:
    """Delete a pool after one more look at the pool, its owner by UID and the pods bound to it.

    The second decision counts, so a pool that has changed is judged as it is now. A look that is
    too old when the deletion is about to be submitted is made again. Only a sweep marks nodes of
    pools that may stay idle, because only its account may write the taint that is the record.

    Args:
        look: with unshared reads, but those of a batch. The time for which they may be shared
            counts as the age of the look.
        pool: as it was listed.
        pools: at least all pools of workloads of its owner's name.

    Raises:
        Retryable: something could not be read, or each look took too long; nothing was deleted.
    """

    def look_and_act() -> JudgedPool:
        looked_at = look.now() - (SHARED_SECONDS if look.batch else 0.0)
        facts = gather_again(look, pool.name, pools=pools)
        if facts is None:
            return JudgedPool(PoolFacts(pool=pool, owner=OwnerState.UNKNOWN), decide_absent_pool(pool.name))
        seen = judge_pool(look, facts)
        try:
            return dataclasses.replace(seen, decision=_act(look, seen, looked_at=looked_at))
        except Busy as error:
            return dataclasses.replace(seen, decision=decide_gke_answer(pool.name, "deleted", error))

    return look_again_if_old(look_and_act)


def _act(look: Look, seen: JudgedPool, *, looked_at: float) -> Decision:
    """Do what follows from the last look at a pool; return what came of it.

    Raises:
        OldLook: it took too long, or the nodes were closed: a pod may have come before that.
        Retryable: GKE or a node could not be asked, or another operation holds the pool.
    """
    facts, decision, name = seen.facts, seen.decision, seen.facts.pool.name
    if decision.reason == Reason.POOL_IN_USE and facts.pods:
        tell_foreign_pods(look.live, facts.pool, facts.pods.others, kinds=look.settings.kinds)
    marks = plan_marks(facts, now=look.now(), settings=look.settings) if look.cap is not None else {}
    if marks:
        marking = decide_idle_marking(name)
        marked = mark_nodes(look, facts.pool, marks, marking, looked_at=looked_at)
        if marked is not marking:
            return marked
        if _note_marks(name, marks):
            raise OldLook(f"node pool {name} was not deleted, because its nodes change")
    if decision.verdict != Verdict.DELETE:
        return decision
    return delete_pool(look, facts.pool, decision, looked_at=looked_at, limited=needs_cap(facts))


def _note_marks(pool_name: str, marks: Mapping[str, tuple[float | None, bool]]) -> bool:
    """Log the marks that were written on nodes; return whether they close the nodes to new pods."""
    since, closed = next(iter(marks.values()))
    what = "in use" if since is None else "closed" if closed else "idle"
    fields = {"pool": pool_name, "state": what, "idle_since": since, "nodes": len(marks)}
    _LOG.info("nodes of a node pool that may stay idle were marked", extra=fields)
    return closed
