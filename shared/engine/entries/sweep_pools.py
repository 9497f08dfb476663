"""The sweep's look at our node pools: what is decided about each, and what is done."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from shared.core.decide.cluster_stops import decide_unproven
from shared.core.decide.collect import decide_over_cap
from shared.core.decide.pool_facts import OwnerState, PoolFacts
from shared.core.decisions import Reason, Verdict
from shared.core.identity.pools import sort_for_cap
from shared.engine.looks.gather import gather_facts, is_other, read_owner
from shared.engine.looks.pool_reads import is_resizable
from shared.engine.steps.elastic_pools import shrink_pool
from shared.engine.steps.release_pools import JudgedPool, judge_pool, release_pool
from shared.engine.tell import describe_claim, describe_pool_outcome, explain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.identity.pool_index import PoolIndex
    from shared.engine.looks.look import SweptCluster

_UNTOLD = (
    *((Verdict.KEEP, each) for each in (Reason.POOL_FAILED, Reason.POOL_WARM, Reason.POOL_LENT)),
    (Verdict.WAIT, Reason.POOL_STOPPING),
)
"""After a failure the leader's own Event says what follows; that a pool stays is told once, by
`collect`."""
_STAYS = tuple((Verdict.KEEP, each) for each in (Reason.OWNER_LIVE, Reason.POOL_DEGRADED, Reason.POOL_IN_USE))


def judge_pools(swept: SweptCluster, pools: PoolIndex) -> list[JudgedPool]:
    """Return the decision about each of our pools, in the order in which they are done."""
    judged: dict[str, JudgedPool] = {}
    homes = list(dict.fromkeys(pool.owner.home for pool in pools if pool.owner))
    for home, found in swept.for_each(lambda home: _judge_owned(swept, home, pools), homes):
        if isinstance(found, Exception):
            swept.report.add_error("{} {}/{}".format(*home), found)
        else:
            judged |= {each.facts.pool.name: each for each in found}
    limited = (each.facts.pool for each in judged.values() if each.is_limited)
    due = sort_for_cap(limited, swept.cap.left, now=swept.look.now())
    unlimited = [each for each in judged.values() if not each.is_limited]
    for each in unlimited:
        if each.decision.reason == Reason.PARENT_OVER:
            # In every sweep: it uses chips for as long as it is kept, and Events expire.
            explain(swept.look.live, each.decision, each.facts.workload)
    return [*(judged[pool.name] for pool in due), *unlimited]


def act_on_pools(swept: SweptCluster, judged: Sequence[JudgedPool], *, listed: PoolIndex) -> None:
    """Do what was decided, and report what the last look at each pool found."""
    if sum(each.is_due for each in judged) > 1:
        swept = replace(swept, look=swept.look.in_batch())
    for seen, found in swept.for_each(lambda each: _act(swept, each, listed), judged):
        pool = seen.facts.pool
        if isinstance(found, Exception):
            about = describe_pool_outcome(swept.look.cluster, pool, seen.decision)
            swept.report.add_error(about.subject, found, claim=about.facts.get("claim"))
            swept.look.figures.add_pool(pool, seen.decision)
        else:
            swept.report.outcomes.append(describe_pool_outcome(swept.look.cluster, pool, found.decision))
            swept.look.figures.add_pool(pool, found.decision)


def _judge_owned(swept: SweptCluster, home: tuple[str, str, str], pools: PoolIndex) -> list[JudgedPool]:
    """Return the decision about each pool of one workload, which is read once.

    A pool that cannot be judged stays, as if its owner could not be read.
    """
    owned, look, found = pools.list_named(*home), swept.look, []
    read = cache(partial(read_owner, look, home, owned))
    for pool in owned:
        try:
            judged = judge_pool(look, gather_facts(look, pool, owned, read))
        except Exception as error:  # noqa: BLE001 -- the net of this pool
            claim = describe_claim(look.cluster, pool.owner) if pool.owner else None
            swept.report.add_error("{} {}/{}".format(*home), error, claim=claim)
            judged = judge_pool(look, PoolFacts(pool=pool, owner=OwnerState.UNKNOWN))
        found.append(judged)
    return found


def _act(swept: SweptCluster, seen: JudgedPool, listed: PoolIndex) -> JudgedPool:
    """Delete a pool after a second look, or remove empty nodes; else do nothing."""
    facts, pool, owner, look = seen.facts, seen.facts.pool, seen.facts.pool.owner, swept.look
    owned = listed.list_named(*owner.home) if owner else []
    if seen.is_limited and swept.cap.over:
        seen = replace(seen, decision=decide_over_cap(pool.name, look.settings))
    elif seen.decision.verdict == Verdict.DELETE and is_other(look.live, listed):
        seen = replace(seen, decision=decide_unproven(pool.name))  # many pools, and one read for all of them
    elif seen.is_due:
        seen = release_pool(look.unshared(), pool, pools=owned)
        if (seen.decision.verdict, seen.decision.reason) not in _UNTOLD:
            explain(look.live, seen.decision, facts.workload)
    resizable = (seen.decision.verdict, seen.decision.reason) in _STAYS and is_resizable(pool)
    if resizable and facts.workload and (shrunk := shrink_pool(look.unshared(), pool, facts.workload, owned)):
        explain(look.live, shrunk, facts.workload)
        return replace(seen, decision=shrunk)
    return seen
