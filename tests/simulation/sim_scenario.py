"""A scenario: what people do, what fails, and when the ticks come. A seed gives one scenario."""

from dataclasses import dataclass, field, fields

CLUSTERS = ("projects/p/locations/us-east5/clusters/a", "projects/p/locations/us-east5/clusters/b")
ZONE = "us-east5-b"
START = 1_800_000_000.0
GRACE_SECONDS = 300
DRAIN_SECONDS = 600
EVENT_SECONDS = 3600.0  # how long API servers keep Events


@dataclass(frozen=True, slots=True)
class Act:
    """Something that a person or a controller does. It is left out where it makes no sense."""

    at: float  # seconds from the start
    verb: str
    cluster: int
    name: str  # the workload's name; empty where the verb needs none
    kind: str = ""
    shape: str = ""
    count: int = 0
    flag: bool = False

    def __str__(self) -> str:
        what = " ".join(part for part in (self.kind, self.name, self.shape) if part)
        more = f" {self.count}" if self.count else ""
        return f"{self.verb} {what}{more}{' (pinned)' if self.flag else ''} in cluster {'ab'[self.cluster]}"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that fails: the next call of a method, or every call of it for some time."""

    at: float  # seconds from the start
    kind: str
    method: str = ""  # the port's method; empty for any
    cluster: int = 0
    seconds: float = 0.0
    """How long it lasts or delays, or how old an answer is; what else it means is the kind's."""

    def __str__(self) -> str:
        where = f" at {self.method}" if self.method else ""
        more = f" ({self.seconds:.0f} s)" if self.seconds else ""
        return f"{self.kind}{where}{more} in cluster {'ab'[self.cluster]}"


@dataclass(frozen=True, slots=True)
class Stock:
    """From a moment on, a zone has machines for so many hosts, in each cluster."""

    at: float  # seconds from the start
    zone: str  # the letter at the end of its name
    hosts: int


@dataclass(frozen=True, slots=True)
class Rollout:
    """For some time a function has a second instance, which may be another release."""

    at: float  # seconds from the start
    role: str
    seconds: float
    release: int = 0  # of the new instance, which stays
    settings: int = 0  # which of the settings it has


PARTS = ("acts", "faults", "stock", "rollouts", "ticks")
"""The parts of a scenario of which each row may be left out."""


@dataclass(slots=True)
class Scenario:
    """Everything that happens, apart from what follows from it."""

    seed: int = 1
    acts: list[Act] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    ticks: list[float] = field(default_factory=list)
    """When both functions are called, in seconds from the start, until the story comes to rest."""
    clusters: int = 1
    mode: str = "active"
    cap: int = 50
    limit_chips: int = 0
    candidates: int = 0  # how many zones the operator's policy lists
    tiers: tuple[str, ...] = ()  # the tier of each of these zones; by default on-demand
    stock: list[Stock] = field(default_factory=list)
    """the machines of zones. A zone without such a row has enough."""
    idle_seconds: int = 0  # how long pools may stay without use
    rollouts: list[Rollout] = field(default_factory=list)
    collect_settings: int = 0
    """Which of the settings `collect` has; `provision` begins with the first."""
    collect_release: int = 0
    latency_seconds: float = 0.4  # the longest call
    operation_slots: int = 0  # how many operations GKE runs at one time; 0: as many as come
    says_slots: bool = True  # whether GKE names that number when it refuses one more
    quota_pods: int = 0  # for how many pods Kueue's queue has quota; 0: there is no Kueue
    check_seconds: int = 1800  # for how long Kueue's check holds a part of the pools
    skew_seconds: float = 0.0  # how far the clocks of Kubernetes are ahead

    @property
    def length(self) -> float:
        """Return when the last act, fault or tick begins, in seconds from the start."""
        moments = [each.at for rows in (self.acts, self.faults, self.stock) for each in rows]
        return max((*moments, *self.ticks), default=0.0)

    def describe(self) -> list[str]:
        """Return the scenario for a person, line by line: what differs from the plain one."""
        heading = [
            f"{each.name} {value}"
            for each in fields(self)
            if each.name not in PARTS and (value := getattr(self, each.name)) != each.default
        ]
        rows = [(each.at, key, str(each)) for key in PARTS if key != "ticks" for each in getattr(self, key)]
        return [", ".join(heading), *(f"  {at:7.1f} s  {key} {text}" for at, key, text in sorted(rows))]


@dataclass(frozen=True, slots=True)
class Violation:
    """One promise that was broken."""

    invariant: str
    text: str
    at: float  # seconds from the start

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text} (at {self.at:.1f} s)"
