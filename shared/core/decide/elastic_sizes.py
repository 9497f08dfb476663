"""Decides how elastic pools grow, shrink node by node, and get a second pool beside them. Pure.

A pool never shrinks by its size, because GKE would choose the nodes. Nodes are removed one by one:
an empty node is marked, later closed to new pods, and later removed if it is still empty.

A pool that could not grow keeps the nodes that it has, and the next candidate has the others. That
a later pool of the claim lives is the only mark: then the earlier ones do not grow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from shared.core.decide.attempts import (
    AttemptDecision,
    choose_next,
    decide_after_creation,
    decide_next_attempt,
    find_attempt,
    rank_attempt,
    record_failure,
)
from shared.core.decide.filling import LOST_GRACES
from shared.core.decide.limits import decide_limit
from shared.core.decide.provision import decide_provision
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import BROKEN, PoolStatus
from shared.core.times import measure_seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from shared.core.decide.limits import Usage
    from shared.core.demand.demand import Demand
    from shared.core.identity.creations import Creation
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import SurplusMark
    from shared.core.settings import Settings
    from shared.core.workloads import NodeView, PodView

_RESTING = (PoolStatus.RUNNING, *BROKEN)
_SHARING = (*_RESTING, PoolStatus.PROVISIONING, PoolStatus.RECONCILING)
_RESOURCE_EXHAUSTED = 8
"""``google.rpc.Code`` of a stockout: what counts where GKE has said nothing that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPool:
    """A pool of an elastic claim, as one look found it. What no plan asks for is not read."""

    pool: PoolSnapshot
    size: int
    """How many nodes GKE keeps in it."""
    wanted: int
    """How many it should have, beside those of the other pools of the claim."""
    nodes: Sequence[NodeView] = ()
    """What the cluster has of it."""
    marks: Mapping[str, SurplusMark | None] = field(default_factory=dict)
    """By the name of each of them, our mark that it is not needed."""
    used: frozenset[str] = frozenset()
    """Unfinished accelerator pods are bound to these."""
    missing: Sequence[str] = ()
    """What GKE keeps and has not made."""
    refused: str = ""
    """Why GKE has just refused to let it grow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrink:
    """What to do with the nodes of a pool, by name."""

    give_up: Sequence[str] = ()
    """GKE has not made them, and another pool of the claim has them. The rest comes later."""
    marks: Mapping[str, tuple[float | None, bool]] = field(default_factory=dict)
    """Since when a node is not needed, None to remove our mark; and if it is closed to new pods."""
    remove: Sequence[str] = ()


def decide_growth(
    demand: Demand, pool_name: str, *, size: int, settings: Settings, usage: Usage | None = None
) -> Decision:
    """Return whether a running elastic pool needs more nodes.

    The size is the number of nodes that GKE keeps in the pool now. The usage, that of the other
    pools, is None when no limit is set.
    """
    wanted = demand.shape.node_count
    if size >= wanted:
        return Decision(Verdict.KEEP, Reason.POOL_SERVES, f"node pool {pool_name} is running")
    change = f"node pool {pool_name} from {size} to {wanted} nodes"
    resize = Decision(Verdict.RESIZE, Reason.POOL_GROWS, f"resizing {change}")
    return decide_limit(demand, settings, usage) or resize


def plan_shrink(seen: SeenPool, *, now: float, grace_seconds: float) -> Shrink:
    """Return what to do with each node so that a pool shrinks and no node in use is removed.

    An empty node that stays marked for the grace (in seconds) is closed, and a closed one that is
    still empty is removed. The mark of a node that is used, or needed again, is removed.
    """
    surplus = max(0, seen.size - seen.wanted)
    if surplus and seen.missing:
        return Shrink(give_up=seen.missing[:surplus])
    empty = sorted((name for name in seen.marks if name not in seen.used), key=partial(_find_rank, seen))
    leaving, marks = empty[:surplus], dict[str, tuple[float | None, bool]]()
    for name, mark in seen.marks.items():
        if name not in leaving:
            marks |= {name: (None, False)} if mark else {}
        elif mark is None:
            marks[name] = (now, False)
        elif not mark.closed and now - mark.since >= grace_seconds:
            marks[name] = (mark.since, True)
    remove = tuple(name for name in leaving if (mark := seen.marks[name]) and mark.closed)
    return Shrink(marks=marks, remove=remove)


def _find_rank(seen: SeenPool, name: str) -> tuple[bool, float, str]:
    """Return the order in which empty nodes are removed: nodes with a mark are first."""
    mark = seen.marks[name]
    return not (mark and mark.closed), mark.since if mark else math.inf, name


def decide_shrink(seen: SeenPool, names: Sequence[str]) -> Decision:
    """Return the decision to remove nodes of a pool."""
    message = (
        f"removing empty nodes of node pool {seen.pool.name} ({seen.size} nodes, {seen.wanted} needed): "
        f"{', '.join(names)}"
    )
    return Decision(Verdict.RESIZE, Reason.POOL_SHRINKS, message)


def decide_marking(pool_name: str) -> Decision:
    """Return the decision to change our marks on nodes of a pool."""
    return Decision(Verdict.RESIZE, Reason.POOL_SHRINKS, f"marking empty nodes of node pool {pool_name}")


def decide_giving_up(pool_name: str, missing: Sequence[str], *, wanted: int) -> Decision:
    """Return the decision to give up nodes of a pool that GKE has not made."""
    message = f"node pool {pool_name} gives up {len(missing)} nodes that GKE has not made; {wanted} are needed"
    return Decision(Verdict.RESIZE, Reason.POOL_SHRINKS, message)


def may_add_pools(demand: Demand) -> bool:
    """Return whether a demand may have several pools at a time."""
    return demand.elastic and demand.choices > 1


def list_sharing(demand: Demand, pools: Sequence[PoolSnapshot]) -> list[PoolSnapshot]:
    """Return the pools of a claim and of the wanted shape that stay, the oldest first.

    One whose creation failed has the nodes that GKE has made, which may be none.
    """
    own = PoolIndex.of(pools).list_claimed(demand.claim.hash)
    found = [each for each in own if each.owner and each.owner.was_made_for(demand.fingerprint)]
    return sorted((each for each in found if each.status in _SHARING), key=rank_attempt)


def count_missing(demand: Demand, sizes: Iterable[int]) -> int:
    """Return how many of the nodes that the pods need the pools of these sizes do not have."""
    return max(0, demand.shape.node_count - sum(sizes))


def plan_addition(
    demand: Demand,
    pod: PodView,
    seen: Sequence[SeenPool],
    *,
    used: Collection[int],
    now: float,
    settings: Settings,
) -> tuple[SeenPool, AttemptDecision] | None:
    """Return the first pool of a claim that is short of nodes, and what follows; None without one.

    RESIZE means that an earlier pool gives up the nodes that GKE has not made; it counts only if it
    has some. CREATE means that the newest one gives them up too, and the next candidate has them.
    There may be a pause before that, which counts from the begin of the wait of the pod.

    Args:
        demand: with the nodes that the newest pool should have.
        pod: it waits.
        seen: the pools of the claim, the oldest first.
        used: the attempts of the claim whose pools exist.
        now: unix seconds.
        settings: the operator's settings.
    """
    found = (each for each in seen if is_short(each, pod, now=now, settings=settings))
    short = next((each for each in found if each.missing or each is seen[-1]), None)
    if short is None:
        return None
    pool, nodes, newest = short.pool, len(short.nodes), seen[-1].pool.owner
    create = decide_provision(demand, None, now=now, settings=settings)
    if create.verdict == Verdict.CREATE and pool is not seen[-1].pool:
        create = decide_giving_up(pool.name, short.missing, wanted=nodes)
    if create.verdict != Verdict.CREATE or newest is None:
        return short, AttemptDecision(attempt=newest.attempt if newest else 0, decision=create)
    failed, error = record_failure(demand, pool, None), short.refused or pool.error or "it adds no nodes"
    failed = replace(failed, error=error, code=_RESOURCE_EXHAUSTED, at=pod.unschedulable_since, binding=False)
    rest = demand.with_nodes(short.wanted - nodes)
    next_one = decide_next_attempt(rest, create, failed, used=used, now=now)
    message = f"node pool {pool.name} has {nodes} of {short.wanted} nodes: {next_one.decision.message}"
    told = Decision(next_one.decision.verdict, next_one.decision.reason, message)
    return short, replace(next_one, decision=told)


def follow_gone(
    demand: Demand,
    pod: PodView,
    found: AttemptDecision,
    gone: Creation | None,
    *,
    used: Collection[int],
    now: float,
) -> AttemptDecision:
    """Return what follows a later creation that failed while the pod waited, and left no pool.

    Without one it is what was found. Only the sweep adds a pool, so the number may follow from what
    only the sweep knows. The other arguments are those of `plan_addition`.
    """
    since = pod.unschedulable_since or 0.0
    counts = gone and (not gone.ended or (gone.error and (gone.ended_at or now) >= since))
    if gone is None or not counts or found.decision.verdict != Verdict.CREATE:
        return found
    number = choose_next(find_attempt(gone.pool), used, demand.choices)
    return decide_after_creation(demand, replace(found, attempt=number), gone, now=now)


def is_short(seen: SeenPool, pod: PodView, *, now: float, settings: Settings) -> bool:
    """Return whether a pool has been asked for more nodes, and has got none for long.

    The waiting pod must have waited for so long, and all nodes must be as old: a younger one shows
    that GKE is adding them. What GKE reports of a pool that could not grow is not known, so its
    status counts only if it forbids to grow again. A pool of flex-start waits without end.
    """
    pool = seen.pool
    asked = seen.refused or pool.status in BROKEN or seen.size >= seen.wanted
    if not asked or pool.status not in _RESTING or len(seen.nodes) >= seen.wanted or pool.flex_start:
        return False
    patience = LOST_GRACES * settings.grace_seconds
    waits = [
        measure_seconds(each, now) for each in (pod.unschedulable_since, *(one.created_at for one in seen.nodes))
    ]
    age = pool.age_seconds(now)  # None: a person has removed the label, and its nodes tell
    return (age is None or age >= patience) and all(each is not None and each >= patience for each in waits)
