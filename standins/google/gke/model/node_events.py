"""What the model tells the outside: pool states and nodes that came, changed or went. Data only."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from standins.google.gke.model.node_objects import Node
from standins.google.gke.resource_names import ClusterName


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


@dataclass(frozen=True)
class OperationMoved:
    """An operation on a pool was accepted, or has ended; what the audit log says of it."""

    cluster: ClusterName
    pool: str
    operation: str
    kind: str
    """The type of the operation, for example ``CREATE_NODE_POOL``."""
    at: str
    """RFC 3339."""
    ended: bool
    code: int = 0
    """Of the failure; 0 without one."""
    text: str = ""


Event: TypeAlias = "PoolState | NodeUp | NodeChanged | NodesDraining | NodesDown | CallMade | OperationMoved"
Listener: TypeAlias = "Callable[[Event], None]"
