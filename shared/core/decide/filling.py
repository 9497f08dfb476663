"""Decides about a pool that has no node yet, or has lost nodes of its slice. Pure.

GKE creates a pool that its autoscaler fills empty, in seconds, so that it runs says nothing. The
autoscaler adds nodes for the pods that wait. If there is no capacity, the instance groups of the
pool and an Event on the pod say so within a minute or two. The autoscaler also takes away nodes
that no pod uses for ten minutes, and adds them again for the next pods.

If a running pool has lost nodes, GKE adds them again when there is capacity, for spot perhaps
never. Another candidate of a list of capacity may have room, so the pool has failed after a time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shared.core.decide.failures import RULES, classify_failure
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.demand.capacity import Tier
from shared.core.identity.pools import RUNNING
from shared.core.times import measure_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import FillError, Machines
    from shared.core.settings import Settings
    from shared.core.workloads import NodeView, PodView

TOLD_SECONDS = 60.0
"""What the autoscaler tells of a pod so soon after a pool was created is about an earlier pool."""
UNTRIED_SECONDS = 3600.0  # assumes: autoscaler-turn
"""So long a pool may wait for its first turn: the autoscaler fills one in each loop of 10 s."""
CREATION_TRIES_SECONDS = 2100.0  # assumes: stockout-time
"""So long GKE tries to make the nodes of a pool that it creates with them. Quoted messages say
"after 35m4s" to "after 35m11s"."""
LOST_GRACES = 2
"""A pool is kept for so many graces without its nodes: GKE creates those of a slice in minutes."""
_ZONE = re.compile(r"\b[a-z]+-[a-z]+[0-9]+-[a-z]\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What was read about the nodes that a pool is to get, or has lost, and those that it has."""

    nodes: Sequence[NodeView] = ()
    machines: Machines | None = None
    """None if they were not read, or could not be."""
    told: Sequence[FillError] | None = None
    """What the autoscaler told the pod of the slice that waits; None as for the machines."""
    looked: bool = False
    """It was tried to read both. Else no time is over, because a machine may be there by now."""


def is_empty(pool: PoolSnapshot, nodes: Sequence[object]) -> bool:
    """Return whether a pool is one that the autoscaler fills, and has no node."""
    return pool.autoscaled and not nodes


def decide_empty(
    demand: Demand, pod: PodView, pool: PoolSnapshot, filling: Filling, *, now: float, settings: Settings
) -> Decision:
    """Return what follows while a running pool that the autoscaler fills has no node.

    DELETE means that the next way of the list of capacity is tried. Without one the pool stays,
    because the autoscaler itself tries again.

    Args:
        demand: what the slice of the pod needs, on the attempt of the pool.
        pod: a pod of the slice that waits.
        pool: of the slice.
        filling: what was read about its nodes.
        now: unix seconds.
        settings: the operator's settings.
    """
    name, count, machines = pool.name, pool.node_count, filling.machines
    patience = find_patience(demand, settings)
    made, coming = (machines.made, machines.coming) if machines else (0, 0)
    late = filling.looked and bool(patience) and _is_late(pod, pool, filling.told, patience, now)
    if made or (coming and not late):
        message = f"node pool {name} has no node yet; GKE makes {made + coming} of {count} machines"
        return Decision(Verdict.WAIT, Reason.POOL_IN_PROGRESS, message)
    error = find_error(demand, pod, pool, filling, now=now)
    if error is None and not late:
        message = f"node pool {name} runs without nodes; GKE's autoscaler adds {count} when there is capacity"
        return Decision(Verdict.WAIT, Reason.POOL_IN_PROGRESS, message)
    rule = RULES[classify_failure(error.message)] if error else None
    cause = f"{rule.words.format(zone=_find_zone(demand, pool))} (GKE: {error.message})" if rule and error else ""
    reason = rule.reason if rule else Reason.STOCKOUT
    what = f"node pool {name} gets no nodes: {cause or f'none for more than {patience} s'}"
    if demand.choices == 1:
        message = f"{what}; GKE's autoscaler continues to try, because no list of capacity has another way"
        return Decision(Verdict.WAIT, reason if error else Reason.POOL_IN_PROGRESS, message)
    return Decision(Verdict.DELETE, reason, what)


def decide_unread(pool: PoolSnapshot) -> Decision:
    """Return what to tell of a pool that the autoscaler fills, if its nodes are not known."""
    message = f"node pool {pool.name} runs; whether it has nodes is not known, because they could not be read"
    return Decision(Verdict.WAIT, Reason.POOL_IN_PROGRESS, message)


