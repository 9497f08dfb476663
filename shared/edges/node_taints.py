"""Nodes as far as we read them: their name, and the one taint that is ours to put on and to take off."""

from __future__ import annotations

from typing import Any

import msgspec

from shared.core.labels import SURPLUS
from shared.core.ports import SurplusMark
from shared.edges.kubernetes_objects import ObjectMeta, Record

CLOSED, OPEN = "NoSchedule", "PreferNoSchedule"


class NodeSpec(Record):
    """Taints as they stand, fields of others and all."""

    taints: list[dict[str, Any]] | None = None


class Node(Record):
    """A node."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)


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
    return [*others, {"key": SURPLUS, "value": str(int(since)), "effect": CLOSED if closed else OPEN}]
