"""What the demo observes, as plain values. Each has the moment, in unix seconds, when it was true.

Watching and polling turn answers into these; the timeline is a pure function of their sequence.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSpec:
    """One slice that a JobSet's spec asks for."""

    job: str
    pods: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSetSeen:
    """A JobSet as it is now, or that it is gone."""

    at: float
    namespace: str
    name: str
    slices: tuple[SliceSpec, ...] = ()
    terminal: str = ""
    """``Completed``, ``Failed`` or nothing."""
    suspended: bool = False
    gone: bool = False
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSeen:
    """A pod of a Job as it is now, or that it is gone."""

    at: float
    namespace: str
    name: str
    uid: str
    job: str
    index: str
    phase: str
    node: str = ""
    unschedulable: str = ""
    """The scheduler's message, or nothing."""
    restart: str = "0"
    jobset: str = ""
    plain: bool = False
    """It asks for no accelerators, so that no node pool of ours is for it."""
    selects: str = ""
    """Its node selector, for a reader."""
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    """A node of a pool as it is now, or that it is gone."""

    at: float
    name: str
    pool: str
    ready: bool = False
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePublished:
    """The exporter published a message about an object."""

    at: float
    subject: str
    observed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A function took a decision about a workload or one of its pools."""

    at: float
    function: str
    wake: str = ""
    """What woke it: ``message``, ``end`` or ``tick``."""
    decision: str
    reason: str
    message: str = ""
    namespace: str = ""
    workload: str = ""
    slot: str = ""
    """The slot of the pool: a number, or the slice's own key if the pool may serve no other."""
    pool: str = ""
    machine_type: str = ""
    node_count: int = 0
    topology: str = ""
    tier: str = ""
    reservation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """The GKE API was called, by whomever."""

    at: float
    method: str
    pool: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolsListed:
    """All node pools that GKE has at this moment: name to status."""

    at: float
    pools: dict[str, str] = field(default_factory=dict)


Observation = JobSetSeen | PodSeen | NodeSeen | MessagePublished | Decided | Called | PoolsListed
