"""Gives all slices of a workload's spec their node pools before it has pods, or deletes them.

Nothing is created unless all may be. A slice follows its list of capacity as one whose pod waits.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from shared.core.decide.failures import decide_failure
from shared.core.decide.gangs import (
    GangAnswer,
    decide_purchase,
    decide_round,
    is_refused_by_gke,
    judge_gang,
    measure_gang,
)
from shared.core.decide.limits import decide_limit, name_pool
from shared.core.decisions import FAILURE_REASONS, Decision, Reason, Verdict
from shared.core.errors import Denied, Throttled, Unavailable
from shared.core.identity.names import build_pool_name
from shared.core.identity.pools import PoolStatus
from shared.engine.looks.gather import is_used_by_others, read_stop
from shared.engine.looks.look import Turn
from shared.engine.steps.make_attempt import list_attempts, make_attempt
from shared.engine.tell import Outcome, describe_attempt, describe_claim, describe_demand, explain, get_results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decide.attempts import AttemptDecision
    from shared.core.decide.gangs import CapacityRequest, Gang, Holding
    from shared.core.demand.demand import Demand
    from shared.core.identity.pool_index import PoolIndex
    from shared.core.workloads import WorkloadView
    from shared.engine.looks.look import Look

_QUIET = (Verdict.KEEP, Verdict.WAIT)
_COMES = (Reason.POOL_IN_PROGRESS, Reason.POOL_SERVES)


def refuse_purchase(
    look: Look, workload: WorkloadView, missing: Sequence[Demand], pools: PoolIndex
) -> Decision | None:
    """Return why we do not create the pools of all missing slices; None if we do, or for none."""
    if not missing:
        return None
    namespace, stop = (
        look.live.get_namespace(workload.namespace),
        read_stop(look.cluster, look.ports, workload.namespace),
    )
    own_labels = namespace.labels if namespace else {}
    refused = decide_purchase(missing, own_labels, stop=stop, now=look.now(), settings=look.settings)
    if refused or look.limits is None:
        return refused
    whole, name = _join(missing, pools)
    return decide_limit(whole, look.settings, look.limits.measure(whole, name))


def _join(missing: Sequence[Demand], pools: PoolIndex) -> tuple[Demand, str]:
    """Return one demand for all of some pools, and the name of its first one."""
    whole = replace(missing[0], fellows=tuple(missing[1:]))
    return whole, name_pool(whole.claim, pools)


def _judge_round(
    look: Look, holding: Holding, seconds: float, *, refused: Decision | None = None
) -> Decision | None:
    """Return what holds for all slices; pods and nodes are read before a round ends."""
    now = look.now()
    decision = decide_round(holding, seconds, refused=refused, now=now)
    if decision is None or decision.verdict != Verdict.DELETE:
        return decision
    used = get_results(look.run([partial(is_used_by_others, look, pool) for pool in holding.pools]))
    lent = frozenset(pool.name for pool, by_others in zip(holding.pools, used, strict=True) if by_others)
    holding = replace(holding, lent=lent)
    came = {
        pool.name: min((node.created_at or now for node in look.live.list_pool_nodes(pool.name)), default=now)
        for pool in holding.list_earlier(PoolStatus.RUNNING)
    }
    return decide_round(replace(holding, came=came), seconds, refused=refused, now=now)


def give_pools(look: Look, gang: Gang, workload: WorkloadView, request: CapacityRequest) -> GangAnswer:
    """Create what is missing of the pools of a gang, and say how far they are.

    Nothing is created while GKE creates a pool of an earlier round, or we refuse a part of it.

    Args:
        look: at the cluster.
        gang: the demands of all slices of the workload.
        workload: as it was read just now.
        request: what it waits for. Its round begins at the end of the gang's own pause.

    Raises:
        Retryable: something could not be read or is in progress. Other slices may have got theirs.
        Denied: a permission is missing.
    """
    looked_at, pools, since = look.now(), look.pools.list(), request.begins_at or 0.0
    holding = measure_gang(gang, pools, since=since)
    refused = None if holding.unfinished else refuse_purchase(look, workload, holding.missing, pools)
    turns = [
        Turn(look=look, demand=each, pools=pools, looked_at=looked_at, workload=workload, since=since)
        for each in gang
    ]
    whole = _judge_round(look, holding, request.seconds, refused=refused)
    slices = whole or _make_pools(turns, holding.missing, ended=request.round)
    if isinstance(slices, Decision):
        if slices.verdict == Verdict.REFUSE:
            look.figures.settle_gang(gang, ())
        return GangAnswer(decision=slices, held=bool(holding.pools))
    look.figures.settle_gang(gang, slices)
    decision = [(each.claim.slice_name, made.decision) for each, made in slices]
    makes = Reason.POOL_IN_PROGRESS  # also a pool that the list does not have yet
    asked = holding.asked.union(name for name, it in decision if it.reason == makes or is_refused_by_gke(it))
    ends = _judge_round(look, replace(holding, asked=asked), request.seconds) if asked > holding.asked else None
    return GangAnswer(decision=ends) if ends else judge_gang(slices)


def _make_pools(
    turns: Sequence[Turn], missing: Sequence[Demand], *, ended: int
) -> list[tuple[Demand, AttemptDecision]] | Decision:
    """Create the pools that are missing; return what was decided for each slice, or a refusal.

    If a limit is set, one write of the ledger has the holds of all of them before the first create,
    so that no two gangs get a part each. What is not created then is given back.

    A round may end without a failed creation, which would lead to the next candidate: what is given
    back is room for the slice that lacked it. So each round begins with the next candidate. A pool
    that comes late may end every second round. So a cycle has an odd number of rounds.
    """
    look, pools = turns[0].look, turns[0].pools
    holds = look.limits.hold(*_join(missing, pools)) if look.limits and missing else None
    if isinstance(holds, Decision):
        return holds
    names = holds.names if holds else {}
    tasks = []
    for turn in turns:
        name, choices = names.get(turn.demand.claim), turn.demand.choices
        begin = ended % (choices | 1) % choices
        tasks.append(partial(_give_pool, replace(turn, replaced=(name,)) if name else turn, begin))
    demands, done = [turn.demand for turn in turns], look.run(tasks)
    if look.limits and holds:
        kept = {names.get(each.claim) for each, made in zip(demands, done, strict=True) if _may_come(made)}
        left = {name: each for name, each in holds.first.items() if name not in kept}
        look.limits.give_back(replace(holds, first=left))
    claims = [describe_claim(each.claim.cluster, each.claim) for each in demands]
    return list(zip(demands, get_results(done, claims), strict=True))


def _may_come(done: AttemptDecision | Exception) -> bool:
    """Return whether a slice may get the pool that this turn submitted, or gets it in a moment."""
    if isinstance(done, Exception):
        return isinstance(done, Throttled | Unavailable)
    return done.decision.verdict == Verdict.CREATE or done.decision.reason in _COMES


def _give_pool(turn: Turn, first: int) -> AttemptDecision:
    try:
        for attempt in list_attempts(turn, first):
            found = make_attempt(turn, attempt)
            if found.decision.reason != Reason.POOL_IN_USE:
                break  # else pods keep a pool of another shape, and the next one may be empty
    except Denied as error:
        name = build_pool_name(turn.demand.claim, first)
        failed = decide_failure(f"node pool {name} cannot be created", error)
        explain(turn.look.live, failed, turn.workload)
        raise
    if found.decision.verdict not in _QUIET or found.decision.reason in FAILURE_REASONS:
        explain(turn.look.live, found.decision, turn.workload)
    return found


def describe_slices(look: Look, answer: GangAnswer) -> list[Outcome]:
    """Return what was done for each slice, for the log; what only waits or runs is left out."""
    return [
        Outcome(
            decision=made.decision,
            cluster=look.cluster,
            pool=build_pool_name(demand.claim, made.attempt),
            subject=str(demand.claim),
            demand=demand,
            facts=describe_demand(demand.on_attempt(made.attempt), look.settings) | describe_attempt(made),
        )
        for demand, made in answer.slices
        if made.decision.verdict not in _QUIET or made.failure is not None
    ]
