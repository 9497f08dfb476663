"""How large an elastic pool shall be: `decide_growth`, and `plan_shrink` node by node. Pure and total.

A pool is never made smaller by its size, for GKE would choose the nodes. What leaves is one node after another, by
name: empty, marked, then closed to pods, then removed by a later look that still finds it empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.core.decisions import Decision, Reason, Verdict
from shared.core.provision import find_exceeded_limit
from shared.core.settings import Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.demand import Demand
    from shared.core.provision import Usage
    from shared.core.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """One node of an elastic pool."""

    name: str
    used: bool = False
    """An unfinished accelerator pod is bound to it."""
    surplus_since: float | None = None
    """Unix seconds of our mark; None without one."""
    closed: bool = False
    """The mark keeps new pods off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrink:
    """What to do with the nodes of a pool, by name."""

    remove: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    mark: tuple[str, ...] = ()
    clear: tuple[str, ...] = ()
    """Take our mark off: the node is used, or wanted again."""


def decide_growth(
    demand: Demand, pool_name: str, *, size: int, settings: Settings, usage: Usage | None = None
) -> Decision:
    """Return whether a running elastic pool must get more nodes.

    Args:
        demand: what all pods of the shape need.
        pool_name: the pool, which is this demand's and of its shape.
        size: how many nodes GKE keeps there now.
        settings: the operator's settings.
        usage: what the cluster's other pools hold, when a limit is set.
    """
    wanted = demand.shape.node_count
    if size >= wanted:
        return Decision(Verdict.KEEP, Reason.POOL_SERVES, f"node pool {pool_name} is running")
    change = f"node pool {pool_name} from {size} to {wanted} nodes"
    mode = settings.find_mode(demand.claim.namespace)
    if mode != Mode.ACTIVE:
        reason = Reason.MODE_REPORT_ONLY if mode == Mode.REPORT_ONLY else Reason.MODE_NO_CREATE
        return Decision(Verdict.REFUSE, reason, f"would resize {change}; the mode is {mode}")
    exceeded = find_exceeded_limit(demand, settings, usage)
    if exceeded:
        return Decision(Verdict.REFUSE, Reason.LIMIT_REACHED, exceeded)
    return Decision(Verdict.RESIZE, Reason.POOL_GROWS, f"resizing {change}")


def plan_shrink(
    nodes: Sequence[NodeState], *, wanted: int, size: int, now: float, grace_seconds: float, removals_max: int
) -> Shrink:
    """Return what to do with each node so that a pool comes down to the wanted size and loses nothing in use.

    Args:
        nodes: those that the cluster knows; fewer than `size` while some come.
        wanted: how many are needed.
        size: how many GKE keeps.
        now: unix seconds.
        grace_seconds: how long a mark must stand before the node is closed.
        removals_max: the most nodes to remove at once.
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


def _find_rank(node: NodeState) -> tuple[bool, float, str]:
    """Return the order in which empty nodes leave: what was chosen before is chosen again."""
    since = float("inf") if node.surplus_since is None else node.surplus_since
    return not node.closed, since, node.name
