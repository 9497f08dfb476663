"""Gives an elastic pool the size that its pods need: more nodes by GKE's resize, fewer one by one.

The taint on a node is the only record that the node is not needed.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from shared.core.decide.added_pools import (
    count_missing,
    decide_giving_up,
    list_sharing,
    may_add_pools,
)
from shared.core.decide.attempts import find_newest
from shared.core.decide.demands import decide_planned_demand
from shared.core.decide.error_answers import decide_gke_answer
from shared.core.decide.freshness import LOOKS_MAX, is_fresh
from shared.core.decide.resize import (
    NodeState,
    Shrink,
    decide_growth,
    decide_marking,
    decide_shrink,
    plan_shrink,
)
from shared.core.decisions import Verdict
from shared.core.demand.demand import Demand
from shared.core.errors import Busy, InvalidRequest, NoCapacity, OldLook, StaleView
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import PoolStatus
from shared.core.kinds.elastic import list_elastic
from shared.core.settings import Mode
from shared.perform.act_within_limits import act_within_limits
from shared.perform.emergency_stop import find_stop
from shared.perform.gather import read_namespace_obstacle
from shared.perform.pool_sizes import measure_pools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decisions import Decision
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Ports, SurplusMark
    from shared.core.workloads import WorkloadView
    from shared.perform.act_within_limits import Limits
    from shared.perform.sweep_report import SweepReport


def grow_pool(
    demand: Demand, pool: PoolSnapshot, ports: Ports, limits: Limits | None, *, read_at: float | None
) -> Decision:
    """Give a running elastic pool nodes for all of its pods.

    GKE refuses a resize while another one is in progress, and accepts a smaller size. So the size
    is measured again when the measurement is too old, and the pool never becomes smaller. If the
    claim may have several pools, they are listed after that: a pool gives nodes up only when a
    later one follows, and then it does not grow.

    Args:
        demand: what the pods need.
        pool: their running pool.
        ports: the outside world.
        limits: what counts against the limits; None if none is set.
        read_at: when the pool itself was read, in unix seconds; None if it comes from a list.

    Raises:
        Retryable: GKE could not be asked, each look took too long, or a person changed the owner.
    """
    for _ in range(LOOKS_MAX):
        looked_at = ports.clock.now()
        size = ports.pools.measure(pool)
        usage = limits.measure(demand, pool.name) if limits else None
        decision = decide_growth(demand, pool.name, size=size, settings=ports.settings, usage=usage)
        if decision.verdict != Verdict.RESIZE:
            return decision
        if obstacle := read_namespace_obstacle(demand, ports):
            return obstacle
        if may_add_pools(demand):
            _expect_newest(demand, pool, ports)
        elif read_at is None or not is_fresh(read_at, now=ports.clock.now()):
            _expect_owner(demand.claim.cluster, pool, ports)
        resize = partial(_resize, demand, pool.name, ports, looked_at=looked_at)
        try:
            return act_within_limits(demand, pool.name, decision, resize, ports, limits)
        except OldLook:
            continue
        except (Busy, NoCapacity, InvalidRequest) as error:
            return decide_gke_answer(pool.name, "resized", error)
    raise OldLook(f"node pool {pool.name} was not resized, because each look at it took too long")


def _expect_newest(demand: Demand, pool: PoolSnapshot, ports: Ports) -> None:
    """List the pools again: another function may have added one since.

    Raises:
        StaleView: the pool is gone, not ours any more, or not the newest of its claim.
    """
    pools = PoolIndex(ports.pools.list(demand.claim.cluster))
    sharing, newest = list_sharing(demand, pools), find_newest(pools.list_claimed(demand.claim.hash))
    later = newest is not None and newest.status == PoolStatus.ERROR and newest.name != pool.name
    if later or not sharing or sharing[-1].name != pool.name:
        raise StaleView(f"node pool {pool.name} is not the newest one of {demand.claim}, so it does not grow")


def _expect_owner(cluster: str, pool: PoolSnapshot, ports: Ports) -> None:
    """Read a pool again: a list may be minutes old, and a person may have removed our labels since.

    Raises:
        StaleView: the pool is gone, or its labels name another owner, or none.
    """
    found = ports.pools.get(cluster, pool.name)
    if found is None or found.owner != pool.owner:
        raise StaleView(f"the labels of node pool {pool.name} have changed since they were read")


def _resize(demand: Demand, pool_name: str, ports: Ports, *, looked_at: float) -> None:
    if not is_fresh(looked_at, now=ports.clock.now()):
        raise OldLook(f"node pool {pool_name} was measured too long ago")
    ports.pools.resize(demand.claim.cluster, pool_name, demand.shape.node_count)


def shrink_pool(
    cluster: str,
    pool: PoolSnapshot,
    workload: WorkloadView,
    ports: Ports,
    owned: Sequence[PoolSnapshot],
    budget: SweepReport,
) -> Decision | None:
    """Mark, close or remove empty nodes of an elastic pool that are no longer needed.

    If several pools share the nodes of a claim, those of later pools go first.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        pool: a running elastic pool of ours.
        workload: its live owner.
        ports: the outside world.
        owned: every pool of the workload.
        budget: counts the nodes that this sweep removes, at most `sweep_deletions_max`.

    Returns:
        The decision if nodes were removed or the cluster's label stops that, else None.

    Raises:
        Retryable: something could not be read, each look took too long, or a person changed the
            owner.
    """
    if ports.settings.find_mode(workload.namespace) == Mode.REPORT_ONLY:
        return None
    seen = _look(cluster, pool, workload, ports, owned)
    if seen is None:
        return None
    if seen.missing:
        return _give_up(cluster, pool, seen, ports)
    live, plan, marks = ports.clusters[cluster], seen.plan, seen.marks
    if plan == Shrink():
        return None
    _expect_owner(cluster, pool, ports)
    removal = decide_shrink(pool.name, plan, wanted=seen.wanted, size=seen.size)
    if stopped := find_stop(cluster, removal or decide_marking(pool.name), ports):
        return stopped
    for name in plan.clear:
        live.mark_surplus(name, None)
    for name in plan.mark:
        live.mark_surplus(name, ports.clock.now(), closed=False)
    for name in plan.close:
        since = marks[name]
        live.mark_surplus(name, since.since if since else ports.clock.now(), closed=True)
    return _remove(cluster, pool, workload, ports, owned, budget) if plan.remove else None


def _give_up(cluster: str, pool: PoolSnapshot, seen: _Seen, ports: Ports) -> Decision:
    """Give up nodes that GKE has not made: another pool of the claim has them."""
    decision = decide_giving_up(pool.name, seen.missing, wanted=seen.wanted)
    _expect_owner(cluster, pool, ports)
    if stopped := find_stop(cluster, decision, ports):
        return stopped
    if not is_fresh(seen.looked_at, now=ports.clock.now(), objects=len(seen.marks)):
        raise OldLook(f"node pool {pool.name} gave no nodes up, because the look at it took too long")
    ports.pools.remove_nodes(pool, seen.missing)
    return decision


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What one look at the nodes of an elastic pool found."""

    wanted: int
    size: int
    marks: dict[str, SurplusMark | None]
    plan: Shrink
    missing: Sequence[str]
    """Nodes that GKE has not made, and that are not needed."""
    looked_at: float
    """Unix seconds."""


