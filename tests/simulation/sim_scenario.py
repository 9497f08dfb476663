"""A scenario: what people do, what fails, and when the sweep runs. A seed gives one scenario."""

from dataclasses import dataclass

CLUSTERS = ("projects/p/locations/us-east5/clusters/a", "projects/p/locations/us-east5/clusters/b")
ZONE = "us-east5-b"
START = 1_800_000_000.0
GRACE_SECONDS = 300
DRAIN_SECONDS = 900
EVENT_SECONDS = 3600.0
"""How long API servers keep Events."""


@dataclass(frozen=True, slots=True)
class Act:
    """Something that a person or a controller does. It is left out where it makes no sense."""

    at: float
    """Seconds from the start."""
    verb: str
    cluster: int
    name: str
    """The workload's name; empty where the verb needs none."""
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

    at: float
    """Seconds from the start."""
    kind: str
    method: str = ""
    """The port's method; empty for any."""
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

    at: float
    """Seconds from the start."""
    zone: str
    """The letter at the end of its name."""
    hosts: int

    def __str__(self) -> str:
        return f"zone {self.zone} has room for {self.hosts} hosts"


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that happens, apart from what follows from it."""

    seed: int = 1
    acts: tuple[Act, ...] = ()
    faults: tuple[Fault, ...] = ()
    sweeps: tuple[float, ...] = ()
    """When the sweep runs, in seconds from the start, until the scenario comes to rest."""
    clusters: int = 1
    mode: str = "active"
    cap: int = 50
    limit_chips: int = 0
    candidates: int = 0
    """How many zones the operator's policy lists."""
    sources: tuple[str, ...] = ()
    """What makes the nodes in each of these zones: creation, autoscaler, or as it is by default. Or
    the zone's machines are a reservation."""
    autoscaled_max: int = 150
    """With so many autoscaled pools, new ones are created with their nodes."""
    stock: tuple[Stock, ...] = ()
    """The machines of zones. A zone without such a row has enough."""
    idle_seconds: int = 0
    """How long pools may stay without use."""
    versions: int = 1
    """How many versions of the product answer, each with its own fingerprint."""
    skew_seconds: float = 0.0
    """How far the clocks of Kubernetes are ahead."""

    @property
    def length(self) -> float:
        """Return when the last act, fault or sweep begins, in seconds from the start."""
        moments = [each.at for found in (self.acts, self.faults, self.stock) for each in found]
        return max((*moments, *self.sweeps), default=0.0)

    def describe(self) -> list[str]:
        """Return the scenario for a person, line by line."""
        heading = [f"scenario {self.seed}: {self.clusters} cluster(s), mode {self.mode}"]
        sources = f" ({', '.join(each or 'default' for each in self.sources)})" if self.sources else ""
        heading += [
            text
            for holds, text in (
                (self.cap < 50, f"sweep_deletions_max {self.cap}"),
                (self.limit_chips, f"limit_chips {self.limit_chips}"),
                (self.candidates, f"{self.candidates} candidates{sources}"),
                (self.autoscaled_max < 150, f"autoscaled_pools_max {self.autoscaled_max}"),
                (self.idle_seconds, f"idle_seconds {self.idle_seconds}"),
                (self.versions > 1, "two versions side by side"),
                (self.skew_seconds, f"the clock of Kubernetes is {self.skew_seconds:+.0f} s off"),
            )
            if holds
        ]
        rows = [(each.at, "act  ", str(each)) for each in self.acts]
        rows += [(each.at, "fault", str(each)) for each in self.faults]
        rows += [(each.at, "stock", str(each)) for each in self.stock]
        rows += [(at, "sweep", "") for at in self.sweeps]
        return [", ".join(heading), *(f"  {at:7.1f} s  {what} {text}".rstrip() for at, what, text in sorted(rows))]
