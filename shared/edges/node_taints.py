"""Reads nodes, and the one taint that the provisioner sets and removes."""

from __future__ import annotations

from typing import Any

import msgspec

from shared.edges.kubernetes_objects import Condition, ObjectMeta, Record
from shared.edges.quantities import parse_quantity
from shared.engine.outside import SurplusMark
from shared.model.labels import GPU_RESOURCE, SURPLUS, TPU_RESOURCE
from shared.model.times import parse_time
from shared.model.workloads import NodeView, Taint

CLOSED, OPEN = "NoSchedule", "PreferNoSchedule"


class NodeSpec(Record):
    """All taints, with the fields of others."""

    taints: list[dict[str, Any]] | None = None
    unschedulable: bool | None = None


class NodeStatus(Record):
    """What the node reports of itself."""

    conditions: list[Condition] | None = None
    allocatable: dict[str, Any] | None = None


class Node(Record):
    """A node."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


def view_node(node: Node) -> NodeView:
    """Return a node as decisions see it. It is Ready by its condition of that name."""
    offered = node.status.allocatable
    has_units = offered is not None and not {TPU_RESOURCE, GPU_RESOURCE}.isdisjoint(offered)
    return NodeView(
        name=node.metadata.name,
        ready=any(
            each.type == "Ready" and each.status == "True" for each in node.status.conditions or ()
        ),
        cordoned=bool(node.spec.unschedulable),
        taints=tuple(
            Taint(*(str(taint.get(part, "")) for part in ("key", "value", "effect")))
            for taint in node.spec.taints or ()
        ),
        # A node offers accelerators only when its driver runs.
        units=_read_offer(offered, TPU_RESOURCE, GPU_RESOURCE) if has_units else None,
        cpu_millis=_read_offer(offered, "cpu", scale=1000),
        memory_bytes=_read_offer(offered, "memory"),
        created_at=parse_time(node.metadata.creation_timestamp),
    )


def _read_offer(offered: dict[str, Any] | None, *names: str, scale: int = 1) -> int | None:
    found = [parse_quantity(str((offered or {}).get(name, ""))) for name in names]
    known = [amount for amount in found if amount is not None]
    return int(sum(known) * scale) if known else None


def read_surplus(node: Node) -> SurplusMark | None:
    """Return our mark on a node; None without one, or with one whose value is no time."""
    for taint in node.spec.taints or ():
        value = str(taint.get("value", ""))
        if taint.get("key") == SURPLUS and value.isascii() and value.isdigit():
            return SurplusMark(since=float(value), closed=taint.get("effect") == CLOSED)
    return None


def replace_surplus(node: Node, since: float | None, *, closed: bool) -> list[dict[str, Any]]:
    """Return a node's taints with our mark of that time, or with none; those of others stay."""
    others = [taint for taint in node.spec.taints or () if taint.get("key") != SURPLUS]
    if since is None:
        return others
    return [
        *others,
        {"key": SURPLUS, "value": str(int(since)), "effect": CLOSED if closed else OPEN},
    ]
