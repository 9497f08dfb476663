"""What the model tells the outside: pool states and nodes that came, changed or went. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.fakegke.names import ClusterName
    from local.fakegke.node_objects import Node


@dataclass(frozen=True)
class PoolState:
    """A pool entered a status; `GONE` when it no longer exists."""

    cluster: ClusterName
    pool: str
    status: str


@dataclass(frozen=True)
class NodeUp:
    """A host is ready: its Node object should be registered."""

    node: Node


@dataclass(frozen=True)
class NodeChanged:
    """A node's labels or taints changed in place."""

    node: Node
    labels_removed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class NodesDraining:
    """These nodes are about to go: their pods should be deleted."""

    cluster: ClusterName
    pool: str
    names: list[str]


@dataclass(frozen=True)
class NodesDown:
    """These nodes are gone: their Node objects should be removed."""

    cluster: ClusterName
    pool: str
    names: list[str]


@dataclass(frozen=True)
class CallMade:
    """A call was answered with `code`."""

    method: str
    cluster: str
    pool: str
    skin: str
    code: str
    at: float


Event: TypeAlias = "PoolState | NodeUp | NodeChanged | NodesDraining | NodesDown | CallMade"
Listener: TypeAlias = "Callable[[Event], None]"
