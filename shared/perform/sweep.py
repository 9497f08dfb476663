"""The sure way to be woken: look at every pool of ours and every waiting leader, and bring both to rest.

Needs neither exporter nor messages. One bad item never stops the others; what failed is reported together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from shared.core.collect import OwnerState, PoolFacts, decide_collect, decide_sweep
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.errors import ProvisionerError
from shared.perform.collect import classify_owner, read_owner, release_pool
from shared.perform.explain import explain, find_parent
from shared.perform.followers import judge_followers
from shared.perform.occupancy import has_spare_pool, judge_use
from shared.perform.outcome import Outcome, Ports, describe_owner
from shared.perform.provision import provision_pod
from shared.perform.sizes import is_resizable, shrink_pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.core.pools import PoolSnapshot
    from shared.core.workloads import Parent, PodView, WorkloadView

FRESH_SECONDS = 5.0
"""A leader that waited for less than this when the pools were listed is left to its message: two answers at once
only cost calls."""
LEADERS_MAX = 10_000
"""Waiting leaders that one sweep looks at; the next sweep takes up the rest."""


@dataclass(slots=True)
class SweepReport:
    """What one sweep did in all clusters."""

    outcomes: list[Outcome] = field(default_factory=list)
    errors: list[tuple[str, ProvisionerError]] = field(default_factory=list)
    """What failed, with what it was about."""
    over_cap: bool = False
    """The alarm: more deletions were due than one sweep may make, and none was made."""
    nodes_removed: int = 0
    """Of elastic pools, one by one."""


def sweep(ports: Ports) -> SweepReport:
    """Look at every cluster of this deployment once. Never raises for one cluster, pool or pod."""
    report = SweepReport()
    for cluster in ports.clusters:
        listed_at = ports.clock.now()
        try:
            pools = ports.pools.list(cluster)
        except ProvisionerError as error:
            report.errors.append((cluster, error))
            continue
        _sweep_pools(cluster, pools, ports, report)
        _sweep_leaders(cluster, pools, ports, report, listed_at=listed_at)
    return report


def _sweep_pools(cluster: str, pools: Sequence[PoolSnapshot], ports: Ports, report: SweepReport) -> None:
    ours = [pool for pool in pools if pool.owner is not None]
    owners = _read_owners(cluster, ours, ports, report)
    now = ports.clock.now()
    judged = []
    for pool in ours:
        owner = owners[pool.name]
        facts = PoolFacts(pool=pool, owner=owner.state, owner_since=owner.since, parent=owner.parent)
        judged.append(decide_collect(facts, now=now, settings=ports.settings))
    decided = decide_sweep(judged, settings=ports.settings)
    report.over_cap = report.over_cap or any(each.reason == Reason.SWEEP_OVER_CAP for each in decided)
    for pool, decision in zip(ours, decided, strict=True):
        final = decision
        if decision.verdict == Verdict.DELETE:
            try:
                final = release_pool(cluster, pool, ports, pools=ours)
            except ProvisionerError as error:
                report.errors.append((f"node pool {pool.name}", error))
                continue
            explain(ports.clusters[cluster], final, objects=(owners[pool.name].workload,))
        elif decision.reason == Reason.OWNER_LIVE and is_resizable(pool):
            final = _shrink(cluster, pool, owners[pool.name].workload, ports, report) or decision
        report.outcomes.append(_describe(cluster, pool, final))
    _tell_what_is_kept(cluster, zip(decided, (owners[pool.name] for pool in ours), strict=True), ports)


def _shrink(
    cluster: str, pool: PoolSnapshot, workload: WorkloadView | None, ports: Ports, report: SweepReport
) -> Decision | None:
    """Take empty nodes away that are no longer wanted, as many in one sweep as pools may be deleted."""
    if workload is None:
        return None
    left = ports.settings.sweep_deletions_max - report.nodes_removed
    try:
        found, removed = shrink_pool(cluster, pool, workload, ports, removals_max=left)
    except ProvisionerError as error:
        report.errors.append((f"node pool {pool.name}", error))
        return None
    report.nodes_removed += removed
    if found is not None:
        explain(ports.clusters[cluster], found, objects=(workload,))
    return found


def _tell_what_is_kept(cluster: str, decided: Iterable[tuple[Decision, _Owner]], ports: Ports) -> None:
    """Write once per workload, and in every sweep for as long as it lasts: it costs chips, and Events expire."""
    told: set[str] = set()
    for decision, owner in decided:
        workload = owner.workload
        if decision.reason == Reason.PARENT_OVER and workload is not None and workload.uid not in told:
            told.add(workload.uid)
            explain(ports.clusters[cluster], decision, objects=(workload, owner.parent))


@dataclass(frozen=True, slots=True)
class _Owner:
    state: OwnerState
    since: float | None = None
    workload: WorkloadView | None = None
    """None once it is gone."""
    parent: Parent | None = None


def _read_owners(
    cluster: str, pools: Sequence[PoolSnapshot], ports: Ports, report: SweepReport
) -> dict[str, _Owner]:
    """Return each pool's owner, every workload read once; one that cannot be read is UNKNOWN, never gone."""
    seen: dict[tuple[str, str, str], tuple[WorkloadView | None, Sequence[PodView] | None] | ProvisionerError] = {}
    found: dict[str, _Owner] = {}
    parents: dict[str, Parent | None] = {}
    for pool in pools:
        owner = pool.owner
        if owner is None:
            continue
        if owner.kind not in ports.settings.kinds:
            found[pool.name] = _Owner(OwnerState.UNKNOWN)
            continue
        key = (owner.kind, owner.namespace, owner.name)
        if key not in seen:
            try:
                seen[key] = read_owner(cluster, owner, ports)
            except ProvisionerError as error:
                seen[key] = error
                report.errors.append((f"{owner.kind} {owner.namespace}/{owner.name}", error))
        read = seen[key]
        if isinstance(read, ProvisionerError):
            found[pool.name] = _Owner(OwnerState.UNKNOWN)
        else:
            workload, pods = read
            state, since = classify_owner(owner, workload, pods)
            mine = [each for each in pools if each.owner and each.owner.owner_uid == owner.owner_uid]
            if state in (OwnerState.GONE, OwnerState.SUSPENDED) or has_spare_pool(mine, workload):
                state = judge_use(cluster, pool, state, workload, pods, ports, pools=mine)
            live = None if state == OwnerState.GONE else workload
            if live and state == OwnerState.LIVE and live.uid not in parents:
                parents[live.uid] = find_parent(ports.clusters[cluster], live)
            found[pool.name] = _Owner(state, since, live, parents.get(live.uid) if live else None)
    return found


