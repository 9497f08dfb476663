"""Decides how long the pool of a workload that is over stays for the next one. Pure and total.

The pool's label says how long. Our mark on its nodes says since when it is idle: a mark is set when
the pool is found without pods, and removed when pods use it. When the time is over, the nodes are
closed to new pods first, then the pods are read once more, and only then the pool is deleted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shared.core.decide.limits import CountedPools, decide_limit
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.pools import PoolStatus
from shared.core.settings import Mode
from shared.core.times import format_minute, format_time, measure_seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

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


def find_idle_since(marks: Mapping[str, SurplusMark | None], now: float) -> float | None:
    """Return since when a pool is idle, in unix seconds; None if no node says it.

    The oldest mark counts, because the node of a younger one may have replaced another node.
    """
    since = (mark.since for mark in marks.values() if mark is not None)
    return min((each for each in since if measure_seconds(each, now) is not None), default=None)


def decide_lent(facts: PoolFacts, settings: Settings) -> Decision | None:
    """Return the decision about a pool that pods of others use; None if they may not."""
    if not (facts.pods and _find_stay(facts, settings)):
        return None
    name, pods = facts.pool.name, facts.pods.others
    message = f"the workload of node pool {name} is over, and {pods} accelerator pods of other workloads use it"
    return Decision(Verdict.KEEP, Reason.POOL_LENT, message)


def decide_warm(facts: PoolFacts, *, now: float, settings: Settings) -> Decision | None:
    """Return the decision about an empty pool whose owner has ended; None if it does not stay.

    Before nodes and pods were read, KEEP means that the second look decides. A pool without a node
    does not stay, because nothing of it is warm.
    """
    bound, name = _find_stay(facts, settings), facts.pool.name
    if not bound:
        return None
    if facts.pods is None:
        return _keep(f"the workload of node pool {name} is over; the pool may stay idle for {bound} s")
    since = find_idle_since(facts.marks, now)
    if facts.pods.own or not facts.marks:
        return None
    if since is None:
        return _keep(f"node pool {name} is idle and stays for {bound} s for the next workload of its shape")
    return _decide_idle(facts, since, bound, now, settings)


def _decide_idle(facts: PoolFacts, since: float, bound: int, now: float, settings: Settings) -> Decision | None:
    said = f"node pool {facts.pool.name} is idle since {format_time(since)}"
    if not _is_due(facts, since, bound, now, settings):
        until = format_minute(since + bound)
        return _keep(f"{said} and stays until {until} ({bound} s) for the next workload of its shape")
    if not all(mark and mark.closed for mark in facts.marks.values()):
        return _keep(f"{said}; its nodes are closed to new pods before it is deleted")
    if not facts.displaced_by:
        return None
    message = f"{said} and is deleted, because a limit is reached: it makes room for {facts.displaced_by}"
    return Decision(Verdict.DELETE, Reason.POOL_DISPLACED, message)


def plan_marks(facts: PoolFacts, *, now: float, settings: Settings) -> dict[str, tuple[float | None, bool]]:
    """Return what changes on the nodes of a pool whose owner has ended, by the name of the node.

    It is since when the pool is idle, None for no mark, and whether the node is closed to new pods.
    """
    bound, owner = _find_stay(facts, settings), facts.pool.owner
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
    return _keep(f"marking since when node pool {pool_name} is idle")


def choose_displaced(
    refused: Sequence[tuple[Demand, str]],
    idle: Mapping[str, float],
    counted: CountedPools,
    *,
    gone: Collection[str],
    now: float,
    settings: Settings,
) -> tuple[Demand, list[str]] | None:
    """Return a demand, and the idle pools of which one makes room for it, the oldest first.

    A pool that is idle for less than the grace may be in the gap of a restart. A demand that all of
    them together would not help displaces none.

    Args:
        refused: the demands that a limit refuses, each with the name of its pool.
        idle: since when each idle pool is idle, in unix seconds, by its name.
        counted: every pool of the cluster, and its reservations.
        gone: names of pools whose deletion this sweep has submitted.
        now: unix seconds.
        settings: the operator's settings.
    """
    index, of_cluster = counted.pools, replace(settings, limit_chips_per_namespace=0)
    for demand, pool_name in refused:
        failed = (pool.name for pool in index.list_claimed(demand.claim.hash) if pool.status == PoolStatus.ERROR)
        apart = {*failed, *gone}
        usage = counted.measure(demand, pool_name, *apart)
        homes = None if decide_limit(demand, of_cluster, usage) else demand.claim.namespace
        old = [
            name
            for name, since in sorted(idle.items(), key=lambda each: (each[1], each[0]))
            if now - since >= settings.grace_seconds and (pool := index.find(name)) and name not in gone
            if pool.owner and homes in (None, pool.owner.namespace)
        ]
        left = counted.measure(demand, pool_name, *apart, *old)
        if decide_limit(demand, settings, usage) and not decide_limit(demand, settings, left):
            return demand, old
    return None


def decide_room(pool_name: str) -> Decision:
    """Return what the pod is told for which an idle pool is deleted."""
    message = f"a limit is reached; node pool {pool_name} is idle, so it makes room for this slice and is deleted"
    return Decision(Verdict.WAIT, Reason.LIMIT_REACHED, message)


def _find_stay(facts: PoolFacts, settings: Settings) -> int:
    """Return for how many seconds a pool stays without use; 0 if its workload may come back."""
    return find_idle_bound(facts.pool, settings) if facts.workload_over else 0


def _is_due(facts: PoolFacts, since: float, bound: int, now: float, settings: Settings) -> bool:
    return now - since >= (min(bound, settings.grace_seconds) if facts.displaced_by else bound)


def _keep(message: str) -> Decision:
    return Decision(Verdict.KEEP, Reason.POOL_WARM, message)
