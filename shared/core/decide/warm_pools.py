"""Decides how long the pool of a workload that is over stays for the next one. Pure and total.

The pool's label says how long. Our mark on its nodes says since when it is idle: a mark is set when
the pool is found without pods, and removed when pods use it. When the time is over, the nodes are
closed to new pods first, then the pods are read once more, and only then the pool is deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.pools import PoolStatus
from shared.core.times import format_minute, format_time, measure_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.core.decide.pool_facts import PoolFacts
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
        if now - since < bound:
            message += (
                f" and stays until {format_minute(since + bound)} ({bound} s) for the next workload of its shape"
            )
        elif not all(mark and mark.closed for mark in facts.marks.values()):
            message += "; its nodes are closed to new pods before it is deleted"
        else:
            return None
    return Decision(Verdict.KEEP, Reason.POOL_WARM, message)


def plan_marks(facts: PoolFacts, *, now: float, settings: Settings) -> dict[str, tuple[float | None, bool]]:
    """Return what changes on the nodes of a pool whose owner has ended, by the name of the node.

    It is since when the pool is idle, None for no mark, and whether the node is closed to new pods.
    """
    bound, owner = find_stay(facts, settings), facts.pool.owner
    if not bound or owner is None or facts.pods is None:
        return {}
    if facts.pods.own or facts.pods.others:
        return {name: (None, False) for name, mark in facts.marks.items() if mark is not None}
    known = find_idle_since(facts.marks, now)
    since = now if known is None else known
    closed = known is not None and now - known >= bound
    return {
        name: (since, closed)
        for name, mark in facts.marks.items()
        if mark is None or mark.closed != closed or measure_seconds(mark.since, now) is None
    }


def decide_idle_marking(pool_name: str) -> Decision:
    """Return the decision to change our marks on nodes of a pool that may stay idle."""
    return Decision(Verdict.KEEP, Reason.POOL_WARM, f"marking since when node pool {pool_name} is idle")