def _sweep_leaders(
    cluster: str, pools: Sequence[PoolSnapshot], ports: Ports, report: SweepReport, *, listed_at: float
) -> None:
    try:
        leaders = list(islice(ports.clusters[cluster].list_waiting_leaders(), LEADERS_MAX))
    except ProvisionerError as error:
        report.errors.append((f"waiting leaders of {cluster}", error))
        return
    answered: set[str] = set()
    for pod in leaders:
        # By the moment of the list: a pool that was made while this sweep went on is not in it.
        if pod.unschedulable_since is not None and listed_at - pod.unschedulable_since < FRESH_SECONDS:
            continue
        try:
            outcome = provision_pod(cluster, pod, ports, pools=pools, answered=answered)
            report.outcomes.append(outcome)
            if outcome.decision.verdict == Verdict.CREATE and ports.settings.limited:
                pools = ports.pools.list(cluster)  # the next leader's limits count this one's pool
        except ProvisionerError as error:
            report.errors.append((f"Pod {pod.namespace}/{pod.name}", error))
    followers = judge_followers(cluster, ports, pools=pools, answered=answered)
    report.outcomes.extend(outcome for _, outcome in followers)


def _describe(cluster: str, pool: PoolSnapshot, decision: Decision) -> Outcome:
    return Outcome(
        decision=decision,
        cluster=cluster,
        pool=pool.name,
        subject=f"node pool {pool.name}",
        facts=describe_owner(cluster, pool.owner),
    )
