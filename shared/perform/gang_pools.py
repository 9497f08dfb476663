"""Gives all slices of a workload's spec their node pools before it has pods, or deletes them.

Nothing is created unless all may be. A slice follows its list of capacity as one whose pod waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from shared.core.decide.attempts import find_newest
from shared.core.decide.error_answers import decide_failure
from shared.core.decide.gangs import (
    GangAnswer,
    GangState,
    answer_whole,
    decide_late,
    decide_purchase,
    decide_starved,
    decide_unread,
    find_held_since,
    judge_gang,
    list_earlier,
    list_missing,
)
from shared.core.decide.limits import decide_limit, name_pool
from shared.core.decide.needed_pools import sort_own_attempts
from shared.core.decisions import FAILURE_REASONS, Decision, Reason, Verdict
from shared.core.errors import Denied, ProvisionerError, Retryable, Throttled, Unavailable
from shared.core.identity.names import build_pool_name
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import PoolStatus
from shared.perform.act_within_limits import find_limits
from shared.perform.emergency_stop import read_stop
from shared.perform.explain import explain
from shared.perform.fillings import read_trying
from shared.perform.make_attempt import Turn, make_attempt
from shared.perform.outcome import Outcome, describe_attempt, describe_claim, describe_demand
from shared.perform.release_pools import collect_pools
from shared.perform.side_by_side import CALLS_AT_ONCE, get_runner, run_paced
from shared.perform.sweep_report import name_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decide.attempts import AttemptDecision
    from shared.core.decide.gangs import Gang
    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Ports
    from shared.core.workloads import WorkloadView
    from shared.perform.act_within_limits import Limits
    from shared.perform.creation_list import Creations
    from shared.perform.deletion_cap import DeletionCap

_QUIET = (Verdict.KEEP, Verdict.WAIT)
_COMES = (Reason.POOL_IN_PROGRESS, Reason.POOL_SERVES)


def refuse_purchase(
    missing: Sequence[Demand],
    workload: WorkloadView,
    ports: Ports,
    pools: Sequence[PoolSnapshot],
    limits: Limits | None,
) -> Decision | None:
    """Return why we do not create all of some pools as things are; None if we do, or for no pools.

    Args:
        missing: the demands of slices of one workload.
        workload: theirs.
        ports: the outside world.
        pools: every pool of the cluster.
        limits: what counts against the limits; None if none is set.

    Raises:
        Retryable: something could not be read.
        Denied: a permission is missing.
    """
    if not missing:
        return None
    cluster, settings = missing[0].claim.cluster, ports.settings
    namespace, stop = ports.clusters[cluster].get_namespace(workload.namespace), read_stop(cluster, ports)
    said = namespace.labels if namespace else {}
    refused = decide_purchase(missing, said, stop=stop, now=ports.clock.now(), settings=settings)
    if refused or limits is None:
        return refused
    whole, name = _join(missing, pools)
    return decide_limit(whole, settings, limits.measure(whole, name))


def _join(missing: Sequence[Demand], pools: Sequence[PoolSnapshot]) -> tuple[Demand, str]:
    """Return one demand for all of some pools, and the name of its first one."""
    whole = replace(missing[0], companions=tuple(missing[1:]))
    return whole, name_pool(whole.claim, PoolIndex.of(pools))


def _judge_trying(gang: Gang, pools: Sequence[PoolSnapshot], ports: Ports, *, since: float) -> Decision | None:
    """Return what follows from what GKE says while it creates pools of a gang; None for nothing."""
    if ports.reads_fillings:
        return decide_starved(gang, pools, _read_trying(gang, pools, ports))
    return decide_unread(gang, pools, since=since)


def _find_held_since(gang: Gang, pools: Sequence[PoolSnapshot], ports: Ports, *, since: float) -> float | None:
    """Return since when pools of a gang are held; the nodes of earlier ones tell when they came."""
    live, now, came = ports.clusters[gang[0].claim.cluster], ports.clock.now(), dict[str, float]()
    for name in list_earlier(gang, pools, PoolStatus.RUNNING, since=since):
        came[name] = min((node.created_at or now for node in live.list_pool_nodes(name)), default=now)
    return find_held_since(gang, pools, since=since, came=came, now=now)


def _read_trying(gang: Gang, pools: Sequence[PoolSnapshot], ports: Ports) -> dict[str, Decision]:
    """Return by slice what GKE says while it creates a pool of it."""
    index, tasks = PoolIndex.of(pools), dict[str, Callable[[], Decision | None]]()
    for demand in gang:
        if pool := find_newest(index.list_claimed(demand.claim.hash)):
            tried = demand.on_attempt(pool.owner.attempt if pool.owner else 0)
            tasks[demand.claim.slice_name] = partial(read_trying, tried, pool, ports)
    done = get_runner(ports)(list(tasks.values()), at_once=CALLS_AT_ONCE, until=ports.until)
    if broken := next((each for each in done if isinstance(each, Exception)), None):
        raise broken
    return {name: said for name, said in zip(tasks, done, strict=True) if isinstance(said, Decision)}


def give_pools(
    cluster: str,
    gang: Gang,
    workload: WorkloadView,
    ports: Ports,
    *,
    pools: Sequence[PoolSnapshot],
    seconds: float,
    since: float,
    ended: int,
    cap: DeletionCap | None = None,
    limits: Limits | None = None,
    creations: Creations | None = None,
) -> GangAnswer:
    """Create what is missing of the pools of a gang, and say how far they are.

    Nothing is created while GKE finds no capacity for a slice, or while we refuse a part of it.

    `gather` must take the owner of these pools as live (`shared.core.decide.capacity_first`).

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        gang: the demands of all slices of the workload.
        workload: as it was read just now.
        ports: the outside world.
        pools: every pool of the cluster, listed just now.
        seconds: how long a part of the pools may be held.
        since: unix seconds in which the round began, at the end of the gang's own pause.
        ended: how many rounds have ended without success.
        cap: how many pools this sweep may still delete; None outside a sweep.
        limits: what counts against the limits, if several workloads share it.
        creations: what GKE says of pools that it has created; None outside a sweep.

    Raises:
        Retryable: something could not be read or is in progress. Other slices may have got theirs.
        Denied: a permission is missing.
    """
    limits = limits or find_limits(cluster, ports)
    turn = Turn(ports.clock.now(), cap, limits, creations, workload=workload, since=since)
    missing = list_missing(gang, pools)
    held_since = _find_held_since(gang, pools, ports, since=since)
    late = partial(decide_late, gang, pools, seconds, held_since=held_since)
    whole = (
        _judge_trying(gang, pools, ports, since=since)
        or refuse_purchase(missing, workload, ports, pools, limits)
        or late(now=ports.clock.now())
    )
    slices = whole or _make_pools(gang, missing, ports, pools, turn, ended=ended)
    if isinstance(slices, Decision):
        return answer_whole(slices, held=len(missing) < len(gang))
    answer = judge_gang(slices)
    if answer.state != GangState.REFUSED:
        return answer
    refused = {each.claim.slice_name for each, made in slices if made.decision.verdict == Verdict.REFUSE}
    ends = late(refused=refused, now=ports.clock.now())
    return answer_whole(ends, held=True) if ends else answer


def _make_pools(
    gang: Gang, missing: Sequence[Demand], ports: Ports, pools: Sequence[PoolSnapshot], turn: Turn, *, ended: int
) -> list[tuple[Demand, AttemptDecision]] | Decision:
    """Create the pools that are missing; return what was decided for each slice, or a refusal.

    If a limit is set, one write of the ledger reserves for all of them before the first create, so
    that no two gangs get a part each. What is not created then is given back.

    A round may end without a failed creation, which would lead to the next candidate: what is given
    back is room for the slice that lacked it. So each round begins with a later candidate, and the
    order shifts after each cycle, because a pool that comes late may end every second round.
    """
    limits = turn.limits
    reserved = limits.reserve(*_join(missing, pools)) if limits and missing else None
    if isinstance(reserved, Decision):
        return reserved
    names = reserved.names if reserved else {}
    turns = [replace(turn, replaced=(names[each.claim],)) if each.claim in names else turn for each in gang]
    tasks = [
        partial(_give_pool, each, ports, pools, turns[at], (ended + ended // each.choices) % each.choices)
        for at, each in enumerate(gang)
    ]
    done = list(zip(gang, run_paced(tasks, ports), strict=True))
    if limits and reserved:
        kept = {names.get(demand.claim) for demand, made in done if _may_come(made)}
        left = {name: each for name, each in reserved.first.items() if name not in kept}
        limits.give_back(replace(reserved, first=left))
    return _split(done)


def _split(
    done: Sequence[tuple[Demand, AttemptDecision | Exception]],
) -> list[tuple[Demand, AttemptDecision]]:
    """Return what was decided for each slice, or raise the worst error."""
    slices: list[tuple[Demand, AttemptDecision]] = []
    errors: list[ProvisionerError] = []
    for demand, made in done:
        if isinstance(made, Exception):
            error = name_error(made)
            error.claim = error.claim or describe_claim(demand.claim)
            errors.append(error)
        else:
            slices.append((demand, made))
    if errors:  # an error that a person must repair comes before one that a retry repairs
        raise min(errors, key=lambda each: isinstance(each, Retryable))
    return slices


def _may_come(done: AttemptDecision | Exception) -> bool:
    """Return whether a slice may get the pool that this turn submitted, or gets it in a moment."""
    if isinstance(done, Exception):
        return isinstance(done, Throttled | Unavailable)
    return done.decision.verdict == Verdict.CREATE or done.decision.reason in _COMES


def _give_pool(
    demand: Demand, ports: Ports, pools: Sequence[PoolSnapshot], turn: Turn, first: int
) -> AttemptDecision:
    workload, parent = turn.workload, turn.workload.parent if turn.workload else None
    live, attempts = ports.clusters[demand.claim.cluster], [first]
    if not demand.elastic or demand.choices > 1:
        attempts = sort_own_attempts(demand.claim.hash, pools, fingerprint=demand.fingerprint) or attempts
    try:
        for attempt in attempts:
            found = make_attempt(demand, attempt, ports, pools, turn)
            if found.decision.reason != Reason.POOL_IN_USE:
                break  # else pods keep a pool of another shape, and the next one may be empty
    except Denied as error:
        name = build_pool_name(demand.claim, first)
        failed = decide_failure(f"node pool {name} cannot be created", error)
        explain(live, failed, objects=(workload, parent))
        raise
    if found.decision.verdict not in _QUIET or found.decision.reason in FAILURE_REASONS:
        explain(live, found.decision, objects=(workload, parent))
    return found


def describe_slices(cluster: str, answer: GangAnswer, ports: Ports) -> list[Outcome]:
    """Return what was done for each slice, for the log; what only waits or runs is left out."""
    return [
        Outcome(
            decision=made.decision,
            cluster=cluster,
            pool=build_pool_name(demand.claim, made.attempt),
            subject=str(demand.claim),
            demand=demand,
            facts=describe_demand(demand.on_attempt(made.attempt), ports.settings) | describe_attempt(made),
        )
        for demand, made in answer.slices
        if made.decision.verdict not in _QUIET or made.failure is not None
    ]


def give_back(
    cluster: str, workload: WorkloadView, ports: Ports, *, pools: Sequence[PoolSnapshot]
) -> list[Outcome]:
    """Look at all pools of a workload, and delete those that are not needed as it is now.

    A pool that GKE still creates cannot be deleted; the sweep does it later.

    Raises:
        Retryable: something could not be read. The other pools were looked at.
        Denied: a permission is missing.
    """
    named = PoolIndex.of(pools).list_named(workload.kind, workload.namespace, workload.name)
    owned = [pool for pool in named if pool.owner and pool.owner.owner_uid == workload.uid]
    return collect_pools(cluster, owned, ports, named=named)
