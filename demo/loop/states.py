"""The states of slices and workloads that the timeline keeps, and the lines that it tells.

Plain data with derived properties; what changes them is `demo.loop.timeline`.
"""

from dataclasses import dataclass, field

from demo.loop.observations import Decided, PodSeen
from demo.loop.steps import Step


@dataclass(slots=True)
class NodeLife:
    """How long one node of a pool was there, in unix seconds."""

    pool: str
    began_at: float
    ready_at: float | None = None
    ended_at: float | None = None
    """None while it is there."""


@dataclass(slots=True)
class Stay:
    """A time in which something held, in unix seconds."""

    start: float
    end: float | None = None
    pool: str = ""

    def holds(self, at: float) -> bool:
        """Return whether a moment is in it."""
        return self.start <= at and (self.end is None or at < self.end)


def note_stay(stays: list[Stay], at: float, *, holds: bool, pool: str = "") -> None:
    """Begin a stay if something holds now and did not before, or end the one that goes on."""
    current = stays[-1] if stays and stays[-1].end is None else None
    if holds and current is None:
        stays.append(Stay(at, pool=pool))
    elif not holds and current is not None:
        current.end = max(at, current.start)


@dataclass(slots=True)
class SliceTimeline:
    """Everything known about one slice."""

    namespace: str
    workload: str
    job: str
    pods: int
    steps: dict[Step, float] = field(default_factory=dict)
    pools: list[str] = field(default_factory=list)
    """Every pool that was created for it, the newest last."""
    leader_pool: str = ""
    """The pool that its leader runs on, which may be another slice's."""
    creation: Decided | None = None
    decisions: list[Decided] = field(default_factory=list)
    scheduler_message: str = ""
    leader_phase: str = ""
    live_pods: dict[str, PodSeen] = field(default_factory=dict)
    runs: list[Stay] = field(default_factory=list)
    """When all of its pods ran, or were done."""
    finished: bool = False
    """Whether all of its pods succeeded, and none was made since."""
    bindings: list[Stay] = field(default_factory=list)
    """When its leader had a node, and of which pool."""
    mixed: tuple[str, ...] = ()
    """The pools on which its pods ran at one time, if they were several."""

    @property
    def pool(self) -> str:
        """The pool that was made for it, else the one that its leader runs on, or nothing."""
        return self.pools[-1] if self.pools else self.leader_pool

    @property
    def shares_pool(self) -> bool:
        """Whether it runs on a pool that was made for another slice."""
        return not self.pools and bool(self.leader_pool)

    @property
    def active(self) -> bool:
        """Whether something goes on: a pool is being made for it, or its leader runs."""
        waits_for_pool = bool(self.pools) and self.leader_phase not in ("Succeeded", "Failed")
        leader = self.live_leader
        runs = leader is not None and bool(leader.node) and leader.phase in ("Pending", "Running")
        return waits_for_pool or runs

    @property
    def refusal(self) -> Decided | None:
        """The last decision of `provision`, when it was to refuse."""
        asked = [each for each in self.decisions if each.function == "provision"]
        return asked[-1] if asked and asked[-1].decision == "refuse" else None

    @property
    def unserved(self) -> bool:
        """Whether its leader waits for a node."""
        leader = self.live_leader
        return leader is not None and bool(leader.unschedulable) and not leader.node

    @property
    def live_leader(self) -> PodSeen | None:
        """The leader pod that exists now."""
        return next((pod for pod in self.live_pods.values() if pod.index == "0"), None)


@dataclass(slots=True)
class WorkloadTimeline:
    """Everything known about one JobSet."""

    namespace: str
    name: str
    terminal: str = ""
    gone: bool = False
    ended_at: float | None = None
    """When it was seen first that it is over."""
    suspended: bool = False
    message: str = ""
    messages: int = 0
    demands: list[float] = field(default_factory=list)
    """When the exporter published that leaders of it wait."""
    progress_at: float = 0.0
    """When something about it last changed."""

    @property
    def over(self) -> bool:
        """Whether nothing more will run."""
        return bool(self.terminal) or self.gone


@dataclass(frozen=True, slots=True)
class FeedLine:
    """One line for a reader, when it happened, and whom it concerns."""

    at: float
    who: str
    text: str
    emphasis: str = ""
    """``good``, ``bad`` or nothing."""
