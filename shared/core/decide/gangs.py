"""Decides about all slices of a workload at once: none gets a node pool unless all may. Pure.

The slices come from the spec, so that they are known before any pod exists. The workload is given
as it will be when it runs, that is not suspended.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.decide.demands import decide_namespace, decide_planned_demand, refuse_rejected
from shared.core.decide.failures import RULES, classify_failure
from shared.core.decide.filling import CREATION_TRIES_SECONDS
from shared.core.decide.mode_label import decide_stop
from shared.core.decide.provision import decide_provision
from shared.core.decisions import FAILURE_REASONS, Decision, Reason, Verdict
from shared.core.demand.capacity import Tier
from shared.core.errors import LabelBudgetExceeded, Rejected
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import LOST, PoolStatus
from shared.core.kinds.table import list_slices
from shared.core.nodepool import build_node_pool

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from shared.core.decide.attempts import AttemptDecision
    from shared.core.decide.mode_label import Stop
    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.settings import Settings
    from shared.core.workloads import WorkloadView

Gang = tuple["Demand", ...]
"""The demands of all slices of one workload's spec that need accelerators; at least one."""


NO_CAPACITY = (Reason.STOCKOUT, Reason.QUOTA_EXCEEDED, Reason.RESERVATION_UNFIT, Reason.ADDRESSES_EXHAUSTED)
"""A part of a gang's pools is given back at once for these only. What we refuse gives none back."""


