"""What the autoscaler sees in one loop, and what it does: plain records."""

from dataclasses import dataclass
from typing import TypeAlias

from standins.kit.fitting import Node, Pod


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
    deleting: bool = False
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
    all_or_none: bool = False  # the hosts of a slice: the group has none or `largest`
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
    """An Event of Kubernetes about a pod."""

    pod: Pod
    reason: str
    message: str
    type: str = "Normal"


Action: TypeAlias = Resize | GiveUp | RemoveNodes | Event
