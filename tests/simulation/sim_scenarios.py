"""A scenario: what people do, what fails, and when the ticks come; and how a seed draws one."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from random import Random
from typing import Any

import yaml

from tests.simulation.sim_workloads import KINDS

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


# --- what a seed draws ----------------------------------------------------------------------------

LENGTH_SECONDS, GROWTH_LENGTH_SECONDS = 2400.0, 1500.0
TICK_SECONDS_MIN = 45.0
CHANCES: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())


class Draw(Random):
    def happens(self, share: float) -> bool:
        return self.random() < share

    def moment(self, first: float, seconds: float) -> float:
        return round(first + self.random() * seconds, 1)

    def early(self, first: float = 0.0) -> float:
        """Return a moment between a first one and the end, early more often than late."""
        return self.moment(first, float(self.random() ** 0.5) * (LENGTH_SECONDS - first))

    def one_of(self, name: str) -> Any:
        return self.choice(CHANCES[name])

    def number(self, name: str) -> int:
        """Return a number of a list of chances, each as often as its row says."""
        shares, numbers = zip(*CHANCES[name], strict=True)
        return int(self.choices(numbers, shares)[0])


def make_scenario(seed: int) -> Scenario:
    """Return the scenario of a seed; the same for the same seed in every process."""
    draw, draft = Draw(f"story {seed}"), Scenario(seed)
    for share, name, values in CHANCES["settings"]:
        if draw.happens(share):
            setattr(draft, name, draw.choice(values))
    draft.acts, draft.faults = _make_acts(draw, draft.clusters), _make_faults(draw, draft.clusters)
    draft.ticks = [draw.moment(30, LENGTH_SECONDS) for _ in range(draw.randint(2, 5))]
    for with_list, without, add in _ABILITIES:
        own = Draw(f"{add.__name__} {seed}")  # one more leaves what others draw as it is
        if own.happens(with_list if draft.candidates else without):
            add(draft, own)
    for rows in (draft.acts, draft.faults, draft.stock):
        rows.sort(key=lambda each: each.at)
    draft.ticks = _thin(draft.ticks)
    return draft


def _thin(ticks: list[float]) -> list[float]:
    """Return moments in their order, without those that follow another one at once."""
    thinned: list[float] = []
    for tick in sorted(ticks):
        if not thinned or tick - thinned[-1] >= TICK_SECONDS_MIN:
            thinned.append(tick)
    return thinned


def _make_faults(draw: Draw, clusters: int) -> list[Fault]:
    rows = CHANCES["kinds of faults"]
    return [
        Fault(draw.early(), kind, draw.choice(methods), draw.randrange(clusters), float(draw.choice(seconds)))
        for _, kind, methods, seconds in draw.choices(rows, [row[0] for row in rows], k=draw.number("faults"))
    ]


def _make_acts(draw: Draw, clusters: int) -> list[Act]:
    acts: list[Act] = []
    count, end, first = draw.number("workloads"), draw.moment(600, 900), ""
    for index in range(count):
        kind = draw.choices(list(KINDS), [row["chance"] for row in KINDS.values()])[0]
        shapes = KINDS[kind]["shapes"].split()
        # So that workloads can take each other's nodes.
        shape = first if first in shapes and draw.happens(0.6) else draw.choice(shapes)
        first = first or shape
        if shape != "gpu" and draw.happens(0.12):
            shape += draw.choice(("+spot", "+spot", "+spot-intolerant"))
        cluster, at = draw.randrange(clusters), draw.moment(0, 900 if index else 60)
        replicas = 1 if kind == "Pod" else draw.number("replicas")
        birth = Act(at, "create", cluster, f"w{index}", kind, shape, replicas, draw.happens(0.4))
        acts.append(birth)
        if count > 3:
            acts.append(Act(end, "delete", cluster, birth.name))
        acts += _make_life(draw, birth)
    if draw.happens(0.25):
        at, number = draw.moment(0, LENGTH_SECONDS), draw.choice((60, 600, 3000))
        cluster, flag = draw.randrange(clusters), draw.happens(0.5)
        acts.append(Act(at, draw.one_of("events"), cluster, "", count=number, flag=flag))
    return acts


def _make_life(draw: Draw, birth: Act) -> list[Act]:
    """Return what is done to one workload during the scenario."""
    acts, cluster, name = list[Act](), birth.cluster, birth.name
    verbs = [*CHANCES["verbs"], *KINDS[birth.kind]["verbs"].split()]
    for _ in range(draw.number("deeds")):
        verb, at = draw.choice(verbs), draw.early(birth.at + 5)
        number = draw.choice(CHANCES["numbers"].get(verb, (0,)))
        acts.append(Act(at, verb, cluster, name, count=number, flag=draw.happens(0.4)))
        if verb == "suspend" and number:
            acts.append(Act(draw.moment(at + number, 10), "resume", cluster, name))
    return acts


# --- abilities ------------------------------------------------------------------------------------


def _add_ticks(draft: Scenario, draw: Draw, until: float, step: int = 60) -> None:
    """Let ticks come at about equal distances from the first minute on."""
    draft.ticks += [draw.moment(each, 1) for each in range(60, int(until), step)]


def _add_instances(draft: Scenario, draw: Draw) -> None:
    """Let functions have several instances, some of another release or with other settings."""
    for _ in range(draw.randint(1, 3)):
        at, seconds = draw.early(), draw.choice((60.0, 300.0, 900.0))
        role = draw.choice(("provision", "provision", "collect"))
        draft.rollouts.append(Rollout(at, role, seconds, draw.choice((0, 0, 1)), draw.choice((0, 0, 1, 2))))


def _add_stop(draft: Scenario, draw: Draw) -> None:
    """Set the emergency stop for a while."""
    at, seconds, cluster = draw.moment(0, 1500), draw.choice((60, 400, 1200)), draw.randrange(draft.clusters)
    draft.acts.append(Act(at, "stop", cluster, "", count=seconds, flag=draw.happens(0.5)))


def _add_blindness(draft: Scenario, draw: Draw) -> None:
    """Take the right to read workloads away while a pool is empty."""
    for act in [act for act in draft.acts if act.verb in ("suspend", "restart")][:1]:
        seconds = draw.moment(60, 600)
        draft.faults.append(Fault(round(act.at + 5, 1), "no-right", "get_workload", act.cluster, seconds))


def _add_scarcity(draft: Scenario, draw: Draw) -> None:
    """Let there be no stock for a while, with ticks each minute and messages again.

    With a list of capacity it is often a part of its zones that has none. Without one it is often a
    quota of Compute Engine, which lets each creation fail within a minute.
    """
    dry = draw.choice(("", "a", "ab", "b")) if draft.candidates else ""
    cluster, until = draft.acts[0].cluster, draw.choice((200.0, 500.0, 1500.0))
    kind = "no-stock" if draft.candidates or draw.happens(0.4) else "no-chips"
    draft.faults.append(Fault(0.0, kind, dry, cluster, until))
    if draw.happens(0.3):
        draft.faults.append(Fault(draw.moment(0, until), "crash", "delete", cluster))
    draft.acts += [Act(draw.moment(100, until), "replay", cluster, "") for _ in range(3)]
    _add_ticks(draft, draw, until + 300)


def _add_doubles(draft: Scenario, draw: Draw) -> None:
    """Let the first message come twice, with what makes the second one dangerous.

    With a list, GKE refuses the first candidate at once. Without one, GKE's next answer about the
    pool is stale.
    """
    at, cluster = draft.acts[0].at, draft.acts[0].cluster
    draft.faults.append(Fault(at, "duplicate", cluster=cluster, seconds=draw.choice((1.0, 3.0, 30.0))))
    stale = Fault(at, "stale", "get", cluster, 60.0)
    draft.faults.append(Fault(at, "quota", "create", cluster) if draft.candidates else stale)


def _add_stock(draft: Scenario, draw: Draw) -> None:
    """Let the machines of zones come and go at any moment, with ticks meanwhile.

    At the end each zone has none, some or enough, and that lasts.
    """
    for zone in "abc"[: draft.candidates]:
        at = 0.0
        while at < LENGTH_SECONDS:
            draft.stock.append(Stock(at, zone, draw.choice((0, 0, 1, 2, 4, 30))))
            at = draw.moment(at + 60, 900)
    _add_ticks(draft, draw, LENGTH_SECONDS, 120)


def _add_warmth(draft: Scenario, draw: Draw) -> None:
    """Let pools stay idle, where one workload after the other wants the same.

    With a limit of chips the last workload wants another shape.
    """
    first, acts = draft.acts[0], draft.acts
    shares = first.kind in ("RayCluster", "LeaderWorkerSet")  # unless pinned, their pods share one pool
    kind, cluster, at = first.kind if shares else draw.choice(("JobSet", "Job")), first.cluster, first.at
    for index in range(draw.randint(1, 3)):
        ends, verb = draw.moment(at + 200, 600), "delete" if shares else draw.choice(("complete", "delete"))
        acts.append(Act(ends, verb, cluster, f"s{index - 1}" if index else first.name, count=1))
        at, pinned = draw.moment(ends - 60, 400), shares and draw.happens(0.8)
        acts.append(Act(at, "create", cluster, f"s{index}", kind, first.shape, max(first.count, 1), pinned))
    _add_ticks(draft, draw, at + 300, draw.choice((60, 60, 300)))
    draft.idle_seconds, draft.limit_chips = draw.choice((120, 600, 900)), draw.choice((0, 8, 16))
    if draft.limit_chips:
        shape, spot, rest = first.shape.partition("+")
        other = {"one": "two", "two": "one", "gpu": "one"}[shape] + spot + rest
        acts.append(Act(draw.moment(at, 60), "create", cluster, "tight", "JobSet", other, 1))


def _add_growth(draft: Scenario, draw: Draw) -> None:
    """Let an elastic pool grow where its zone has room for a part of it only.

    At the end each zone has none, some or enough, and that lasts.
    """
    # The policy's list is none for pods that select spot.
    if draft.stock or any("spot" in act.shape for act in draft.acts):
        return
    cluster, at, first = draft.acts[0].cluster, draw.moment(0, 100), draw.randint(1, 3)
    kind = draw.choice(("Deployment", "Deployment", "RayCluster"))
    draft.acts.append(Act(at, "create", cluster, "grows", kind, "gpu", first))
    for _ in range(draw.randint(1, 4)):
        verb, when = draw.one_of("verbs of growth"), draw.moment(at + 300, GROWTH_LENGTH_SECONDS)
        number, flag = draw.randint(0, 6), draw.happens(0.3)
        draft.acts.append(Act(when, verb, cluster, "grows", count=number, flag=flag))
    draft.acts.append(Act(round(at + 400, 1), "scale", cluster, "grows", count=first + draw.randint(1, 4)))
    draft.stock += [Stock(0.0, "a", first + draw.choice((0, 0, 1, 2))), Stock(0.0, "b", 30)]
    for _ in range(draw.randint(0, 5)):
        when, hosts = draw.moment(0, GROWTH_LENGTH_SECONDS), draw.choice((0, 1, 2, 3, 4, 6, 30))
        draft.stock.append(Stock(when, draw.choice("ab"), hosts))
    _add_ticks(draft, draw, GROWTH_LENGTH_SECONDS + 1800)
    draft.candidates = max(draft.candidates, 2)


def _add_queue(draft: Scenario, draw: Draw) -> None:
    """Let Kueue hold workloads back, with quota for so many pods."""
    at = 5.0
    for index in range(draw.randint(1, 3)):
        kind, name, cluster = draw.choice(("JobSet", "JobSet", "Job")), f"q{index}", draw.randrange(draft.clusters)
        shape, count = draw.choice(KINDS[kind]["shapes"].split()), draw.randint(1, 3)
        draft.acts.append(Act(at, "queue", cluster, name, kind, shape, count, draw.happens(0.3)))
        for _ in range(draw.randint(0, 2)):
            verb, when = draw.one_of("verbs of queues"), draw.moment(at + 60, 1500)
            draft.acts.append(Act(when, verb, cluster, name, count=draw.randint(0, 2)))
        at = draw.moment(at, 300)
    draft.quota_pods = draw.choice((2, 4, 8))


def _add_minutes(draft: Scenario, _draw: Draw) -> None:
    """Let ticks come each minute, as in production."""
    draft.ticks = [float(each) for each in range(30, int(LENGTH_SECONDS), 60)]


def _add_tiers(draft: Scenario, draw: Draw) -> None:
    """Let zones of the list be other tiers than on-demand."""
    draft.tiers = tuple(draw.choice(("", "", "reservation", "flex-start")) for _ in range(draft.candidates))


_ABILITIES: tuple[tuple[float, float, Callable[[Scenario, Draw], None]], ...] = (
    (0.1, 0.1, _add_instances),
    (0.05, 0.05, _add_stop),
    (0.15, 0.15, _add_blindness),
    (0.5, 0.06, _add_scarcity),
    (0.3, 0.05, _add_doubles),
    (0.5, 0.0, _add_stock),
    (0.1, 0.1, _add_warmth),
    (0.05, 0.05, _add_growth),
    (0.12, 0.12, _add_queue),
    (0.15, 0.15, _add_minutes),
    (0.4, 0.4, _add_tiers),
)
"""How often a story with a fallback list has an ability, and one without."""
