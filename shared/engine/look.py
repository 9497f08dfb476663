"""The key of a workload, what a cluster's list of pools says as a whole, and what one look saw."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.plan.limits import count_nodes
from shared.plan.scene import Queue, Stop

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.model.kueue import CheckState, QueuedWorkload
    from shared.model.names import ParsedName
    from shared.model.pools import Machines, NodePool, Operation, PoolNode
    from shared.model.workloads import Parent, PodView, WorkloadView
    from shared.needs.wanted import Wanted
    from shared.plan.scene import Scene, Way

    Operations = Mapping[str, Sequence[tuple[ParsedName, Operation]]]
    """By the hash in the name of their pool, with that name."""
    Finding = tuple[tuple[WorkloadView, list[PodView], list[str]], Wanted]
    """What a workload wants, and what that rests on: itself, its pods, and the pools of these."""

WorkloadName = tuple[str, str, str]
"""Kind, namespace and name."""
StopAndCause = tuple[Stop, str]
"""What the label of a namespace forbids, and where it is."""
FREE: StopAndCause = Stop.NOTHING, ""


@dataclass(frozen=True, slots=True)
class Key:
    """One workload of one cluster, by its name."""

    cluster: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    """Empty for the one that has the name now; else that one only, and it may be gone."""

    @property
    def workload(self) -> WorkloadName:
        """Return kind, namespace and name."""
        return self.kind, self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The node pools of one cluster at one moment."""

    began_at: float = 0.0
    """When the list began, in unix seconds."""
    pools: Mapping[str, NodePool] = field(default_factory=dict)
    """All, by name."""
    by_owner: Mapping[WorkloadName, Sequence[NodePool]] = field(default_factory=dict)
    """Ours."""
    nodes_before: Mapping[str, int] = field(default_factory=dict)
    """By pool, how many nodes it had when they were last read, if this list has none of them."""
    chips: Mapping[str, int] = field(default_factory=dict)
    """By the namespace of the owner; a limit counts them. Where nodes were not read, a pool without
    machines counts as a whole."""
    under_way: frozenset[str] = frozenset()
    """Names of pools on which GKE works."""
    autoscaled: int = 0


def count_used(
    inventory: Inventory, pools: Iterable[NodePool], nodes: Mapping[str, Sequence[PoolNode]]
) -> Inventory:
    """Return a list of pools of which some are counted by their nodes, which were read since."""
    chips = Counter(inventory.chips)
    for pool in pools:
        if pool.owner:
            before = inventory.nodes_before.get(pool.name, 0)
            chips[pool.owner.namespace] += count_chips(pool, len(nodes.get(pool.name, ())))
            chips[pool.owner.namespace] -= count_chips(pool, max(pool.node_count, before))
    return dataclasses.replace(inventory, chips=chips)


def count_chips(pool: NodePool, nodes: int) -> int:
    """Return what a limit counts of a pool with so many nodes, Ready or not."""
    return count_nodes(pool.status, pool.node_count, nodes) * max(pool.units, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What Kueue says of a workload now."""

    queue: Queue = Queue.NONE
    owner: WorkloadView | None = None
    """As Kueue will resume it; None to take it as it is."""
    plain: WorkloadView | None = None
    """As its author wrote it."""
    queued: QueuedWorkload | None = None
    """The Workload with our check, if that waits for an answer."""
    check: CheckState | None = None
    seconds: int = 0
    """For how long a part of its pools is held."""
    lost_at: float = 0.0
    retried: bool = False
    answer: tuple[str, str] | None = None
    """The state of the check with its message, where a plan changes nothing: the spec can never be
    resumed, or not now, though another flavor or queue may serve it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """What a tick has read of a cluster once for all of its looks."""

    cluster: str
    inventory: Inventory
    nodes: Mapping[str, Sequence[PoolNode]]
    """By pool."""
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
class Source:
    """What a look is made from, beside live reads."""

    lists: Lists | None = None
    again: Look | None = None
    """The look before it, whose pools are read anew by name."""
    names: frozenset[str] = frozenset()
    """Of these, those that must be."""
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was read of one workload, and the scene that follows from it."""

    key: Key
    workload: WorkloadView | None
    standing: Standing = Standing()
    """What Kueue says of it."""
    parent: Parent | None = None
    stop: StopAndCause = FREE
    inventory: Inventory = Inventory()
    pools: Mapping[str, NodePool] = field(default_factory=dict)
    """Of the owner, by name."""
    nodes: Mapping[str, Sequence[PoolNode]] = field(default_factory=dict)
    """By pool."""
    missing_since: Mapping[str, float] = field(default_factory=dict)
    """By pool, when nodes that existed were first seen to be missing."""
    spare: frozenset[str] = frozenset()
    """The pools of the cluster that the last tick found too many."""
    pods: Sequence[PodView] = ()
    wanted: Wanted
    refusals: Mapping[Way, str] = field(default_factory=dict)
    """The ways that GKE refused at once a moment ago, each with its words."""
    operations: Operations | None = None
    """None: they were not read."""
    machines: Mapping[str, Machines | None] = field(default_factory=dict)
    """Of the pools about which GKE was asked; None: it gave no answer."""
    users: Mapping[str, Sequence[PodView]] = field(default_factory=dict)
    """The pods of others on the pools about which the nodes were asked."""
    places: Mapping[str, str] = field(default_factory=dict)
    """The pool of each pod that these nodes have, by its UID."""
    unread: frozenset[str] = frozenset()
    """Pools of which a node gave no answer. Nothing is done to them: they may be in use."""
    scene: Scene
    began_at: float
    users_read_at: float | None = None
    """When the pods on its nodes began to be read, one node after the other."""
    until: float = 0.0
    """When the last act may begin."""
    errors: tuple[Exception, ...] = ()
    """Why a fact about one pool could not be read."""


def sort_nodes(nodes: Iterable[PoolNode]) -> dict[str, list[PoolNode]]:
    """Return nodes by their pool."""
    by_pool: dict[str, list[PoolNode]] = defaultdict(list)
    for node in nodes:
        by_pool[node.pool].append(node)
    return by_pool


def map_nodes(nodes: Mapping[str, Sequence[PoolNode]]) -> dict[str, str]:
    """Return the pool of each node by the node's name."""
    return {node.name: pool for pool, members in nodes.items() for node in members}
