"""The sweep's look at our node pools: what is decided about each, and what is done."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.core.decide.cluster_proof import decide_unproven
from shared.core.decide.collect import decide_collect, decide_over_cap, needs_cap
from shared.core.decide.pool_facts import OwnerState, PoolFacts
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.pools import sort_for_cap
from shared.perform.changes import is_other
from shared.perform.elastic_pools import shrink_pool
from shared.perform.gather import Gathered, OwnerReader, gather_facts
from shared.perform.pool_sizes import is_resizable
from shared.perform.release_pools import is_due_for_a_look, release_pool
from shared.perform.tell import Outcome, describe_owner, describe_pool_outcome, explain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.core.identity.pool_index import PoolIndex
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.workloads import WorkloadView
    from shared.perform.look import Look
    from shared.perform.swept_cluster import SweptCluster

_UNTOLD = (
    *((Verdict.KEEP, each) for each in (Reason.POOL_FAILED, Reason.POOL_WARM, Reason.POOL_LENT)),
    (Verdict.WAIT, Reason.POOL_STOPPING),
)
"""After a failure the leader's own Event says what follows; that a pool stays is told once, by
`collect`."""
_STAYS = tuple((Verdict.KEEP, each) for each in (Reason.OWNER_LIVE, Reason.POOL_DEGRADED))


@dataclass(frozen=True, slots=True)
class JudgedPool:
    """One pool with what was read and decided about it."""

    seen: Gathered
    decision: Decision
    owned: Sequence[PoolSnapshot]
    """Every pool of its workload."""

    @property
    def pool(self) -> PoolSnapshot:
        """Return the pool, as it was listed."""
        return self.seen.facts.pool

    @property
    def is_limited(self) -> bool:
        """Return whether the pool is to be deleted within the cap."""
        return self.decision.verdict == Verdict.DELETE and needs_cap(self.seen.facts)


def judge_pools(swept: SweptCluster, pools: PoolIndex) -> list[JudgedPool]:
    """Return the decision about each of our pools, in the order in which they are done."""
    ours: defaultdict[tuple[str, str, str], list[PoolSnapshot]] = defaultdict(list)
    for pool in pools:
        if pool.owner is not None:
            ours[pool.owner.kind, pool.owner.namespace, pool.owner.name].append(pool)
    judged: dict[str, JudgedPool] = {}
    for owned, found in swept.for_each(lambda owned: _judge_owned(swept, owned), list(ours.values())):
        if isinstance(found, Exception):
            swept.report.add_error(_name_owner(owned[0]), found)
        else:
            judged |= {each.pool.name: each for each in found}
    limited = (each.pool for each in judged.values() if each.is_limited)
    due = sort_for_cap(limited, swept.cap.left, now=swept.look.now())
    unlimited = [each for each in judged.values() if not each.is_limited]
    _explain_kept(swept, unlimited)
    return [*(judged[pool.name] for pool in due), *unlimited]


def act_on_pools(swept: SweptCluster, judged: Sequence[JudgedPool], *, listed: PoolIndex) -> None:
    """Do what was decided."""
    many = sum(is_due_for_a_look(each.decision) for each in judged) > 1
    batch = swept.look.unshared().share_batch() if many else None
    for each, outcome in swept.for_each(lambda each: _act(swept, each, listed, batch), judged):
        if isinstance(outcome, Exception):
            claim = describe_owner(swept.look.cluster, each.pool.owner).get("claim")
            swept.report.add_error(f"node pool {each.pool.name}", outcome, claim=claim)
            swept.look.figures.add_pool(each.pool, each.decision)
        else:
            swept.report.outcomes.append(outcome)
            swept.look.figures.add_pool(each.pool, outcome.decision)


def _judge_owned(swept: SweptCluster, owned: Sequence[PoolSnapshot]) -> list[JudgedPool]:
    """Return the decision about each pool of one workload, which is read once.

    A pool that cannot be judged stays, as if its owner could not be read.
    """
    reader, found = OwnerReader(swept.look), []
    now, settings = swept.look.now(), swept.look.settings
    for pool in owned:
        try:
            seen = gather_facts(pool, reader, pools=owned)
            decision = decide_collect(seen.facts, now=now, settings=settings)
        except Exception as error:  # noqa: BLE001 -- the net of this pool
            claim = describe_owner(swept.look.cluster, pool.owner).get("claim")
            swept.report.add_error(_name_owner(pool), error, claim=claim)
            seen = Gathered(PoolFacts(pool=pool, owner=OwnerState.UNKNOWN))
            decision = decide_collect(seen.facts, now=now, settings=settings)
        found.append(JudgedPool(seen, decision, owned))
    return found


def _act(swept: SweptCluster, judged: JudgedPool, listed: PoolIndex, batch: Look | None) -> Outcome:
    """Delete a pool after a second look, or remove empty nodes; else do nothing."""
    pool, decision, workload = judged.pool, judged.decision, judged.seen.workload
    if judged.is_limited and swept.cap.over:
        decision = decide_over_cap(pool.name, swept.look.settings)
    elif decision.verdict == Verdict.DELETE and is_other(swept.look.live, listed):
        decision = decide_unproven(pool.name)  # many pools, and one read for all of them
    elif is_due_for_a_look(decision):
        decision = release_pool(swept.look.unshared(), pool, pools=judged.owned, batch=batch)
        if (decision.verdict, decision.reason) not in _UNTOLD:
            explain(swept.look.live, decision, objects=(workload,))
    if (decision.verdict, decision.reason) in _STAYS and workload is not None and is_resizable(pool):
        decision = _shrink(swept, judged, workload) or decision
    return describe_pool_outcome(swept.look.cluster, pool, decision)


def _shrink(swept: SweptCluster, judged: JudgedPool, workload: WorkloadView) -> Decision | None:
    found = shrink_pool(swept.look.unshared(), judged.pool, workload, judged.owned)
    if found is not None:
        explain(swept.look.live, found, objects=(workload,))
    return found


def _explain_kept(swept: SweptCluster, judged: Iterable[JudgedPool]) -> None:
    """Write an Event for each workload whose parent keeps it, in every sweep.

    Such a workload uses chips for as long as it is kept, and Events expire.
    """
    for each in judged:
        if each.decision.reason == Reason.PARENT_OVER:
            explain(swept.look.live, each.decision, objects=(each.seen.workload, each.seen.facts.parent))


def _name_owner(pool: PoolSnapshot) -> str:
    owner = pool.owner
    return f"{owner.kind} {owner.namespace}/{owner.name}" if owner else f"node pool {pool.name}"