class GangState(StrEnum):
    """How far the node pools of a gang are."""

    READY = "ready"
    """Each slice has a node pool that runs and fits."""
    WAITING = "waiting"
    """Some do not have it yet."""
    REFUSED = "refused"
    """Some do not get it as things are. If that is our own refusal, no slice has a pool."""
    NEVER = "never"
    """The spec alone is refused, whatever the settings are."""
    ENDED = "ended"
    """GKE has not made all of them in time, so those that are there are given back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangAnswer:
    """What came of the slices of a gang."""

    state: GangState
    decision: Decision
    """That of the slice which holds the others up, with how many are ready."""
    slices: tuple[tuple[Demand, AttemptDecision], ...] = ()
    """What was decided and done for each slice; empty if nothing was tried for any."""


def plan_gang(cluster: str, workload: WorkloadView, settings: Settings) -> Gang | Decision:
    """Return the demands of all slices, or why none gets a node pool before pods exist.

    Claims and fingerprints are those of the later pods. A slice that needs no accelerators is left
    out. One that this provisioner would not serve is a refusal for all.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        workload: as it is now; that it is suspended does not count.
        settings: the operator's.
    """
    awake, demands = dataclasses.replace(workload, suspended=False), []
    try:
        wanted = list_slices(awake)
    except Rejected as error:
        return refuse_rejected(error)
    for each in wanted:
        found = decide_planned_demand(cluster, awake, each, settings)
        if isinstance(found, Decision):
            if found.reason == Reason.NOT_AN_ACCELERATOR_DEMAND:
                continue
            return Decision(Verdict.REFUSE, found.reason, f"slice {each.name}: {found.message}")
        if Tier.FLEX_START in (found.capacity.tier, *(way.capacity.tier for way in found.candidates)):
            message = (
                f"slice {each.name} may get flex-start capacity, whose nodes only come when pods wait, so "
                "its node pool cannot be made before the pods; use another tier, or leave flex-start off its list"
            )
            return Decision(Verdict.REFUSE, Reason.CAPACITY_CONFLICT, message)
        demands.append(found.with_nodes_at_creation(before_pods=True))
    if not demands:
        message = (
            f"no slice of {workload} needs accelerators, so there is no capacity to wait for; remove the "
            f"annotation {labels.CAPACITY_FIRST}"
        )
        return Decision(Verdict.REFUSE, Reason.NOT_AN_ACCELERATOR_DEMAND, message)
    return tuple(demands)


def list_missing(gang: Gang, pools: Sequence[PoolSnapshot]) -> list[Demand]:
    """Return the demands without a pool that lives, so that one has to be bought."""
    alive = {pool.owner.claim_hash for pool in _list_pools(gang, pools) if pool.owner and pool.status not in LOST}
    return [demand for demand in gang if demand.claim.hash not in alive]


def decide_purchase(
    missing: Iterable[Demand],
    namespace_labels: Mapping[str, str],
    *,
    stop: Stop | None = None,
    now: float,
    settings: Settings,
) -> Decision | None:
    """Return why not all of some pools may be created, apart from limits; None if all may.

    Args:
        missing: the demands without a pool.
        namespace_labels: those of the workload's namespace.
        stop: the emergency stop of the cluster.
        now: unix seconds.
        settings: the operator's.
    """
    for demand in missing:
        refused = decide_namespace(demand, namespace_labels)
        decision = refused or decide_provision(demand, None, now=now, settings=settings)
        if decision.verdict == Verdict.CREATE:
            decision = _check_labels(demand, settings) or decide_stop(decision, stop) or decision
        if decision.verdict != Verdict.CREATE:
            message = (
                f"slice {demand.claim.slice_name}: {decision.message}; no slice gets a node pool unless all do"
            )
            return Decision(Verdict.REFUSE, decision.reason, message)
    return None


def _check_labels(demand: Demand, settings: Settings) -> Decision | None:
    try:
        build_node_pool(demand, attempt=0, created_at=0, settings=settings)
    except LabelBudgetExceeded as error:
        return refuse_rejected(error)
    return None


def judge_gang(slices: Sequence[tuple[Demand, AttemptDecision]]) -> GangAnswer:
    """Return the state of a gang from what was decided for each slice."""
    ready = sum(_is_ready(made.decision) for _, made in slices)
    demand, slowest = max(slices, key=lambda each: _rank(each[1].decision))
    decision = slowest.decision
    if ready == len(slices):
        message = f"all {ready} slices have their node pools" if ready > 1 else "the slice has its node pool"
        decision = Decision(Verdict.KEEP, Reason.POOL_SERVES, message)
        return GangAnswer(state=GangState.READY, decision=decision, slices=tuple(slices))
    others = any(made.decision.verdict != Verdict.REFUSE for _, made in slices)
    # What we refuse ourselves ends nothing while other slices have pools.
    refused = decision.verdict == Verdict.REFUSE and (decision.reason in FAILURE_REASONS or not others)
    message = (
        f"{ready} of {len(slices)} slices have their node pools; {demand.claim.slice_name}: {decision.message}"
    )
    return GangAnswer(
        state=GangState.REFUSED if refused else GangState.WAITING,
        decision=Decision(decision.verdict, decision.reason, message),
        slices=tuple(slices),
    )


def answer_whole(decision: Decision, *, held: bool, final: bool = False) -> GangAnswer:
    """Return the state after one decision about all slices, of which some may have pools (held)."""
    rows = (
        (decision.reason == Reason.NOT_AN_ACCELERATOR_DEMAND, GangState.READY),
        (final, GangState.NEVER),
        (decision.verdict == Verdict.DELETE, GangState.ENDED),
        (decision.verdict == Verdict.REFUSE and not held, GangState.REFUSED),
    )
    state = next((state for holds, state in rows if holds), GangState.WAITING)
    return GangAnswer(state=state, decision=decision)


def _is_ready(decision: Decision) -> bool:
    return (decision.verdict, decision.reason) == (Verdict.KEEP, Reason.POOL_SERVES)


def _rank(decision: Decision) -> int:
    """Return how much a slice holds the others up."""
    order = (Verdict.KEEP, Verdict.NOTHING, Verdict.WAIT, Verdict.DELETE, Verdict.RESIZE, Verdict.CREATE)
    if decision.verdict == Verdict.REFUSE:
        return len(order) + 2
    if decision.reason in FAILURE_REASONS:
        return len(order) + 1
    return 0 if _is_ready(decision) else 1 + order.index(decision.verdict)


def find_held_since(
    gang: Gang, pools: Sequence[PoolSnapshot], *, since: float, came: Mapping[str, float], now: float
) -> float | None:
    """Return since when pools of a gang are held or being made, in unix seconds; None without any.

    It is the creation of the oldest one that lives, as its label says. A failed pool is none. One
    of an earlier round counts from when its nodes came, because nothing else was held until then
    (`decide_starved`); `came` has it by name. Without a node that is when GKE ended its tries. See
    `decide_late`.
    """
    alive = (pool for pool in _list_pools(gang, pools) if pool.status not in LOST)
    made = {each.name: each.owner.created_at for each in alive if each.owner and each.owner.created_at is not None}
    ready = {name: min(at + CREATION_TRIES_SECONDS, came.get(name, now)) for name, at in made.items()}
    return min((at if at >= since else max(since, ready[name]) for name, at in made.items()), default=None)


def list_earlier(gang: Gang, pools: Sequence[PoolSnapshot], status: PoolStatus, *, since: float) -> list[str]:
    """Return the names of a gang's pools in a status that were created before a round began."""
    return [
        pool.name
        for pool in _list_pools(gang, pools)
        if pool.status == status and pool.owner and (pool.owner.created_at or since) < since
    ]