def _look(
    cluster: str, pool: PoolSnapshot, workload: WorkloadView, ports: Ports, owned: Sequence[PoolSnapshot]
) -> _Seen | None:
    """Return what to do with a pool's nodes; None if the spec needs no pool of this shape."""
    demand = _find_demand(cluster, pool, workload, ports)
    if demand is None:
        return None
    looked_at, wanted = ports.clock.now(), _count_wanted(demand, pool, ports, owned)
    marks = ports.clusters[cluster].list_surplus_marks(pool.name)
    size = ports.pools.measure(pool)
    waits = may_add_pools(demand) and size > max(wanted, len(marks))
    missing = ports.pools.list_missing(pool)[: size - wanted] if waits else ()
    used = _find_used(cluster, pool, ports) if size > wanted else frozenset(marks)
    plan = plan_shrink(
        [_state(name, mark, used) for name, mark in marks.items()],
        wanted=wanted,
        size=size,
        now=ports.clock.now(),
        grace_seconds=ports.settings.grace_seconds,
        removals_max=ports.settings.sweep_deletions_max,
    )
    return _Seen(wanted=wanted, size=size, marks=marks, plan=plan, missing=missing, looked_at=looked_at)


def _remove(
    cluster: str,
    pool: PoolSnapshot,
    workload: WorkloadView,
    ports: Ports,
    owned: Sequence[PoolSnapshot],
    budget: SweepReport,
) -> Decision | None:
    """Remove nodes after one more look at the owner by UID, the nodes and the pods on them.

    Raises:
        Retryable: something could not be read, or each look took too long; nothing was removed.
    """
    for _ in range(LOOKS_MAX):
        looked_at = ports.clock.now()
        fresh = ports.clusters[cluster].get_workload(workload.kind, workload.namespace, workload.name)
        if fresh is None or fresh.uid != workload.uid:
            return None
        seen = _look(cluster, pool, fresh, ports, owned)
        if seen is None or not seen.plan.remove:
            return None
        _expect_owner(cluster, pool, ports)
        decision = decide_shrink(pool.name, seen.plan, wanted=seen.wanted, size=seen.size)
        if decision and (stopped := find_stop(cluster, decision, ports)):
            return stopped
        if is_fresh(looked_at, now=ports.clock.now(), objects=len(seen.marks)):
            allowed = budget.take_removals(len(seen.plan.remove), ports.settings.sweep_deletions_max)
            plan = dataclasses.replace(seen.plan, remove=seen.plan.remove[:allowed])
            if plan.remove:
                ports.pools.remove_nodes(pool, plan.remove)
            return decide_shrink(pool.name, plan, wanted=seen.wanted, size=seen.size)
    raise OldLook(f"no node was removed from {pool.name}, because each look at it took too long")