def find_error(
    demand: Demand, pod: PodView, pool: PoolSnapshot, filling: Filling, *, now: float
) -> FillError | None:
    """Return the first error that kept the pool empty since its pod waits; None without one.

    The first one stays the same while the autoscaler tries again, and so does the pause that counts
    from it. The errors of the groups come before what the pod was told, because they name the cause
    and are about this pool. The arguments are those of `decide_empty`.
    """
    created_at = (pool.owner.created_at if pool.owner else None) or 0.0
    waits = measure_seconds(pod.unschedulable_since, now) is not None
    since = max(created_at, pod.unschedulable_since or 0.0) if waits else created_at
    machines = filling.machines.errors if filling.machines else ()
    zone, known = _find_zone(demand, pool), filling.told or ()
    told = [each for each in known if not each.tries and zone in (_ZONE.findall(each.message) or [zone])]
    of_groups = _list_since(machines, since, now)
    found = of_groups or _list_since(told, max(since, created_at + TOLD_SECONDS), now)
    return min(found, key=lambda each: now if each.at is None else each.at, default=None)


def find_patience(demand: Demand, settings: Settings) -> int:
    """Return for how many seconds a pool may be without a node, without an error; 0 for ever."""
    flexible = demand.capacity.tier == Tier.FLEX_START
    return demand.flex_wait_seconds if flexible else settings.node_wait_seconds


def _find_zone(demand: Demand, pool: PoolSnapshot) -> str:
    """Return the zone of a pool: a list of capacity may have been edited since it was created."""
    return next((zone for url in pool.group_urls for zone in _ZONE.findall(url)), demand.zone)


def _list_since(errors: Iterable[FillError], since: float, now: float) -> list[FillError]:
    """Return the errors that are not older; a time that cannot be true is left out, as of now."""
    known = [each if measure_seconds(each.at, now) is not None else replace(each, at=None) for each in errors]
    return [each for each in known if each.at is None or each.at >= since]


def _is_late(
    pod: PodView, pool: PoolSnapshot, told: Sequence[FillError] | None, patience: float, now: float
) -> bool:
    """Return whether a pool got no node for too long since the autoscaler first tried it."""
    groups = [url.rpartition("/")[2] for url in pool.group_urls]
    tries = [each.at for each in told or () if any(name in each.message for name in groups)]
    ages = [found for at in tries if (found := measure_seconds(at, now)) is not None]
    since = ((pool.owner.created_at if pool.owner else None) or 0.0) + TOLD_SECONDS
    untried = told is not None and not pool.flex_start and not _list_since(told, since, now)
    waits = pool.is_older(max(patience, UNTRIED_SECONDS) if untried else patience, now)
    waited = measure_seconds(pod.unschedulable_since, now)
    return waited is not None and waited >= patience and (max(ages) >= patience if ages else waits)


def is_lacking(pool: PoolSnapshot, nodes: Sequence[NodeView], *, seconds: float, now: float) -> bool:
    """Return whether a running pool lacks nodes, and has got none in the last seconds."""
    ages = [pool.age_seconds(now), *(measure_seconds(each.created_at, now) for each in nodes)]
    short = pool.status in RUNNING and len(nodes) < pool.node_count
    return short and all(each is not None and each >= seconds for each in ages)


def decide_lost(
    demand: Demand, pod: PodView, pool: PoolSnapshot, filling: Filling, *, now: float, settings: Settings
) -> Decision | None:
    """Return what follows if a running pool has had too few nodes for long; None if it has not.

    DELETE means that the list of capacity is tried from the beginning. A TPU slice needs all of its
    hosts, so pods on the other hosts lose nothing. Jobs on GPUs may continue with fewer nodes, so
    such a pool must have lost all of them. `decide_empty` decides about an autoscaled pool without
    nodes, which may get all of them again.

    The wait of the pod is the proof that the pool does not serve. It ends when the pod gives up and
    is made anew. So an error of GKE as old is as good a proof while GKE makes no machine. One that
    is much older, or from before the youngest node, may be of an earlier loss.
    """
    nodes, machines, patience = filling.nodes, filling.machines, LOST_GRACES * settings.grace_seconds
    stays = demand.elastic or demand.choices == 1 or (nodes and demand.shape.gpus)
    if stays or is_empty(pool, nodes) or not is_lacking(pool, nodes, seconds=patience, now=now):
        return None
    times, since = [each.created_at for each in nodes], [pod.unschedulable_since]
    if machines and machines.made + machines.coming < pool.node_count:
        begin = max(each or 0.0 for each in (now - 2 * patience, pool.owner and pool.owner.created_at, *times))
        since += [each.at for each in _list_since(machines.errors, begin, now)]
    if not any((waited := measure_seconds(at, now)) is not None and waited >= patience for at in since):
        return None
    lost = f"{pool.node_count - len(nodes)} of its {pool.node_count} nodes"
    message = (
        f"node pool {pool.name} has lost {lost}, and its pods wait for more than {patience} s; it is deleted, and "
        "the list of capacity is tried from the beginning"
    )
    return Decision(Verdict.DELETE, Reason.POOL_DEGRADED, message)