def _list_pools(gang: Gang, pools: Sequence[PoolSnapshot]) -> list[PoolSnapshot]:
    index = PoolIndex.of(pools)
    return [pool for demand in gang for pool in index.list_claimed(demand.claim.hash)]


def select_running(gang: Gang, pools: Sequence[PoolSnapshot]) -> list[Demand]:
    """Return the demands that have a pool which runs with its nodes."""
    serving = [each for each in _list_pools(gang, pools) if each.status == PoolStatus.RUNNING]
    served = {pool.owner.claim_hash for pool in serving if pool.owner and not pool.autoscaled}
    return [demand for demand in gang if demand.claim.hash in served]


def is_complete(gang: Gang, pools: Sequence[PoolSnapshot]) -> bool:
    """Return whether no slice lacks a pool that runs, so that none of them is given back."""
    return len(select_running(gang, pools)) == len(gang)


def decide_starved(
    gang: Gang, pools: Sequence[PoolSnapshot], said: Mapping[str, Decision], *, held: Sequence[PoolSnapshot]
) -> Decision | None:
    """Return what follows while GKE finds no capacity for the pool of one slice; None if it does.

    DELETE ends the round, because other slices hold pools that would wait for this one. WAIT means
    that nothing is created for any slice. The pool itself stays in both cases: GKE cannot delete it
    while it is creating it, and it may still get its nodes. `said` is what GKE says meanwhile, by
    the name of the slice. `held` has the pools that no pods of other workloads use: a pool that
    they use stays, so no round ends because of it.
    """
    running = {each.claim.slice_name for each in select_running(gang, pools)}
    names = [name for each in gang if (name := each.claim.slice_name) in said and name not in running]
    starved = next((name for name in names if said[name].reason in NO_CAPACITY), None)
    if starved is None:
        return None
    words = f"{len(running)} of {len(gang)} slices have their node pools; {starved}: {said[starved].message}"
    if select_running(gang, held):
        message = f"{words}; so the node pools of the other slices are deleted"
        return Decision(Verdict.DELETE, Reason.GANG_INCOMPLETE, message)
    if len(gang) > 1:
        words = f"{words}; nothing is created for the other slices meanwhile"
    return Decision(Verdict.WAIT, said[starved].reason, words)


def decide_unread(gang: Gang, pools: Sequence[PoolSnapshot], *, since: float) -> Decision | None:
    """Return that a slice waits for the sweep, which reads what GKE says; None if none has to.

    GKE is still creating the pool of a slice from an earlier round, so it may find no capacity for
    it. What is created for the others meanwhile would be deleted again. See `decide_late`.
    """
    old = list_earlier(gang, pools, PoolStatus.PROVISIONING, since=since)
    if not old or not list_missing(gang, pools):
        return None
    message = f"node pool {old[0]} is PROVISIONING since an earlier round; the next sweep decides about the others"
    return Decision(Verdict.WAIT, Reason.POOL_IN_PROGRESS, message)


def decide_late(
    gang: Gang,
    pools: Sequence[PoolSnapshot],
    seconds: float,
    *,
    refused: Collection[str] = (),
    held_since: float | None,
    now: float,
) -> Decision | None:
    """Return that a part of a gang's pools was held for too long; None if not, or if all run.

    GKE must have had the time: it has accepted a pool of a slice that lacks one, or has refused it.

    Args:
        gang: the demands of all slices.
        pools: at least all pools of the workload.
        seconds: how long a part may be held.
        refused: the names of slices whose pools GKE refused just now.
        held_since: unix seconds, from `find_held_since`.
        now: unix seconds.
    """
    if held_since is None or now - held_since < seconds or is_complete(gang, pools):
        return None
    running, index = select_running(gang, pools), PoolIndex.of(pools)

    def is_tried(demand: Demand) -> bool:
        """Return whether GKE makes its pool, or failed for another cause than a right of ours."""
        failures = [RULES[classify_failure(pool.error)] for pool in index.list_claimed(demand.claim.hash)]
        return demand.claim.slice_name in refused or any(each.reason in FAILURE_REASONS for each in failures)

    lacking = next((each for each in gang if each not in running and is_tried(each)), None)
    if lacking is None:
        return None
    message = (
        f"{len(running)} of {len(gang)} slices got their node pools within {round(seconds)} s, so all of them "
        f"are deleted; {lacking.claim.slice_name} has none that runs"
    )
    return Decision(Verdict.DELETE, Reason.GANG_INCOMPLETE, message)
