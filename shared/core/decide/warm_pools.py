"""Decides how long the pool of a workload that is over stays for the next one. Pure and total.

The pool's label says how long. Our mark on its nodes says since when it is idle: a mark is set when
the pool is found without pods, and removed when pods use it. When the time is over, the nodes are
closed to new pods first, then the pods are read once more, and only then the pool is deleted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shared.core.decide.limits import decide_limit
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.pools import PoolStatus
from shared.core.settings import Mode
from shared.core.times import format_minute, format_time, measure_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from shared.core.decide.limits import Usage
    from shared.core.decide.pool_facts import PoolFacts
    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import SurplusMark
    from shared.core.settings import Settings

_SERVING = (PoolStatus.RUNNING, PoolStatus.RECONCILING)


def find_idle_bound(pool: PoolSnapshot, settings: Settings) -> int:
    """Return for how many seconds a pool may stay without use; 0 if it may not.

    A setting that was lowered since holds for the pools that exist.
    """
    serves = pool.owner is not None and pool.status in _SERVING
    return min(pool.owner.idle_seconds, settings.idle_bound) if serves and pool.owner else 0


def find_stay(facts: PoolFacts, settings: Settings) -> int:
    """Return for how many seconds a pool stays without use; 0 if its workload may come back."""
    return find_idle_bound(facts.pool, settings) if facts.workload_over else 0


def find_idle_since(marks: Mapping[str, SurplusMark | None], now: float) -> float | None:
    """Return since when a pool is idle, in unix seconds; None if no node says it.

    The oldest mark counts, because the node of a younger one may have replaced another node.
    """
    since = (mark.since for mark in marks.values() if mark is not None)
    return min((each for each in since if measure_seconds(each, now) is not None), default=None)


def decide_warm(facts: PoolFacts, *, now: float, settings: Settings) -> Decision | None:
    """Return the decision about an empty pool whose owner has ended; None if it does not stay.

    Before nodes and pods were read, KEEP means that the second look decides. A pool without a node
    does not stay, because nothing of it is warm.
    """
    bound, name = find_stay(facts, settings), facts.pool.name
    if not bound or (facts.pods is not None and (facts.pods.own or not facts.marks)):
        return None
    since = find_idle_since(facts.marks, now)
    if facts.pods is None:
        message = f"the workload of node pool {name} is over; the pool may stay idle for {bound} s"
    elif since is None:
        message = f"node pool {name} is idle and stays for {bound} s for the next workload of its shape"
    else:
        message = f"node pool {name} is idle since {format_time(since)}"
        if not _is_due(facts, since, bound, now, settings):
            message += (
                f" and stays until {format_minute(since + bound)} ({bound} s) for the next workload of its shape"
            )
        elif not all(mark and mark.closed for mark in facts.marks.values()):
            message += "; its nodes are closed to new pods before it is deleted"
        elif facts.displaced_by:
            message += f" and is deleted, because a limit is reached: it makes room for {facts.displaced_by}"
            return Decision(Verdict.DELETE, Reason.POOL_DISPLACED, message)
        else:
            return None
    return Decision(Verdict.KEEP, Reason.POOL_WARM, message)


def plan_marks(facts: PoolFacts, *, now: float, settings: Settings) -> dict[str, tuple[float | None, bool]]:
    """Return what changes on the nodes of a pool whose owner has ended, by the name of the node.

    It is since when the pool is idle, None for no mark, and whether the node is closed to new pods.
    """
    bound, owner = find_stay(facts, settings), facts.pool.owner
    if not bound or owner is None or facts.pods is None or settings.find_mode(owner.namespace) == Mode.REPORT_ONLY:
        return {}
    if facts.pods.own or facts.pods.others:
        return {name: (None, False) for name, mark in facts.marks.items() if mark is not None}
    known = find_idle_since(facts.marks, now)
    since = now if known is None else known
    closed = known is not None and _is_due(facts, known, bound, now, settings)
    return {
        name: (since, closed)
        for name, mark in facts.marks.items()
        if mark is None or mark.closed != closed or measure_seconds(mark.since, now) is None
    }


def decide_idle_marking(pool_name: str) -> Decision:
    """Return the decision to change our marks on nodes of a pool that may stay idle."""
    return Decision(Verdict.KEEP, Reason.POOL_WARM, f"marking since when node pool {pool_name} is idle")


def list_displaceable(found: Sequence[PoolFacts], *, now: float, settings: Settings) -> list[PoolSnapshot]:
    """Return the pools that may make room, the one that is idle for longest first.

    One that is idle for less than the grace may be in the gap of a restart. Nodes that are not
    marked, or in use, say nothing.
    """
    since = {each.pool.name: find_idle_since(each.marks, now) or now for each in found}
    old = [each.pool for each in found if now - since[each.pool.name] >= settings.grace_seconds]
    return sorted(old, key=lambda pool: (since[pool.name], pool.name))


def choose_displaced(
    demand: Demand, idle: Sequence[PoolSnapshot], measure: Callable[..., Usage], *, settings: Settings
) -> list[PoolSnapshot]:
    """Return the idle pools of which one makes room for a demand that a limit refuses.

    None does if there is room by now, or if all of them together would not help. If only the limit
    of the namespace is reached, they are those of this namespace.

    Args:
        demand: it is refused.
        idle: see `list_displaceable`.
        measure: returns the usage of all pools but the demand's own and those that it is given.
        settings: the operator's settings.
    """
    usage, home = measure(), demand.claim.namespace
    if not decide_limit(demand, replace(settings, limit_chips_per_namespace=0), usage):
        idle = [pool for pool in idle if pool.owner and pool.owner.namespace == home]
    left = measure(*(pool.name for pool in idle))
    helps = decide_limit(demand, settings, usage) and not decide_limit(demand, settings, left)
    return list(idle) if helps else []


def decide_room(pool_name: str) -> Decision:
    """Return what the workload is told for which an idle pool is deleted."""
    message = f"a limit is reached; node pool {pool_name} is idle and is deleted to make room for this workload"
    return Decision(Verdict.WAIT, Reason.LIMIT_REACHED, message)


def _is_due(facts: PoolFacts, since: float, bound: int, now: float, settings: Settings) -> bool:
    return now - since >= (min(bound, settings.grace_seconds) if facts.displaced_by else bound)
