"""Gives an elastic pool the size that its pods need: more nodes by GKE's resize, fewer one by one.

The taint on a node is the only record that the node is not needed.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
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
from shared.core.identity.pools import PoolStatus
from shared.core.kinds.elastic import list_elastic
from shared.core.settings import Mode
from shared.perform.changes import mark_nodes, remove_nodes, resize_pool
from shared.perform.gather import read_namespace_obstacle
from shared.perform.pool_sizes import measure_pools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decisions import Decision
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import SurplusMark
    from shared.core.workloads import WorkloadView
    from shared.perform.look import Look, Turn
    from shared.perform.sweep_report import SweepReport


def grow_pool(turn: Turn, pool: PoolSnapshot, *, read_at: float | None) -> Decision:
    """Give a running elastic pool nodes for all of its pods.

    GKE refuses a resize while another one is in progress, and accepts a smaller size. So the size
    is measured again when the measurement is too old, and the pool never becomes smaller. If the
    claim may have several pools, they are listed after that: a pool gives nodes up only when a
    later one follows, and then it does not grow.

    Args:
        turn: of the pods.
        pool: their running pool.
        read_at: when the pool itself was read, in unix seconds; None if it comes from a list.

    Raises:
        Retryable: GKE could not be asked, each look took too long, or a person changed the owner.
    """
    look, demand = turn.look, turn.demand
    turn = dataclasses.replace(turn, replaced=(), make_room=None)
    for _ in range(LOOKS_MAX):
        looked_at = look.now()
        size = look.ports.pools.measure(pool)
        usage = look.limits.measure(demand, pool.name) if look.limits else None
        decision = decide_growth(demand, pool.name, size=size, settings=look.settings, usage=usage)
        if decision.verdict != Verdict.RESIZE:
            return decision
        if obstacle := read_namespace_obstacle(look, demand):
            return obstacle
        if may_add_pools(demand):
            _expect_newest(turn, pool)
        elif read_at is None or not is_fresh(read_at, now=look.now()):
            _expect_owner(look, pool)
        try:
            return resize_pool(turn, pool.name, decision, looked_at=looked_at)
        except OldLook:
            continue
        except (Busy, NoCapacity, InvalidRequest) as error:
            return decide_gke_answer(pool.name, "resized", error)
    raise OldLook(f"node pool {pool.name} was not resized, because each look at it took too long")


def _expect_newest(turn: Turn, pool: PoolSnapshot) -> None:
    """List the pools again: another function may have added one since.

    Raises:
        StaleView: the pool is gone, not ours any more, or not the newest of its claim.
    """
    pools, claim = turn.look.list_pools(), turn.demand.claim
    sharing, newest = list_sharing(turn.demand, pools), find_newest(pools.list_claimed(claim.hash))
    later = newest is not None and newest.status == PoolStatus.ERROR and newest.name != pool.name
    if later or not sharing or sharing[-1].name != pool.name:
        raise StaleView(f"node pool {pool.name} is not the newest one of {claim}, so it does not grow")


def _expect_owner(look: Look, pool: PoolSnapshot) -> None:
    """Read a pool again: a list may be minutes old, and a person may have removed our labels since.

    Raises:
        StaleView: the pool is gone, or its labels name another owner, or none.
    """
    found = look.get_pool(pool.name)
    if found is None or found.owner != pool.owner:
        raise StaleView(f"the labels of node pool {pool.name} have changed since they were read")


def shrink_pool(
    look: Look, pool: PoolSnapshot, workload: WorkloadView, owned: Sequence[PoolSnapshot], budget: SweepReport
) -> Decision | None:
    """Mark, close or remove empty nodes of an elastic pool that are no longer needed.

    If several pools share the nodes of a claim, those of later pools go first.

    Args:
        look: with unshared reads.
        pool: a running elastic pool of ours.
        workload: its live owner.
        owned: every pool of the workload.
        budget: counts the nodes that this sweep removes, at most `sweep_deletions_max`.

    Returns:
        The decision if nodes were removed or the cluster's label stops that, else None.

    Raises:
        Retryable: something could not be read, each look took too long, or a person changed the
            owner.
    """
    if look.settings.find_mode(workload.namespace) == Mode.REPORT_ONLY:
        return None
    seen = _look(look, pool, workload, owned)
    if seen is None or (seen.plan == Shrink() and not seen.missing):
        return None
    _expect_owner(look, pool)
    if seen.missing:  # another pool of the claim has them
        decision = decide_giving_up(pool.name, seen.missing, wanted=seen.wanted)
        objects = len(seen.marks)
        return remove_nodes(look, pool, seen.missing, decision, looked_at=seen.looked_at, objects=objects)
    marks = seen.list_changes(look.now())
    marking = decide_shrink(pool.name, seen.plan, wanted=seen.wanted, size=seen.size) or decide_marking(pool.name)
    marked = mark_nodes(look, pool, marks, marking, looked_at=seen.looked_at)
    if marked is not marking:
        return marked
    return _remove(look, pool, workload, owned, budget) if seen.plan.remove else None


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

    def list_changes(self, now: float) -> dict[str, tuple[float | None, bool]]:
        """Return the marks to write: by node since when it is not needed, and if it is closed."""
        closed = {name: mark.since if (mark := self.marks[name]) else now for name in self.plan.close}
        return {
            **dict.fromkeys(self.plan.clear, (None, False)),
            **dict.fromkeys(self.plan.mark, (now, False)),
            **{name: (since, True) for name, since in closed.items()},
        }


def _look(look: Look, pool: PoolSnapshot, workload: WorkloadView, owned: Sequence[PoolSnapshot]) -> _Seen | None:
    """Return what to do with a pool's nodes; None if the spec needs no pool of this shape."""
    demand = _find_demand(look, pool, workload)
    if demand is None:
        return None
    looked_at, wanted = look.now(), _count_wanted(look, demand, pool, owned)
    marks = look.live.list_surplus_marks(pool.name)
    size = look.ports.pools.measure(pool)
    waits = may_add_pools(demand) and size > max(wanted, len(marks))
    missing = look.ports.pools.list_missing(pool)[: size - wanted] if waits else ()
    used = _find_used(look, pool) if size > wanted else frozenset(marks)
    plan = plan_shrink(
        [_state(name, mark, used) for name, mark in marks.items()],
        wanted=wanted,
        size=size,
        now=look.now(),
        grace_seconds=look.settings.grace_seconds,
        removals_max=look.settings.sweep_deletions_max,
    )
    return _Seen(wanted=wanted, size=size, marks=marks, plan=plan, missing=missing, looked_at=looked_at)


