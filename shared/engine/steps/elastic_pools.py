"""Shrinks elastic pools node by node, and gives one that cannot grow a second pool beside it.

The taint on a node is the only record that the node is not needed. The second pool is of the next
candidate of the list. The size of the first pool is reduced by the nodes that GKE has not created.
So both pools together have no more nodes than the pods need. Only the sweep does this. The other
functions see the second pool and do not change the first one. If the sweep ends between the two
steps, the first pool grows again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from shared.core.decide.attempts import find_newest, is_refused_at_once
from shared.core.decide.demands import decide_planned_demand
from shared.core.decide.elastic_sizes import (
    SeenPool,
    Shrink,
    count_missing,
    decide_giving_up,
    decide_marking,
    decide_shrink,
    follow_gone,
    is_short,
    list_sharing,
    may_add_pools,
    plan_addition,
    plan_shrink,
)
from shared.core.decisions import Reason, Verdict
from shared.core.demand.demand import Demand
from shared.core.identity.pools import BROKEN, PoolStatus
from shared.core.kinds.elastic import list_elastic
from shared.engine.changes import look_again_if_old, mark_nodes, remove_nodes
from shared.engine.looks.gather import read_namespace_obstacle
from shared.engine.looks.pool_reads import measure_pools
from shared.engine.steps.make_attempt import create_allowed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decide.attempts import AttemptDecision
    from shared.core.decisions import Decision
    from shared.core.identity.pool_index import PoolIndex
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.workloads import PodView, WorkloadView
    from shared.engine.looks.look import Look, Turn
_MAY_BE_SHORT = (Reason.POOL_SERVES, Reason.POOL_DEGRADED)


def shrink_pool(
    look: Look, pool: PoolSnapshot, workload: WorkloadView, owned: Sequence[PoolSnapshot]
) -> Decision | None:
    """Mark, close or remove empty nodes of an elastic pool that are no longer needed.

    If something is to be done, the owner is read again by its UID, then the nodes and the pods on
    them, and the second plan is done. If several pools share the nodes of a claim, those of later
    pools go first.

    Args:
        look: of a sweep, with unshared reads. Its cap counts the nodes that are removed.
        pool: a running elastic pool of ours.
        workload: its live owner.
        owned: every pool of the workload.

    Returns:
        The decision if nodes were removed or the cluster's label stops that, else None.

    Raises:
        Retryable: something could not be read, each look took too long, or a person changed the
            owner.
    """
    if _plan_shrink(look, _look(look, pool, workload, owned)) == Shrink():
        return None
    return look_again_if_old(partial(_shrink, look, pool, workload, owned))


def _shrink(
    look: Look, pool: PoolSnapshot, workload: WorkloadView, owned: Sequence[PoolSnapshot]
) -> Decision | None:
    looked_at = look.now()
    fresh = look.live.get_workload(workload.kind, workload.namespace, workload.name)
    seen = _look(look, pool, fresh, owned) if fresh and fresh.uid == workload.uid else None
    plan = _plan_shrink(look, seen)
    if seen is None or plan == Shrink():
        return None
    remove = partial(remove_nodes, look, pool, looked_at=looked_at, objects=len(seen.marks))
    if plan.give_up:
        return remove(plan.give_up, decide_giving_up(pool.name, plan.give_up, wanted=seen.wanted))
    if plan.marks:
        marking = decide_marking(pool.name)
        marked = mark_nodes(look, pool, plan.marks, marking, looked_at=looked_at)
        if marked is not marking:
            return marked
    names = plan.remove[: look.cap.take_nodes(len(plan.remove))] if look.cap else ()
    return remove(names, decide_shrink(seen, names)) if names else None


def _plan_shrink(look: Look, seen: SeenPool | None) -> Shrink:
    return plan_shrink(seen, now=look.now(), grace_seconds=look.settings.grace_seconds) if seen else Shrink()


def _look(
    look: Look, pool: PoolSnapshot, workload: WorkloadView, owned: Sequence[PoolSnapshot]
) -> SeenPool | None:
    """Return a pool with what its nodes are for; None if the spec needs no pool of this shape.

    Of an earlier pool of the claim all nodes count, and of a later one those in use, so that it is
    the later ones that become empty. Pools that shrink at the same time never have too few nodes
    together.
    """
    demand = _find_demand(look, pool, workload)
    if demand is None:
        return None
    sharing = list_sharing(demand, owned) if may_add_pools(demand) else []
    index = next((index for index, each in enumerate(sharing) if each.name == pool.name), 0)
    others = [len(_find_used(look, each)) for each in sharing[index + 1 :]]
    wanted = count_missing(demand, [*measure_pools(sharing[:index], look.ports).values(), *others])
    marks = look.live.list_surplus_marks(pool.name)
    size = look.ports.pools.measure(pool)
    waits = (may_add_pools(demand) or pool.status in BROKEN) and size > max(wanted, len(marks))
    missing = look.ports.pools.list_missing(pool) if waits else ()
    used = _find_used(look, pool) if size > wanted else frozenset(marks)
    return SeenPool(pool=pool, size=size, wanted=wanted, marks=marks, used=used, missing=missing)


def _find_demand(look: Look, pool: PoolSnapshot, workload: WorkloadView) -> Demand | None:
    """Return what the live spec needs of a pool; None for a pool of another shape."""
    owner = pool.owner
    found = [each for each in list_elastic(workload) if owner and each.name == owner.slice_name]
    if owner is None or not found:
        return None
    demand = decide_planned_demand(look.cluster, workload, found[0], look.settings)
    return demand if isinstance(demand, Demand) and owner.was_made_for(demand.fingerprint) else None


def _find_used(look: Look, pool: PoolSnapshot) -> frozenset[str]:
    return frozenset(pod.node for pod in look.live.list_pool_pods(pool.name) if pod.chips)


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
    """
    sharing = list_sharing(demand, pools)
    if not may_add_pools(demand) or not sharing:
        return demand, attempts
    last, sizes = sharing[-1], measure_pools(sharing[:-1], look.ports)
    if last.status == PoolStatus.ERROR and not count_missing(demand, sizes.values()):
        last = next((each for each in reversed(sharing) if sizes.get(each.name)), last)
    sizes.pop(last.name, None)
    return demand.with_nodes(count_missing(demand, sizes.values())), [last.owner.attempt if last.owner else 0]


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
    look, demand, told = turn.look, turn.demand, found.decision
    refused = told.message if is_refused_at_once(told) else ""
    if look.cap is None or not may_add_pools(demand) or not (refused or told.reason in _MAY_BE_SHORT):
        return None
    turn = replace(turn, looked_at=look.now(), pools=look.list_pools())
    sharing, newest = list_sharing(demand, turn.pools), find_newest(turn.own)
    made = [each for each in sharing if each.status != PoolStatus.PROVISIONING]
    if not made or newest != made[-1] or not newest.owner or newest.owner.attempt != found.attempt:
        return None
    seen = [_see_nodes(turn, pod, each, newest, refused) for each in made]
    plan = plan_addition(demand, pod, seen, used=turn.used, now=turn.looked_at, settings=look.settings)
    if plan is None:
        return None
    short, following = plan
    following = follow_gone(demand, pod, following, turn.find_gone(), used=turn.used, now=turn.looked_at)
    act = following.decision
    done = _give_up_missing(turn, short, act)
    if done is not act or act.verdict != Verdict.CREATE:
        return replace(following, decision=done)
    left = count_missing(demand.with_nodes(wanted), measure_pools(sharing, look.ports).values())
    if not left:
        return None  # they came meanwhile, or their machines are there and GKE repairs them
    if look.limits:
        look.limits.forget()
    return create_allowed(replace(turn, demand=demand.with_nodes(left)), following)


def _see_nodes(turn: Turn, pod: PodView, pool: PoolSnapshot, newest: PoolSnapshot, refused: str) -> SeenPool:
    """Return a pool with its nodes; an earlier one should have those that GKE keeps in it."""
    look = turn.look.unshared()
    size, nodes = look.ports.pools.measure(pool), look.live.list_pool_nodes(pool.name)
    wanted = turn.demand.shape.node_count if pool == newest else size
    seen = SeenPool(pool=pool, size=size, wanted=wanted, nodes=nodes, refused=refused if pool == newest else "")
    short = is_short(seen, pod, now=turn.looked_at, settings=look.settings)
    return replace(seen, missing=look.ports.pools.list_missing(pool)) if short else seen


def _give_up_missing(turn: Turn, short: SeenPool, act: Decision) -> Decision:
    """Give up the nodes that GKE has not made, if that follows; return what came of it."""
    look = turn.look.unshared()
    if act.verdict not in (Verdict.CREATE, Verdict.RESIZE) or not short.missing:
        return act
    stopped = read_namespace_obstacle(look, turn.demand)
    return stopped or remove_nodes(look, short.pool, short.missing, act, looked_at=turn.looked_at)
