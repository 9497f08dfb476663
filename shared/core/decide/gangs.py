"""Decides about all slices of a workload at once: none gets a node pool unless all may. Pure.

The slices come from the spec, so that they are known before any pod exists. The workload is given
as it will be when it runs, that is not suspended.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.core.decide.cluster_stops import decide_stop
from shared.core.decide.demands import decide_namespace, decide_planned_demand, refuse_rejected
from shared.core.decide.failures import RULES, classify_failure
from shared.core.decide.filling import CREATION_TRIES_SECONDS
from shared.core.decide.provision import decide_provision
from shared.core.decisions import FAILURE_REASONS, Decision, Reason, Verdict
from shared.core.demand.capacity import Tier
from shared.core.errors import LabelBudgetExceeded, Rejected
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import LOST, PoolStatus
from shared.core.kinds.table import list_slices
from shared.core.nodepool import build_node_pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.core.decide.attempts import AttemptDecision
    from shared.core.decide.cluster_stops import Stop
    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.settings import Settings
    from shared.core.workloads import WorkloadView

Gang = tuple["Demand", ...]
"""The demands of all slices of one workload's spec that need accelerators; at least one."""
NO_CAPACITY = (Reason.STOCKOUT, Reason.QUOTA_EXCEEDED, Reason.RESERVATION_UNFIT, Reason.ADDRESSES_EXHAUSTED)
"""For these only, the end of a slice's list of capacity lets Kueue try again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRequest:
    """What a gang waits for: node pools for all slices before Kueue resumes its workload."""

    seconds: int
    """How long a part of them may be held."""
    round: int = 0
    """How many rounds have ended without success."""
    begins_at: float | None = None
    """Unix seconds at which its round began, with the quota; None if that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a gang holds and what it wants: each answer about it reads this one state."""

    gang: Gang
    running: frozenset[str]
    """The slices, by name, that have a pool which runs with its nodes."""
    wanting: tuple[str, ...]
    """The slices without one."""
    pools: tuple[PoolSnapshot, ...]
    """The pools of its slices that live. A failed pool is none."""
    missing: tuple[Demand, ...] = ()
    """The demands without a pool that lives, so that one has to be bought."""
    asked: frozenset[str] = frozenset()
    """The slices whose pool GKE makes, or has refused for another cause than a right of ours."""
    since: float = 0.0
    """Unix seconds from which a pool counts as held: the begin of the round."""
    lent: frozenset[str] = frozenset()
    """The names of pools that other workloads use. They cannot be given back."""
    came: Mapping[str, float] | None = None
    """When the nodes of a pool came, in unix seconds by its name; None if no node was read."""

    @property
    def unfinished(self) -> str:
        """Return the pool that has to come, or to fail, before others are bought; or none.

        GKE is still creating it since an earlier round, so it may find no capacity for it. What is
        created for the others meanwhile would be deleted again.
        """
        if not self.missing:
            return ""
        return next((each.name for each in self.list_earlier(PoolStatus.PROVISIONING)), "")

    def list_earlier(self, status: PoolStatus) -> list[PoolSnapshot]:
        """Return the pools in a status that were created before the round began."""
        made = [(each, each.owner.created_at or self.since) for each in self.list_held() if each.owner]
        return [each for each, at in made if each.status == status and at < self.since]

    def list_held(self) -> list[PoolSnapshot]:
        """Return the pools that the end of a round gives back."""
        return [each for each in self.pools if each.name not in self.lent]

    def is_late(self, seconds: float, now: float) -> bool:
        """Return whether a part is held for so long, while another slice has no pool that runs.

        It is held from the creation of its oldest pool, as the label says, or from the begin of the
        round if a person removed that label. A pool from before the round counts from when its
        nodes came, because nothing else was held until then. Without a node that is when GKE ended
        its tries. If no node was read, it counts from the begin of the round, so that what is not
        late then is not late.
        """

        def find_begin(pool: PoolSnapshot, at: float) -> float:
            if at >= self.since or self.came is None:
                return max(at, self.since)
            return max(self.since, min(at + CREATION_TRIES_SECONDS, self.came.get(pool.name, now)))

        known = [(each, each.owner.created_at or self.since or now) for each in self.list_held() if each.owner]
        held_since = min((find_begin(*each) for each in known), default=now)
        return bool(self.wanting) and now - held_since >= seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class GangAnswer:
    """What came of the slices of a gang."""

    decision: Decision
    """That of the slice which holds the others up, with how many are ready, or one about all."""
    slices: tuple[tuple[Demand, AttemptDecision], ...] = ()
    """What was decided and done for each slice; empty if nothing was tried for any."""
    held: bool = False
    """Some slices have a pool, or may get one."""

    @property
    def ready(self) -> bool:
        """Return whether each slice has a node pool that runs and fits."""
        return _is_ready(self.decision)

    @property
    def ended(self) -> bool:
        """Return whether GKE has not made all of them in time, so that all are given back."""
        return self.decision.verdict == Verdict.DELETE and not self.slices


def plan_gang(cluster: str, workload: WorkloadView, settings: Settings) -> Gang | Decision:
    """Return the demands of all slices, or why none gets a node pool before pods exist.

    Claims and fingerprints are those of the later pods. A slice that needs no accelerators is left
    out. One that this provisioner would not serve is a refusal for all.

    That the workload is suspended does not count.
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
        message = f"no slice of {workload} needs accelerators, so there is no capacity to wait for"
        return Decision(Verdict.REFUSE, Reason.NOT_AN_ACCELERATOR_DEMAND, message)
    return tuple(demands)