def _find_demand(cluster: str, pool: PoolSnapshot, workload: WorkloadView, ports: Ports) -> Demand | None:
    """Return what the live spec needs of a pool; None for a pool of another shape."""
    owner = pool.owner
    found = [each for each in list_elastic(workload) if owner and each.name == owner.slice_name]
    if owner is None or not found:
        return None
    demand = decide_planned_demand(cluster, workload, found[0], ports.settings)
    return demand if isinstance(demand, Demand) and owner.was_made_for(demand.fingerprint) else None


def _count_wanted(demand: Demand, pool: PoolSnapshot, ports: Ports, owned: Sequence[PoolSnapshot]) -> int:
    """Return how many nodes are needed of a pool beside those of the other pools of its claim.

    Of an earlier pool all nodes count, and of a later one those in use, so that it is the later
    ones that become empty. Pools that shrink at the same time never have too few nodes together.
    """
    sharing = list_sharing(demand, owned) if may_add_pools(demand) else []
    index = next((index for index, each in enumerate(sharing) if each.name == pool.name), 0)
    sizes = measure_pools(sharing[:index], ports)
    used = {each.name: len(_find_used(demand.claim.cluster, each, ports)) for each in sharing[index + 1 :]}
    return count_missing(demand, sizes | used)


def _find_used(cluster: str, pool: PoolSnapshot, ports: Ports) -> frozenset[str]:
    bound = ports.clusters[cluster].list_pool_pods(pool.name)
    return frozenset(pod.node for pod in bound if pod.chips)


def _state(name: str, mark: SurplusMark | None, used: frozenset[str]) -> NodeState:
    return NodeState(
        name=name,
        used=name in used,
        surplus_since=mark.since if mark else None,
        closed=bool(mark and mark.closed),
    )
