"""What the autoscaler sees in one loop, and what it does: plain records.

Amounts of resources are in their base unit (CPUs, bytes, chips).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement on labels, with the operators of Kubernetes' node affinity."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the requirement."""
        value = labels.get(self.key)
        if self.operator in ("Exists", "DoesNotExist"):
            return (value is not None) == (self.operator == "Exists")
        if self.operator == "NotIn":
            return value not in self.values
        if self.operator == "In":
            return value in self.values
        if value is None or not value.lstrip("-").isdigit():
            return False
        limit = int(self.values[0])
        return int(value) > limit if self.operator == "Gt" else int(value) < limit


@dataclass(frozen=True, slots=True)
class Term:
    """A required term of inter-pod affinity. `namespaces` None: all."""

    topology_key: str
    requirements: tuple[Requirement, ...]
    namespaces: frozenset[str] | None

    def selects(self, pod: Pod) -> bool:
        """Return whether the term selects a pod."""
        if self.namespaces is not None and pod.namespace not in self.namespaces:
            return False
        return all(each.matches(pod.labels) for each in self.requirements)


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a pod; an empty key or effect tolerates all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether it tolerates a taint."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that has not finished."""

    namespace: str
    name: str
    uid: str
    node: str = ""
    unschedulable: bool = False
    """Pending, and the scheduler found no node for it."""
    labels: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, float] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)
    node_terms: tuple[tuple[Requirement, ...], ...] = ()
    """Required node affinity: any of these, each with all of its requirements; empty: any node."""
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    movable: bool = True
    """Whether the autoscaler may evict it."""
    daemon: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the cluster; `kept`: its annotation forbids to remove it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, float] = field(default_factory=dict)
    ready: bool = True
    kept: bool = False


@dataclass(frozen=True, slots=True)
class InstanceError:
    """Why an instance cannot be made, in Compute Engine's code and words."""

    code: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of a group. A node has the name of its instance."""

    name: str
    creating: bool = False
    error: InstanceError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The instance group of an autoscaled pool in one zone, and the node that it would add.

    `id` is the URL of the instance group, as it is in Events.
    """

    id: str
    pool: str
    zone: str
    largest: int
    smallest: int = 0
    target: int = 0
    all_or_none: bool = False
    """The hosts of a slice: the group has none or `largest`."""
    queued: bool = False
    """Flex-start: it waits for capacity without errors, for as long as it takes."""
    template: Node
    instances: tuple[Instance, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """The cluster and its groups at one moment."""

    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    groups: tuple[Group, ...] = ()


@dataclass(frozen=True, slots=True)
class Resize:
    """Give a group another size."""

    group: Group
    size: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Delete instances of a group that cannot be made, so that it keeps so many fewer."""

    group: Group
    instances: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RemoveNodes:
    """Evict the pods of nodes and delete the nodes' instances."""

    group: Group
    nodes: tuple[str, ...]
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """An Event of Kubernetes about a pod, or about a node where `pod` is None."""

    pod: Pod | None
    reason: str
    message: str
    type: str = "Normal"
    node: str = ""


Action: TypeAlias = "Resize | GiveUp | RemoveNodes | Event"
