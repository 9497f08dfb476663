"""What one look saw of a workload, and the plan that follows from it. Values without behaviour.

Times are unix seconds; an age is measured against the `now` of the scene. A fact of None was not
read, or could not be read, and never counts as absent.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from shared.model.decisions import Reason
from shared.model.names import Owner, Slot, Try
from shared.model.needs import Asks, Need, Pod, Way
from shared.model.pools import NodePool, PoolShape, PoolStatus

__all__ = ["Asks", "Need", "Pod", "Way"]


class Word(StrEnum):
    """What GKE says of the nodes that a pool lacks."""

    NONE = ""
    CAUSE = "cause"  # GKE cannot make them, and says why
    LOST = "lost"  # they existed, and GKE has lost them


class Pool(NodePool, frozen=True, kw_only=True):
    """One node pool of the workload, as GKE lists it, with what was read of its nodes."""

    owner: Owner = Owner()  # as the list derives it, and the following two
    shape: PoolShape
    node_labels: dict[str, str]
    busy: bool = False  # it may be in use: not all of its nodes could be read
    ready: int = 0  # Ready nodes
    nodes: int = 0  # all of its nodes
    ready_since: float | None = None
    """Since when its youngest node is Ready; None without a Ready node."""
    word: Word | None = Word.NONE  # None: it was not read
    word_at: float = 0.0
    cause: str = ""  # GKE's own words about the nodes that it lacks
    machines: int | None = 0
    """How many machines GKE has made or makes for it; None: it was not read."""
    users_read: bool = True  # the pods of others on its nodes are in the scene
    spare_before: bool = False  # the tick before this one found it too many
    idle_since: float | None = None  # by the taint of a warm pool
    closed_since: float | None = None

    @property
    def at_rest(self) -> bool:
        """Return whether it may be changed at all: GKE works on no other change."""
        at_rest = (PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR, PoolStatus.ERROR)
        return not self.busy and self.status in at_rest


class Stop(StrEnum):
    """What the label of a namespace forbids."""

    NOTHING = ""
    CREATES = "no-create"
    EVERYTHING = "report-only"


class PoolOperation(Struct, frozen=True, kw_only=True):
    """One create or delete of a pool of this workload in GKE's operations, of the last hour."""

    need: str
    slot: Slot
    creates: bool = True
    attempt: int = 0
    useless: int = 0  # how many pools of its slot before it had helped nobody, by its name
    began_at: float = 0.0  # unix seconds
    failed: bool = False  # it ended in an error
    pending: bool = False
    """A create whose pool the list of pools does not show yet; it may still come."""


class Scene(Struct, frozen=True, kw_only=True):
    """What one look saw of one workload."""

    now: float
    needs: tuple[Need, ...] = ()
    pods: tuple[Pod, ...] = ()
    pools: tuple[Pool, ...] = ()
    over: bool = False
    owner_known: bool = True
    owner_created_at: float | None = None  # None: it does not say
    suspended_since: float | None = None  # None: it is not suspended
    queued: bool = False  # it is suspended, and Kueue holds quota for it until our check is Ready
    quota_lost_at: float = 0.0
    retried: bool = False  # our check said Retry since its quota was reserved
    part_held_since: float | None = None  # since when Kueue's check has a part of its pools
    part_seconds: int = 900  # for how long it is held
    room: int = 10**9  # chips that the limits leave beside all pools that are listed and sent
    slots: int = 20  # free operation slots of GKE
    stop: Stop = Stop.NOTHING
    refused: frozenset[Way] = frozenset()  # ways that GKE refused at once a moment ago
    operations: tuple[PoolOperation, ...] | None = ()  # None: they were not read
    takers_served: bool = False
    """A workload whose pods are on a pool of this one has a pool on its way."""
    parent_over: bool = False
    autoscaled: int = 0  # how many pools of the cluster GKE's autoscaler fills
    creation_seconds: int = 3600  # how long a pool may lack nodes without a word of GKE
    grace_seconds: int = 300  # how long a suspended workload keeps its pools


class Verb(StrEnum):
    """What is done to a pool. The first three add, the others take away."""

    CREATE = "create"
    RAISE = "raise"
    OPEN = "open"
    LOWER = "lower"  # to 0: GKE's autoscaler gives the pool no node any more
    MARK = "mark"
    CLOSE = "close"
    DELETE = "delete"


class Act(Try, frozen=True, kw_only=True):
    """One change of one pool."""

    verb: Verb
    pool: str = ""  # its name; empty for a create, whose name follows from need, slot and attempt
    need: str = ""
    slot: Slot = 0
    empty: bool = False  # GKE's autoscaler makes the nodes
    maximum: int = 0


class Answer(Struct, frozen=True):
    """What the owner of the workload is told."""

    reason: Reason
    need: str = ""
    pool: str = ""
    slices: str = ""  # their names


class Fact(StrEnum):
    """What a plan may ask for."""

    OPERATIONS = "operations"
    MACHINES = "machines"  # what keeps machines away from a pool
    USERS = "users"


class Ask(Struct, frozen=True):
    """One fact that a plan rests on and that was not read."""

    fact: Fact
    pool: str = ""


class Plan(Struct, frozen=True, kw_only=True):
    """The acts of both functions, and what their owner is told."""

    asks: tuple[Ask, ...] = ()  # what must be read before the plan holds; then it has no acts
    adds: tuple[Act, ...] = ()
    takes: tuple[Act, ...] = ()
    answers: tuple[Answer, ...] = ()
    spare: frozenset[str] = frozenset()
    """The pools that are too many: the next tick may take them away."""
