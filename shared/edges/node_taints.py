"""Reads nodes, and the one taint that the provisioner sets and removes."""

from __future__ import annotations

from typing import Any

import msgspec

from shared.edges.kubernetes_objects import Condition, ObjectMeta, Record
from shared.model import labels
from shared.model.readings import PoolNode
from shared.model.times import parse_time

CLOSED, OPEN = "NoSchedule", "PreferNoSchedule"


class NodeSpec(Record):
    """All taints, with the fields of others."""

    taints: list[dict[str, Any]] | None = None


class NodeStatus(Record):
    """What the node reports of itself."""

    conditions: list[Condition] | None = None


class Node(Record):
    """A node."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


def view_node(node: Node) -> PoolNode:
    """Return a node as the plan needs it."""
    ready = next(
        (
            each
            for each in node.status.conditions or ()
            if (each.type, each.status) == ("Ready", "True")
        ),
        None,
    )
    idle_since, closed = read_idle(node)
    return PoolNode(
        name=node.metadata.name,
        pool=(node.metadata.labels or {}).get(labels.NODE_POOL, ""),
        ready=ready is not None,
        ready_at=parse_time(ready.last_transition_time) if ready else None,
        idle_since=idle_since,
        closed=closed,
    )


def read_idle(node: Node) -> tuple[float | None, bool]:
    """Return since when a node is idle by our taint, and whether that keeps new pods off.

    A taint whose value is no time counts as none.
    """
    for taint in node.spec.taints or ():
        value = str(taint.get("value", ""))
        if taint.get("key") == labels.SURPLUS and value.isascii() and value.isdigit():
            return float(value), taint.get("effect") == CLOSED
    return None, False


def format_taints(node: Node, since: float | None, *, closed: bool) -> list[dict[str, Any]]:
    """Return a node's taints with ours of that time, or with none; those of others stay."""
    others = [taint for taint in node.spec.taints or () if taint.get("key") != labels.SURPLUS]
    if since is None:
        return others
    effect = CLOSED if closed else OPEN
    return [*others, {"key": labels.SURPLUS, "value": str(int(since)), "effect": effect}]
