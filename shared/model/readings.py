"""What was read of the outside world, as plain values: machines, nodes, bound pods, operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class FillError:
    """Why a pool did not get its nodes at some time."""

    message: str
    """GKE's words, with the code if there is one."""
    at: float | None = None
    """Unix seconds; None if it is not told, or for what is true now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """The machines of a pool, as its instance groups report them."""

    present: int = 0
    """How many are there, if only starting."""
    coming: int = 0
    """How many more are being made without an error."""
    errors: tuple[FillError, ...] = ()
    """What kept the groups from making machines, as long as they remember it."""

    def list_causes(self, since: float, now: float) -> list[tuple[float, str]]:
        """Return the errors from a moment on, each with its time; what has none is true now."""
        timed = [(now if each.at is None else each.at, each.message) for each in self.errors]
        return [each for each in timed if each[0] >= since]


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A namespace as it is now."""

    uid: str
    """That of ``kube-system`` is unique to its cluster."""
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One Kubernetes Event to be written on one object."""

    kind: str
    namespace: str
    name: str
    uid: str
    reason: str
    message: str
    warning: bool
    about: str = ""
    """Why, and which pool: the Event's name follows from the object and from this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNode:
    """One node of a pool."""

    name: str
    pool: str
    ready: bool
    ready_at: float | None = None
    """Unix seconds of its condition Ready; None if it is not Ready."""
    idle_since: float | None = None
    """By our taint, in unix seconds."""
    closed: bool = False
    """Our taint keeps new pods off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One create or delete of a pool among GKE's operations."""

    pool: str
    creates: bool
    ended: bool
    error: str = ""
    """GKE's words about what failed; empty for one that succeeded or still runs."""
    began_at: float | None = None
    ended_at: float | None = None
