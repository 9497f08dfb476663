"""What a workload needs, the ways to get it, and its pods, in the words of the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from msgspec import Struct

from shared.model.decisions import Decision
from shared.model.names import Slot
from shared.model.pools import ELASTIC_SLOT, PoolShape
from shared.model.workloads import Toleration


class Tier(StrEnum):
    """The source of the capacity."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVATION = "reservation"
    FLEX_START = "flex-start"


class NodeSource(StrEnum):
    """What makes the nodes of a pool."""

    CREATION = "creation"
    """GKE creates the pool together with its nodes. In a stockout it tries for some 35 minutes."""
    AUTOSCALER = "autoscaler"
    """GKE creates the pool empty, in seconds. Its autoscaler adds the nodes for pods that wait."""


class Reservation(Struct, frozen=True, kw_only=True):
    """One reservation, or a part of it; without a name none."""

    name: str = ""
    project: str = ""  # empty: the cluster's own
    block: str = ""
    subblock: str = ""

    @property
    def path(self) -> str:
        """Return the value of ``reservation_affinity``: a name or a path; empty for none.

        The path of a block in a reservation of the cluster's own project lacks the project, which
        `shared.needs.nodepool` adds.
        """
        path = f"projects/{self.project}/reservations/{self.name}" if self.project else self.name
        path += f"/reservationBlocks/{self.block}" if self.block else ""
        return path + (f"/reservationSubBlocks/{self.subblock}" if self.subblock else "")


NO_RESERVATION = Reservation()


@dataclass(frozen=True, slots=True)
class Way:
    """One way to get the capacity of a need; a list has several, each of which is a candidate.

    A refusal of GKE answers each need with an equal one. How long nodes live, and what makes them,
    is no other way to get them.
    """

    tier: Tier
    zone: str = ""
    reservation: Reservation = NO_RESERVATION
    machine: str = ""
    words: frozenset[tuple[str, str | None]] = frozenset()  # of pods; a wrong one is theirs alone
    run_seconds: int = field(default=0, compare=False)
    """Longest run time of flex-start nodes; 0: as the operator says, and for the other tiers."""
    nodes_from: NodeSource | None = field(default=None, compare=False)
    """As the list or the operator says."""

    def __str__(self) -> str:
        path = self.reservation.path
        return f"{self.tier}{' ' * bool(path)}{path} in {self.zone}"


class Pod(Struct, frozen=True, kw_only=True):
    """One pod that wants accelerators and has not ended."""

    need: str  # the key of its need; empty for a pod of another workload
    slice: str  # the key of its slice; of an elastic need one for all
    pool: str = ""  # the pool of its node; empty while it is bound to none
    created_at: float = 0.0
    waits: bool = False  # it is Unschedulable, and neither gated nor nominated nor terminating
    terminating: bool = False
    ends_by: float | None = None
    """Until when a terminating pod is waited for, in unix seconds; None: without a bound."""


class Asks(Struct, frozen=True, cache_hash=True):
    """What a pod asks of its node: the spec's words, and what the live pod adds to them."""

    shape: PoolShape
    labels: frozenset[tuple[str, str]] = frozenset()
    tolerations: tuple[Toleration, ...] = ()


class Need(Struct, frozen=True, kw_only=True):
    """What the groups of a workload whose pods ask the same ask for."""

    key: str  # a hash of what the pods ask. It makes names, and decides nothing.
    asks: Asks
    most: int = 1  # slices that the workload's controller may hold now, by spec and status
    hosts: int = 1  # nodes of one pool
    ways: tuple[Way, ...] = (Way(Tier.ON_DEMAND),)
    pin: str = ""  # the key of the only slice that its pool may serve
    nodes: int | None = None
    """How many nodes the spec wants now, if GKE's autoscaler may give any number; None: slices."""
    part: bool = False  # its pods use less than half of a host
    waits_for: Decision | None = None  # why it gets nothing now
    never: Decision | None = None  # why it can never be served
    of_flavor: bool = False
    """A flavor of Kueue brings that, so with another one the need may be served."""
    apart: bool = False  # no other part of the workload waits for its pods
    loose: bool = False  # it has several slices, and nothing keeps the pods of each on one pool
    warm_seconds: int = 0  # how long its pools may stay without use after the workload is over
    flex_wait_seconds: int = 0
    """How long a flex-start pool may wait for its first node; 0: without end."""

    @property
    def elastic(self) -> bool:
        """Return whether all of its pods share one pool, which GKE's autoscaler sizes."""
        return self.nodes is not None

    def list_slots(self, most: int) -> Sequence[Slot]:
        """Return the slots that its pools may use, of those with numbers so many."""
        if self.elastic:
            return (ELASTIC_SLOT,)
        return (self.pin,) if self.pin else range(most)

    @property
    def chips(self) -> int:
        """Return the chips or GPUs of one node."""
        return max(self.asks.shape.units, 1)
