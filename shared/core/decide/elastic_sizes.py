"""Decides how elastic pools grow, and shrink node by node. Pure.

A pool never shrinks by its size, because GKE would choose the nodes. Nodes are removed one by one:
an empty node is marked, later closed to new pods, and later removed if it is still empty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from shared.core.decide.attempts import rank_attempt
from shared.core.decide.limits import decide_limit
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import BROKEN, PoolStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.core.decide.limits import Usage
    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import SurplusMark
    from shared.core.settings import Settings

_RESTING = (PoolStatus.RUNNING, *BROKEN)
_SHARING = (*_RESTING, PoolStatus.PROVISIONING, PoolStatus.RECONCILING)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPool:
    """A pool of an elastic claim, as one look found it. What no plan asks for is not read."""

    pool: PoolSnapshot
    size: int
    """How many nodes GKE keeps in it."""
    wanted: int
    """How many it should have, beside those of the other pools of the claim."""
    marks: Mapping[str, SurplusMark | None] = field(default_factory=dict)
    """By the name of each of its nodes, our mark that it is not needed."""
    used: frozenset[str] = frozenset()
    """Unfinished accelerator pods are bound to these."""
    missing: Sequence[str] = ()
    """What GKE keeps and has not made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrink:
    """What to do with the nodes of a pool, by name."""

    give_up: Sequence[str] = ()
    """GKE has not made them. The rest comes later."""
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
