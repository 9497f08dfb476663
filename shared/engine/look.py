"""What a look is made from, what it saw, and what a process remembers. Values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.engine.budget import Room, Turns
from shared.engine.inventory import Inventory, Key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.engine.inventory import WorkloadName
    from shared.engine.kueue import Standing
    from shared.engine.views import Operations
    from shared.model.pools import NodePool
    from shared.model.readings import PoolNode
    from shared.model.workloads import Parent, PodView, WorkloadView
    from shared.needs.wanted import Wanted
    from shared.plan.scene import Scene, Stop

    StopAndCause = tuple[Stop, str]
    """What the label of a namespace forbids, and where it is."""

    Finding = tuple[tuple[WorkloadView, list[PodView], list[str]], Wanted]
    """What a workload wants, and what that rests on: itself, its pods, and the pools of these."""

__all__ = ["DELIVERY_SECONDS", "From", "Key", "Lists", "Look", "Memory"]
DELIVERY_SECONDS = 50.0
"""How long after its beginning a delivery begins an act; every request ends within 55 s."""


@dataclass(slots=True)
class Memory:
    """What a process remembers. Without it acts come later, and never wrongly."""

    missing_since: dict[tuple[str, str], float] = field(default_factory=dict)
    """By cluster and pool, when nodes were first seen to be missing, in unix seconds."""
    spare: dict[str, frozenset[str]] = field(default_factory=dict)
    """By cluster, the pools that the last tick found too many."""
    inventories: dict[str, Inventory] = field(default_factory=dict)
    """By cluster, the newest list of pools."""
    nodes: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """By cluster, how many nodes each pool had in the last tick; a limit counts them."""
    acted: dict[Key, float] = field(default_factory=dict)
    """When something was added for a workload; an older list of pools does not show it."""
    free_at: dict[tuple[str, str], float] = field(default_factory=dict)
    """By cluster and namespace, when its label stopped nothing, in unix seconds."""
    uids: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By cluster, the UID of its namespace ``kube-system``, and when that was read."""
    notices: dict[tuple[str, ...], float] = field(default_factory=dict)
    """What a tick has told, and when."""
    wanted: dict[str, Mapping[Key, Finding]] = field(default_factory=dict)
    """By cluster, what workloads wanted in the last tick."""
    left: dict[str, tuple[Key, ...]] = field(default_factory=dict)
    """By cluster, the keys for which the last tick had no time."""
    turns: Turns = field(default_factory=Turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """What a tick has read of a cluster once for all of its looks."""

    inventory: Inventory
    nodes: Mapping[str, Sequence[PoolNode]]
    """By pool."""
    pools_of: Mapping[str, str]
    """The pool of each of these nodes."""
    pods: Mapping[WorkloadName, Sequence[PodView]]
    """The accelerator pods of the cluster by kind, namespace and name of their workload."""
    users: Mapping[str, Sequence[PodView]]
    """The accelerator pods on each pool of ours."""
    operations: Operations
    began_at: float
    until: float
    """When the last act may begin."""
    stops: dict[str, StopAndCause] = field(default_factory=dict)
    """By namespace."""
    workloads: dict[WorkloadName, WorkloadView] = field(default_factory=dict)
    """Those that were listed; one that is not among them is read by its name."""
    wanted: dict[Key, Finding] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look saw, with what its acts need beside the scene."""

    key: Key
    scene: Scene
    wanted: Wanted
    workload: WorkloadView | None
    pools: Mapping[str, NodePool]
    """Of the owner, by name."""
    nodes: Mapping[str, Sequence[PoolNode]] = field(default_factory=dict)
    """By pool."""
    pods: Sequence[PodView] = ()
    takers: frozenset[WorkloadName] = frozenset()
    """The other workloads whose pods are on the owner's pools."""
    stop_cause: str = ""
    standing: Standing
    """What Kueue says of it."""
    parent: Parent | None = None
    cluster_uid: str = ""
    """Of the namespace ``kube-system``; read before an act only."""
    inventory: Inventory = field(default_factory=Inventory)
    room: Room = field(default_factory=Room)
    began_at: float
    users_read_at: float | None = None
    """When the pods on its nodes began to be read, one node after the other."""
    until: float = 0.0
    """When the last act may begin."""
    errors: tuple[Exception, ...] = ()
    """Why a fact about one pool could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class From:
    """What a look is made from, beside live reads."""

    lists: Lists | None = None
    again: Look | None = None
    """The look before it, whose pools are read anew by name."""
    names: frozenset[str] = frozenset()
    """Of these, those that must be."""
    shares: bool = False
    """It may use a list of pools that another look has just read; before a create only."""
    until: float | None = None