def decide_purchase(
    missing: Iterable[Demand],
    namespace_labels: Mapping[str, str],
    *,
    stop: Stop | None = None,
    now: float,
    settings: Settings,
) -> Decision | None:
    """Return why not all of some pools may be created, apart from limits; None if all may.

    `missing` are the demands without a pool, and `now` is in unix seconds.
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
    """Return how far a gang is from what was decided for each slice."""
    ready = sum(_is_ready(made.decision) for _, made in slices)
    demand, slowest = max(slices, key=lambda each: _rank(each[1].decision))
    verdict, reason, why = slowest.decision.verdict, slowest.decision.reason, slowest.decision.message
    message = f"{ready} of {len(slices)} slices have their node pools; {demand.claim.slice_name}: {why}"
    if ready == len(slices):
        message = f"all {ready} slices have their node pools" if ready > 1 else "the slice has its node pool"
    held = any(made.decision.verdict != Verdict.REFUSE for _, made in slices)
    return GangAnswer(decision=Decision(verdict, reason, message), slices=tuple(slices), held=held)


def _is_ready(decision: Decision) -> bool:
    return (decision.verdict, decision.reason) == (Verdict.KEEP, Reason.POOL_SERVES)


def is_refused_by_gke(decision: Decision) -> bool:
    """Return whether GKE did not accept a pool. What we refuse ourselves gives nothing back."""
    return decision.verdict == Verdict.REFUSE and decision.reason in FAILURE_REASONS


def _rank(decision: Decision) -> int:
    """Return how much a slice holds the others up."""
    order = (Verdict.KEEP, Verdict.NOTHING, Verdict.WAIT, Verdict.DELETE, Verdict.RESIZE, Verdict.CREATE)
    if decision.verdict == Verdict.REFUSE:
        return len(order) + 2
    if decision.reason in FAILURE_REASONS:
        return len(order) + 1
    return 0 if _is_ready(decision) else 1 + order.index(decision.verdict)


def measure_gang(gang: Gang, pools: Sequence[PoolSnapshot], *, since: float = 0.0) -> Holding:
    """Return what a gang holds before its workload has pods, so that each slice has its own pools.

    `pools` has at least all pools of the workload. The round began at `since`, in unix seconds.
    """
    index = PoolIndex.of(pools)
    own = {each.claim.slice_name: index.list_claimed(each.claim.hash) for each in gang}
    alive = {name: [pool for pool in found if pool.status not in LOST] for name, found in own.items()}
    running = frozenset(name for name, found in alive.items() if any(is_running(pool) for pool in found))
    return Holding(
        gang=gang,
        running=running,
        wanting=tuple(name for name in own if name not in running),
        pools=tuple(pool for found in alive.values() for pool in found),
        missing=tuple(each for each in gang if not alive[each.claim.slice_name]),
        asked=frozenset(name for name, found in own.items() if any(_is_asked(pool) for pool in found)),
        since=since,
    )


def is_running(pool: PoolSnapshot) -> bool:
    """Return whether a pool runs with its nodes; an autoscaler adds none before there are pods."""
    return pool.status == PoolStatus.RUNNING and not pool.autoscaled


def _is_asked(pool: PoolSnapshot) -> bool:
    """Return whether GKE makes a pool, or failed for another cause than a right of ours."""
    return not pool.error or RULES[classify_failure(pool.error)].reason in FAILURE_REASONS


def decide_round(
    holding: Holding, seconds: float, *, refused: Decision | None = None, now: float
) -> Decision | None:
    """Return what holds for all slices of a gang now; None to create what is missing.

    DELETE ends the round, WAIT and REFUSE leave it as it is. A round that is late ends only if GKE
    has had the time for a slice that lacks its pool: it makes the pool, or has refused it.

    Args:
        holding: what the gang holds and wants.
        seconds: how long a part may be held.
        refused: why we do not create what is missing.
        now: unix seconds.
    """
    lacking = next((name for name in holding.wanting if name in holding.asked), None)
    if lacking and not refused and holding.is_late(seconds, now):
        message = (
            f"{len(holding.running)} of {len(holding.gang)} slices got their node pools within "
            f"{round(seconds)} s, so all of them are deleted; {lacking} has none that runs"
        )
        return Decision(Verdict.DELETE, Reason.GANG_INCOMPLETE, message)
    if name := holding.unfinished:
        message = (
            f"node pool {name} is PROVISIONING since an earlier round; nothing is created for the other slices "
            "meanwhile"
        )
        return Decision(Verdict.WAIT, Reason.POOL_IN_PROGRESS, message)
    return refused
