"""Shrinks elastic pools node by node.

The taint on a node is the only record that the node is not needed. Only the sweep does this.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from shared.core.decide.demands import decide_planned_demand
from shared.core.decide.elastic_sizes import (
    SeenPool,
    Shrink,
    count_missing,
    decide_giving_up,
    decide_marking,
    decide_shrink,
    list_sharing,
    plan_shrink,
)
from shared.core.demand.demand import Demand
from shared.core.identity.pools import BROKEN
from shared.core.kinds.elastic import list_elastic
from shared.engine.changes import look_again_if_old, mark_nodes, remove_nodes
from shared.engine.looks.pool_reads import measure_pools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decisions import Decision
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.workloads import WorkloadView
    from shared.engine.looks.look import Look


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
    sharing = list_sharing(demand, owned) if demand.choices > 1 else []
    index = next((index for index, each in enumerate(sharing) if each.name == pool.name), 0)
    others = [len(_find_used(look, each)) for each in sharing[index + 1 :]]
    wanted = count_missing(demand, [*measure_pools(sharing[:index], look.ports).values(), *others])
    marks = look.live.list_surplus_marks(pool.name)
    size = look.ports.pools.measure(pool)
    waits = (demand.choices > 1 or pool.status in BROKEN) and size > max(wanted, len(marks))
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
