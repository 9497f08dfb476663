"""Shrinks elastic pools node by node, and gives one that cannot grow a second pool beside it.

The taint on a node is the only record that the node is not needed.

The second pool is of the next candidate of the list. The size of the first pool is reduced by the
nodes that GKE has not created. So both pools together have no more nodes than the pods need. Only
the sweep does this. The other functions see the second pool and do not change the first one. If the
sweep ends between the two steps, the first pool grows again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shared.core.decide.attempts import find_newest
from shared.core.decide.demands import decide_planned_demand
from shared.core.decide.elastic_sizes import (
    NodeState,
    ShortPool,
    Shrink,
    count_missing,
    decide_addition,
    decide_giving_up,
    decide_marking,
    decide_shrink,
    is_short,
    list_sharing,
    may_add_pools,
    plan_shrink,
)
from shared.core.decide.freshness import LOOKS_MAX, is_fresh
from shared.core.decide.provision import decide_provision
from shared.core.decisions import Reason, Verdict
from shared.core.demand.demand import Demand
from shared.core.errors import OldLook
from shared.core.identity.pools import PoolStatus
from shared.core.kinds.elastic import list_elastic
from shared.core.settings import Mode
from shared.perform.changes import expect_owner, mark_nodes, remove_nodes
from shared.perform.gather import read_namespace_obstacle
from shared.perform.make_attempt import create_allowed
from shared.perform.pool_sizes import measure_pools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decide.attempts import AttemptDecision
    from shared.core.decisions import Decision
    from shared.core.identity.pool_index import PoolIndex
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import SurplusMark
    from shared.core.workloads import PodView, WorkloadView
    from shared.perform.look import Look, Turn
    from shared.perform.sweep_report import SweepReport
_MAY_BE_SHORT = (Reason.POOL_SERVES, Reason.POOL_DEGRADED)


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
    expect_owner(look, pool)
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
        expect_owner(look, pool)
        if not is_fresh(looked_at, now=look.now(), objects=len(seen.marks)):
            continue
        allowed = budget.take_removals(len(seen.plan.remove), look.settings.sweep_deletions_max)
        plan = replace(seen.plan, remove=seen.plan.remove[:allowed])
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


def share_nodes(
    look: Look, demand: Demand, attempts: Sequence[int], pools: PoolIndex
) -> tuple[Demand, Sequence[int]]:
    """Return the nodes that the newest pool of a claim should have, and its attempt.

    The earlier ones keep what they have. A failed attempt is followed only if nodes are missing.

    Args:
        look: at the cluster.
        demand: all nodes that the pods need.
        attempts: to look at if the claim does not have several pools.
        pools: every pool of the cluster.

    Raises:
        Retryable: GKE could not be asked.
    """
    sharing = list_sharing(demand, pools)
    if not may_add_pools(demand) or not sharing:
        return demand, attempts
    last, sizes = sharing[-1], measure_pools(sharing[:-1], look.ports)
    if last.status == PoolStatus.ERROR and not count_missing(demand, sizes):
        last = next((each for each in reversed(sharing) if sizes.get(each.name)), last)
    return demand.with_nodes(count_missing(demand, sizes, apart=last.name)), [_get_attempt(last)]


def add_pool(turn: Turn, pod: PodView, found: AttemptDecision, *, wanted: int) -> AttemptDecision | None:
    """Create a pool on the next candidate if the newest one could not grow; None if it need not be.

    The pools, their sizes and the nodes are read now. The sizes are read again after the nodes that
    are missing were given up, so a node that came meanwhile is not asked for twice. What an earlier
    pool gives up, the newest one gets at a later look.

    Args:
        turn: of the pods, with the nodes that the newest pool should have.
        pod: it waits.
        found: what was decided about that pool.
        wanted: all nodes that the pods need.

    Raises:
        Retryable: something could not be read, has changed, or took too long.
    """
    look, demand = turn.look, turn.demand
    if look.cap is None or not may_add_pools(demand) or found.decision.reason not in _MAY_BE_SHORT:
        return None
    turn = replace(turn, looked_at=look.now(), pools=look.list_pools())
    sharing = list_sharing(demand, turn.pools)
    short = _find_short(turn, found, pod, sharing)
    if short is None:
        return None
    following = _decide_following(turn, short, found, pod)
    act = following.decision
    done = _give_up_missing(turn, short, act)
    if done is not act or act.verdict != Verdict.CREATE:
        return replace(following, decision=done)
    left = count_missing(demand.with_nodes(wanted), measure_pools(sharing, look.ports))
    if not left:
        return None  # they came meanwhile, or their machines are there and GKE repairs them
    if look.limits:
        look.limits.forget()
    return create_allowed(replace(turn, demand=demand.with_nodes(left)), following)


def _give_up_missing(turn: Turn, short: ShortPool, act: Decision) -> Decision:
    """Give up the nodes that GKE has not made, if that follows; return what came of it."""
    look = turn.look.unshared()
    if act.verdict not in (Verdict.CREATE, Verdict.RESIZE):
        return act
    if stopped := read_namespace_obstacle(look, turn.demand):
        return stopped
    return remove_nodes(look, short.pool, short.missing, act, looked_at=turn.looked_at) if short.missing else act


def _find_short(
    turn: Turn, found: AttemptDecision, pod: PodView, sharing: Sequence[PoolSnapshot]
) -> ShortPool | None:
    """Return the first pool of the claim that is short of nodes.

    An earlier one counts only if it can give nodes up.
    """
    look, demand, newest = turn.look.unshared(), turn.demand, find_newest(turn.own)
    if not sharing or newest != sharing[-1] or _get_attempt(newest) != found.attempt:
        return None
    for pool in sharing:
        if pool.status == PoolStatus.PROVISIONING:
            continue
        size, nodes = look.ports.pools.measure(pool), look.live.list_pool_nodes(pool.name)
        wants = demand if pool is sharing[-1] else demand.with_nodes(size)
        if not is_short(wants, pod, pool.resized(size), nodes, now=turn.looked_at, settings=look.settings):
            continue
        missing = look.ports.pools.list_missing(pool)
        if missing or pool is sharing[-1]:
            return ShortPool(pool, len(nodes), missing)
    return None


def _decide_following(turn: Turn, short: ShortPool, found: AttemptDecision, pod: PodView) -> AttemptDecision:
    demand, now = turn.demand, turn.looked_at
    create = decide_provision(demand, None, now=now, settings=turn.look.settings)
    if create.verdict != Verdict.CREATE:
        return replace(found, decision=create)
    if _get_attempt(short.pool) != found.attempt:
        given_up = decide_giving_up(short.pool.name, short.missing, wanted=short.nodes)
        return replace(found, decision=given_up)
    used = {_get_attempt(each) for each in turn.own}
    short = replace(short, gone=turn.find_gone())
    return decide_addition(demand, create, pod, short, used=used, now=now)


def _get_attempt(pool: PoolSnapshot) -> int:
    return pool.owner.attempt if pool.owner else 0
