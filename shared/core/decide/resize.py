"""Decides how an elastic pool grows, and how it shrinks node by node. Pure and total.

A pool never shrinks by its size, because GKE would choose the nodes. Nodes are removed one by one:
an empty node is marked, later closed to new pods, and later removed if it is still empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.core.decide.limits import decide_limit
from shared.core.decide.provision import refuse_by_mode
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.settings import Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decide.limits import Usage
    from shared.core.demand.demand import Demand
    from shared.core.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """One node of an elastic pool."""

    name: str
    used: bool = False
    """An unfinished accelerator pod is bound to it."""
    surplus_since: float | None = None
    """Unix seconds of our mark; None without a mark."""
    closed: bool = False
    """The mark keeps new pods off the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrink:
    """What to do with the nodes of a pool, by name."""

    remove: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    mark: tuple[str, ...] = ()
    clear: tuple[str, ...] = ()
    """Remove our mark: the node is used, or needed again."""


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
    mode = settings.find_mode(demand.claim.namespace)
    if mode != Mode.ACTIVE:
        return refuse_by_mode(f"resize {change}", mode)
    resize = Decision(Verdict.RESIZE, Reason.POOL_GROWS, f"resizing {change}")
    return decide_limit(demand, settings, usage) or resize


def plan_shrink(
    nodes: Sequence[NodeState], *, wanted: int, size: int, now: float, grace_seconds: float, removals_max: int
) -> Shrink:
    """Return what to do with each node so that a pool shrinks and no node in use is removed.

    Args:
        nodes: the nodes in the cluster; fewer than `size` while GKE adds some.
        wanted: how many nodes are needed.
        size: how many nodes GKE keeps.
        now: unix seconds.
        grace_seconds: how long a node stays marked before it is closed.
        removals_max: how many nodes to remove at most.
    """
    empty = sorted((node for node in nodes if not node.used), key=_find_rank)
    leaving = empty[: max(0, size - wanted)]
    return Shrink(
        remove=tuple(node.name for node in leaving if node.closed)[: max(0, removals_max)],
        close=tuple(
            node.name
            for node in leaving
            if not node.closed and node.surplus_since is not None and now - node.surplus_since >= grace_seconds
        ),
        mark=tuple(node.name for node in leaving if node.surplus_since is None),
        clear=tuple(node.name for node in nodes if node.surplus_since is not None and node not in leaving),
    )


def decide_shrink(pool_name: str, plan: Shrink, *, wanted: int, size: int) -> Decision | None:
    """Return the decision that nodes of a pool were removed; None when none were."""
    if not plan.remove:
        return None
    names = ", ".join(plan.remove)
    message = f"removing empty nodes of node pool {pool_name} ({size} nodes, {wanted} needed): {names}"
    return Decision(Verdict.RESIZE, Reason.POOL_SHRINKS, message)


def decide_marking(pool_name: str) -> Decision:
    """Return the decision to change our marks on nodes of a pool."""
    return Decision(Verdict.RESIZE, Reason.POOL_SHRINKS, f"marking empty nodes of node pool {pool_name}")


def _find_rank(node: NodeState) -> tuple[bool, float, str]:
    """Return the order in which empty nodes are removed: nodes with a mark are first."""
    since = float("inf") if node.surplus_since is None else node.surplus_since
    return not node.closed, since, node.name
