"""Gives all slices of a workload's spec their node pools before it has pods, or deletes them.

Nothing is created unless all may be. A slice follows its list of capacity as one whose pod waits.
"""

from __future__ import annotations

from collections.abc import Callable
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
    judge_gang,
    list_missing,
)
from shared.core.decide.needed_pools import sort_own_attempts
from shared.core.decisions import FAILURE_REASONS, Decision, Reason, Verdict
from shared.core.errors import Denied, ProvisionerError, Retryable
from shared.core.identity.names import build_pool_name
from shared.core.identity.pool_index import PoolIndex
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

FIRST_ATTEMPT = 0
_QUIET = (Verdict.KEEP, Verdict.WAIT)


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
    cluster, index = missing[0].claim.cluster, PoolIndex.of(pools)
    own = [pool.name for each in missing for pool in index.list_claimed(each.claim.hash)]
    namespace = ports.clusters[cluster].get_namespace(workload.namespace)
    return decide_purchase(
        missing,
        namespace.labels if namespace else {},
        stop=read_stop(cluster, ports),
        usage=limits.measure(missing[0], *own) if limits else None,
        now=ports.clock.now(),
        settings=ports.settings,
    )


def _read_trying(gang: Gang, pools: Sequence[PoolSnapshot], ports: Ports) -> dict[str, Decision]:
    """Return by slice what GKE says while it creates a pool of it."""
    index, tasks = PoolIndex.of(pools), dict[str, Callable[[], Decision | None]]()
    for demand in gang:
        if pool := find_newest(index.list_claimed(demand.claim.hash)):
            tried = demand.on_attempt(pool.owner.attempt if pool.owner else FIRST_ATTEMPT)
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
        cap: how many pools this sweep may still delete; None outside a sweep.
        limits: what counts against the limits, if several workloads share it.
        creations: what GKE says of pools that it has created; None outside a sweep.

    Raises:
        Retryable: something could not be read or is in progress. Other slices may have got theirs.
        Denied: a permission is missing.
    """
    limits = limits or find_limits(cluster, ports)
    turn = Turn(ports.clock.now(), cap, limits, creations, workload=workload, since=since)
    missing, late = list_missing(gang, pools), partial(decide_late, gang, pools, seconds, since=since)
    if ports.reads_fillings:
        whole = decide_starved(gang, pools, _read_trying(gang, pools, ports))
    else:
        whole = decide_unread(gang, pools, since=since)
    whole = whole or refuse_purchase(missing, workload, ports, pools, limits) or late(now=ports.clock.now())
    if whole:
        return answer_whole(whole, held=len(missing) < len(gang))
    tasks = [partial(_give_pool, demand, workload, ports, pools, turn) for demand in gang]
    slices: list[tuple[Demand, AttemptDecision]] = []
    errors: list[ProvisionerError] = []
    for demand, done in zip(gang, run_paced(tasks, ports), strict=True):
        if isinstance(done, Exception):
            error = name_error(done)
            error.claim = error.claim or describe_claim(demand.claim)
            errors.append(error)
        else:
            slices.append((demand, done))
    if errors:  # an error that a person must repair comes before one that a retry repairs
        raise min(errors, key=lambda each: isinstance(each, Retryable))
    answer = judge_gang(slices)
    if answer.state != GangState.REFUSED:
        return answer
    refused = {each.claim.slice_name for each, made in slices if made.decision.verdict == Verdict.REFUSE}
    whole = late(refused=refused, now=ports.clock.now())
    return answer_whole(whole, held=True) if whole else answer


def _give_pool(
    demand: Demand, workload: WorkloadView, ports: Ports, pools: Sequence[PoolSnapshot], turn: Turn
) -> AttemptDecision:
    live, attempts = ports.clusters[demand.claim.cluster], [FIRST_ATTEMPT]
    if not demand.elastic:
        attempts = sort_own_attempts(demand.claim.hash, pools, fingerprint=demand.fingerprint) or attempts
    try:
        for attempt in attempts:
            found = make_attempt(demand, attempt, ports, pools, turn)
            if found.decision.reason != Reason.POOL_IN_USE:
                break  # else pods keep a pool of another shape, and the next one may be empty
    except Denied as error:
        name = build_pool_name(demand.claim, FIRST_ATTEMPT)
        failed = decide_failure(f"node pool {name} cannot be created", error)
        explain(live, failed, objects=(workload, workload.parent))
        raise
    if found.decision.verdict not in _QUIET or found.decision.reason in FAILURE_REASONS:
        explain(live, found.decision, objects=(workload, workload.parent))
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
