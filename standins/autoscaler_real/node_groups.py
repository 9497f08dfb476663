"""What the autoscaler is told of a cloud: its groups of machines, and what can be asked of them."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

Json = dict[str, Any]


class Refused(Exception):
    """The cloud does not do what was asked; the text says why."""


class State(IntEnum):
    """What an instance is doing, by the numbers of the autoscaler's protocol."""

    RUNNING = 1
    CREATING = 2
    DELETING = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One machine of a group, whether it runs or is only wanted."""

    provider_id: str
    """As the node has it in ``spec.providerID``."""
    state: State
    code: str = ""
    """Of the last error of its creation; empty: none."""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of like machines within the bounds that it may have."""

    name: str
    minimum: int
    maximum: int
    all_or_nothing: bool
    """Whether it grows from none to its maximum and back, as a slice does."""
    template: Json = field(repr=False)
    """The Node object of one of its machines when it is new."""


class NodeGroups(Protocol):
    """The instance groups of one cluster. Each method raises `Refused` when the cloud says no."""

    def list_groups(self) -> list[Group]:
        """Return the groups that the autoscaler may change."""

    def target_size(self, name: str) -> int:
        """Return how many machines a group is asked to have."""

    def list_instances(self, name: str) -> list[Instance]:
        """Return the machines of a group, those that it still tries to make included."""

    def resize(self, name: str, size: int) -> None:
        """Ask a group to have so many machines from now on."""

    def delete_instances(self, name: str, provider_ids: list[str]) -> None:
        """Remove exactly these machines; the group is asked for so many fewer from now on."""