def _remove(
    look: Look, pool: PoolSnapshot, workload: WorkloadView, owned: Sequence[PoolSnapshot], budget: SweepReport
) -> Decision | None:
    """Remove nodes after one more look at the owner by UID, the nodes and the pods on them.

    Raises:
        Retryable: something could not be read, or each look took too long; nothing was removed.
    """
    for _ in range(LOOKS_MAX):
        looked_at = look.now()
        fresh = look.live.get_workload(workload.kind, workload.namespace, workload.name)
        if fresh is None or fresh.uid != workload.uid:
            return None
        seen = _look(look, pool, fresh, owned)
        if seen is None or not seen.plan.remove:
            return None
        _expect_owner(look, pool)
        if not is_fresh(looked_at, now=look.now(), objects=len(seen.marks)):
            continue
        allowed = budget.take_removals(len(seen.plan.remove), look.settings.sweep_deletions_max)
        plan = dataclasses.replace(seen.plan, remove=seen.plan.remove[:allowed])
        decision = decide_shrink(pool.name, plan, wanted=seen.wanted, size=seen.size)
        if decision is None:
            return None
        return remove_nodes(look, pool, plan.remove, decision, looked_at=looked_at, objects=len(seen.marks))
    raise OldLook(f"no node was removed from {pool.name}, because each look at it took too long")


def _find_demand(look: Look, pool: PoolSnapshot, workload: WorkloadView) -> Demand | None:
    """Return what the live spec needs of a pool; None for a pool of another shape."""
    owner = pool.owner
    found = [each for each in list_elastic(workload) if owner and each.name == owner.slice_name]
    if owner is None or not found:
        return None
    demand = decide_planned_demand(look.cluster, workload, found[0], look.settings)
    return demand if isinstance(demand, Demand) and owner.was_made_for(demand.fingerprint) else None


def _count_wanted(look: Look, demand: Demand, pool: PoolSnapshot, owned: Sequence[PoolSnapshot]) -> int:
    """Return how many nodes are needed of a pool beside those of the other pools of its claim.

    Of an earlier pool all nodes count, and of a later one those in use, so that it is the later
    ones that become empty. Pools that shrink at the same time never have too few nodes together.
    """
    sharing = list_sharing(demand, owned) if may_add_pools(demand) else []
    index = next((index for index, each in enumerate(sharing) if each.name == pool.name), 0)
    sizes = measure_pools(sharing[:index], look.ports)
    used = {each.name: len(_find_used(look, each)) for each in sharing[index + 1 :]}
    return count_missing(demand, sizes | used)


def _find_used(look: Look, pool: PoolSnapshot) -> frozenset[str]:
    return frozenset(pod.node for pod in look.live.list_pool_pods(pool.name) if pod.chips)


def _state(name: str, mark: SurplusMark | None, used: frozenset[str]) -> NodeState:
    return NodeState(
        name=name,
        used=name in used,
        surplus_since=mark.since if mark else None,
        closed=bool(mark and mark.closed),
    )
