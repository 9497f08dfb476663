"""Makes the scenario of a seed: a few workloads, what is done to them, and what fails meanwhile."""

from collections.abc import Callable
from random import Random

from tests.simulation.sim_faults import GKE, OUTCOMES
from tests.simulation.sim_scenario import Act, Fault, Rollout, Scenario, Stock
from tests.simulation.sim_workloads import KINDS

LENGTH_SECONDS, GROWTH_LENGTH_SECONDS = 2400.0, 1500.0
TICK_SECONDS_MIN = 45.0
_SHAPES = {kind: row["shapes"].split() for kind, row in KINDS.items()}
_DEEDS = "delete recreate recreate evict preempt preempt degrade remove-pool relabel visitor"
"""What may be done to any workload; each kind has some more."""
_VERBS_OF_QUEUES = "evict-queued", "complete", "delete", "preempt", "restart"
_READS = ("get", "list", "get_workload", "list_bound_pods", "list_nodes", "list_workload_pods", "list_operations")
_CALLS = ("", "", "", "create", "create", "delete", "delete", "write_notice", "list_accelerator_pods", *_READS)
_OFTEN = "crash " * 4 + "lost-reply " * 3 + "late " * 2 + "stall " * 4 + "stale " * 5
_ONCE = (_OFTEN + "unavailable throttled busy denied quota cluster-not-found").split()


def make_scenario(seed: int) -> Scenario:
    """Return the scenario of a seed; the same for the same seed in every process."""
    rng = Random(f"story {seed}")
    clusters = 2 if rng.random() < 0.15 else 1
    draft = Scenario(seed, _make_acts(rng, clusters), _make_faults(rng, clusters), clusters=clusters)
    draft.ticks = [_draw(rng, 30, LENGTH_SECONDS) for _ in range(rng.randint(2, 5))]
    for stream, shares, add in _ABILITIES:
        own = Random(stream.format(seed=seed))
        if own.random() < shares[not draft.candidates]:
            add(draft, own)
    drawn = rng.random()
    draft.mode = "report-only" if drawn < 0.03 else "no-create" if drawn < 0.05 else "active"
    draft.limit_chips = rng.choice((8, 16)) if rng.random() < 0.06 else draft.limit_chips
    draft.cap = rng.randint(1, 2) if rng.random() < 0.12 else draft.cap
    draft.skew_seconds = rng.choice((120.0, 3600.0, 3600.0)) if rng.random() < 0.05 else 0.0
    _add_slowness(draft, Random(f"slowness {seed}"))
    _add_instances(draft, Random(f"instances {seed}"))
    for rows in (draft.acts, draft.faults, draft.stock):
        rows.sort(key=lambda each: each.at)
    draft.ticks = _thin(draft.ticks)
    return draft


def _add_slowness(draft: Scenario, rng: Random) -> None:
    """Let calls be slow in some stories, and GKE run few operations at one time in others."""
    slow, few = rng.random() < 0.1, rng.random() < 0.08
    draft.latency_seconds = rng.choice((1.0, 3.0, 3.0)) if slow else draft.latency_seconds
    draft.operation_slots = rng.choice((1, 2, 3)) if few else 0
    draft.says_slots = rng.random() < 0.7
    draft.check_seconds = rng.choice((600, 1800))


def _add_instances(draft: Scenario, rng: Random) -> None:
    """Let functions have several instances in one story of ten, and other settings in others."""
    several, differ = rng.random() < 0.1, rng.random() < 0.1
    for _ in range(rng.randint(1, 3) if several else 0):
        at, seconds = _draw_early(rng), rng.choice((60.0, 300.0, 900.0))
        role = rng.choice(("provision", "provision", "collect"))
        draft.rollouts.append(Rollout(at, role, seconds, rng.choice((0, 0, 1)), rng.choice((0, 0, 1, 2))))
    if differ:
        draft.collect_release, draft.collect_settings = rng.choice((0, 1)), rng.choice((0, 1, 2))


def _thin(ticks: list[float]) -> list[float]:
    """Return moments in their order, without those that follow another one at once."""
    thinned: list[float] = []
    for tick in sorted(ticks):
        if not thinned or tick - thinned[-1] >= TICK_SECONDS_MIN:
            thinned.append(tick)
    return thinned


def _draw(rng: Random, first: float, seconds: float = 1.0) -> float:
    """Return a moment in the seconds after a first one."""
    return round(first + rng.random() * seconds, 1)


def _draw_early(rng: Random, first: float = 0.0, birth: float = 0.0) -> float:
    """Return a moment between a birth and the end of the scenario, early more often than late."""
    share = float(rng.random() ** 1.5)
    return round(birth + first + share * (LENGTH_SECONDS - birth), 1)


def _add_ticks(draft: Scenario, rng: Random, until: float, step: int = 60) -> None:
    """Let ticks come at about equal distances from the first minute on."""
    draft.ticks += [_draw(rng, each) for each in range(60, int(until), step)]


# --- workloads ------------------------------------------------------------------------------------


def _make_acts(rng: Random, clusters: int) -> list[Act]:
    acts: list[Act] = []
    count = rng.choices((1, 2, 3, 6), (55, 30, 12, 3))[0]
    many, end = count > 3, _draw(rng, 600, 900)
    first = ""
    for index in range(count):
        kind = rng.choices(list(KINDS), [row["chance"] for row in KINDS.values()])[0]
        shape = rng.choice(_SHAPES[kind])
        if first in _SHAPES[kind] and rng.random() < 0.6:
            shape = first  # so that workloads can take each other's nodes
        first = first or shape
        if shape != "gpu" and rng.random() < 0.12:
            shape += "+spot" if rng.random() < 0.7 else "+spot-intolerant"
        name, cluster = f"w{index}", rng.randrange(clusters)
        at = _draw(rng, 0, 60 if index == 0 else 900)
        replicas = 1 if kind == "Pod" else rng.choices((1, 2, 3), (45, 40, 15))[0]
        birth = Act(at, "create", cluster, name, kind, shape, replicas, rng.random() < 0.4)
        acts.append(birth)
        if many:
            acts.append(Act(end, "delete", cluster, name))
        acts += _make_life(rng, birth)
    if rng.random() < 0.25:
        acts.append(_make_event(rng, rng.randrange(clusters)))
    return acts


def _make_life(rng: Random, birth: Act) -> list[Act]:
    """Return what is done to one workload during the scenario."""
    acts: list[Act] = []
    verbs = f"{_DEEDS} {KINDS[birth.kind]['verbs']}".split()
    for _ in range(rng.choices((0, 1, 2, 3), (15, 40, 30, 15))[0]):
        verb = rng.choice(verbs)
        at = _draw_early(rng, 5, birth.at)
        count = rng.randint(0, 3) if verb in ("scale", "evict", "preempt") else 0
        if verb in ("delete", "recreate"):
            count = rng.choice((1, 1, 20, 120))
        acts.append(Act(at, verb, birth.cluster, birth.name, count=count, flag=rng.random() < 0.4))
        if verb == "suspend":
            wait = rng.choice((5.0, 200.0, 320.0, 950.0, 1300.0))
            if rng.random() < 0.6:
                acts.append(Act(_draw(rng, at + wait, 10), "resume", birth.cluster, birth.name))
    return acts


def _make_event(rng: Random, cluster: int) -> Act:
    at = _draw(rng, 0, LENGTH_SECONDS)
    verb = rng.choice(("exporter-down", "exporter-down", "replay", "replay", "rubbish", "bystander"))
    return Act(at, verb, cluster, "", count=rng.choice((60, 600, 3000)), flag=rng.random() < 0.5)


# --- abilities ------------------------------------------------------------------------------------


def _add_stop(draft: Scenario, rng: Random) -> None:
    """Set the emergency stop for a while."""
    at, seconds = _draw(rng, 0, 1500), rng.choice((60, 400, 1200))
    draft.acts.append(Act(at, "stop", rng.randrange(draft.clusters), "", count=seconds, flag=rng.random() < 0.5))


def _add_blindness(draft: Scenario, rng: Random) -> None:
    """Take the right to read workloads away while a pool is empty."""
    empties = [act for act in draft.acts if act.verb in ("suspend", "restart")]
    if empties:
        act = rng.choice(empties)
        seconds = _draw(rng, 60, 600)
        draft.faults.append(Fault(round(act.at + 5, 1), "no-right", "get_workload", act.cluster, seconds))


def _add_list(draft: Scenario, rng: Random) -> None:
    """Let the operator's policy list zones."""
    draft.candidates = rng.choice((2, 3))


def _add_scarcity(draft: Scenario, rng: Random) -> None:
    """Let there be no stock for a while, with ticks each minute and messages again.

    With a list of capacity it is often a part of its zones that has none. Without one it is often a
    quota of Compute Engine, which lets each creation fail within a minute.
    """
    zones = Random(f"dry zones {draft.seed}")
    dry = zones.choice(("", "a", "ab", "b")) if draft.candidates else ""
    cluster, until = draft.acts[0].cluster, rng.choice((200.0, 500.0, 1500.0))
    soon = not draft.candidates and zones.random() < 0.6
    draft.faults.append(Fault(0.0, "no-chips" if soon else "no-stock", dry, cluster, until))
    if rng.random() < 0.3:
        draft.faults.append(Fault(_draw(rng, 0, until), "crash", "delete", cluster))
    draft.acts += [Act(_draw(rng, 100, until), "replay", cluster, "") for _ in range(3)]
    _add_ticks(draft, rng, until + 300)


def _add_doubles(draft: Scenario, rng: Random) -> None:
    """Let the first message come twice, with what makes the second one dangerous.

    With a list, GKE refuses the first candidate at once. Without one, GKE's next answer about the
    pool is stale.
    """
    at, cluster = draft.acts[0].at, draft.acts[0].cluster
    draft.faults.append(Fault(at, "duplicate", cluster=cluster, seconds=rng.choice((1.0, 3.0, 30.0))))
    stale = Fault(at, "stale", "get", cluster, 60.0)
    draft.faults.append(Fault(at, "quota", "create", cluster) if draft.candidates else stale)


def _add_stock(draft: Scenario, rng: Random) -> None:
    """Let the machines of zones come and go at any moment, with ticks meanwhile.

    At the end each zone has none, some or enough, and that lasts.
    """
    for zone in "abc"[: draft.candidates]:
        at = 0.0
        while at < LENGTH_SECONDS:
            draft.stock.append(Stock(round(at, 1), zone, rng.choice((0, 0, 1, 2, 4, 30))))
            at += 60 + rng.random() * 900
    _add_ticks(draft, rng, LENGTH_SECONDS, 120)


def _add_warmth(draft: Scenario, rng: Random) -> None:
    """Let pools stay idle, where one workload after the other wants the same.

    With a limit of chips the last workload wants another shape.
    """
    first, acts = draft.acts[0], draft.acts
    kind = first.kind if first.kind in ("RayCluster", "LeaderWorkerSet") else rng.choice(("JobSet", "Job"))
    at = first.at
    for index in range(rng.randint(1, 3)):
        ends = _draw(rng, at + 200, 600)
        verb = "complete" if kind in ("JobSet", "Job") and rng.random() < 0.5 else "delete"
        acts.append(Act(ends, verb, first.cluster, f"s{index - 1}" if index else first.name, count=1))
        at = _draw(rng, ends - 60, 400)
        pinned = kind in ("RayCluster", "LeaderWorkerSet") and rng.random() < 0.8  # their pods share one pool
        acts.append(Act(at, "create", first.cluster, f"s{index}", kind, first.shape, max(first.count, 1), pinned))
    _add_ticks(draft, rng, int(at) + 300, rng.choice((60, 60, 300)))
    draft.idle_seconds, draft.limit_chips = rng.choice((120, 600, 900)), rng.choice((0, 8, 16))
    if draft.limit_chips:
        shape, spot, rest = acts[-1].shape.partition("+")
        other = {"one": "two", "two": "one", "gpu": "one"}[shape] + spot + rest
        acts.append(Act(_draw(rng, at, 60), "create", first.cluster, "tight", "JobSet", other, 1))


def _add_growth(draft: Scenario, rng: Random) -> None:
    """Let an elastic pool grow where its zone has room for a part of it only.

    At the end each zone has none, some or enough, and that lasts.
    """
    if draft.stock:
        return
    cluster, at, first = draft.acts[0].cluster, _draw(rng, 0, 100), rng.randint(1, 3)
    kind = rng.choice(("Deployment", "Deployment", "RayCluster"))
    draft.acts.append(Act(at, "create", cluster, "grows", kind, "gpu", first))
    rows = [Stock(0.0, zone, first + rng.choice((0, 0, 1, 2)) if zone == "a" else 30) for zone in "ab"]
    for _ in range(rng.randint(1, 4)):
        verb = rng.choice(("scale", "scale", "scale", "preempt", "restart", "suspend", "remove-pool"))
        when = _draw(rng, at + 300, GROWTH_LENGTH_SECONDS)
        draft.acts.append(Act(when, verb, cluster, "grows", count=rng.randint(0, 6), flag=rng.random() < 0.3))
    draft.acts.append(Act(round(at + 400, 1), "scale", cluster, "grows", count=first + rng.randint(1, 4)))
    for _ in range(rng.randint(0, 5)):
        when = _draw(rng, 0, GROWTH_LENGTH_SECONDS)
        rows.append(Stock(when, rng.choice("ab"), rng.choice((0, 1, 2, 3, 4, 6, 30))))
    _add_ticks(draft, rng, GROWTH_LENGTH_SECONDS + 1800)
    # The policy's list is none for pods that select spot.
    if not any(act.shape.endswith(("spot", "spot-intolerant")) for act in draft.acts):
        draft.stock, draft.candidates = rows, max(draft.candidates, 2)


def _add_queue(draft: Scenario, rng: Random) -> None:
    """Let Kueue hold workloads back, with quota for so many pods."""
    at = 5.0
    for index in range(rng.randint(1, 3)):
        kind, name = rng.choice(("JobSet", "JobSet", "Job")), f"q{index}"
        shape = rng.choice(_SHAPES[kind])
        cluster = rng.randrange(draft.clusters)
        count = rng.randint(1, 3)
        draft.acts.append(Act(round(at, 1), "queue", cluster, name, kind, shape, count, rng.random() < 0.3))
        for _ in range(rng.randint(0, 2)):
            verb, when = rng.choice(_VERBS_OF_QUEUES), _draw(rng, at + 60, 1500)
            draft.acts.append(Act(when, verb, cluster, name, count=rng.randint(0, 2)))
        at += rng.random() * 300
    draft.quota_pods = rng.choice((2, 4, 8))


def _add_minutes(draft: Scenario, _rng: Random) -> None:
    """Let ticks come each minute, as in production."""
    draft.ticks = [float(each) for each in range(30, int(LENGTH_SECONDS), 60)]


def _add_tiers(draft: Scenario, rng: Random) -> None:
    """Let zones of the list be other tiers than on-demand."""
    draft.tiers = tuple(rng.choice(("", "", "reservation", "flex-start")) for _ in range(draft.candidates))


_ABILITIES: tuple[tuple[str, tuple[float, float], Callable[[Scenario, Random], None]], ...] = (
    ("stop {seed}", (0.05, 0.05), _add_stop),
    ("blindness {seed}", (0.15, 0.15), _add_blindness),
    ("story {seed} candidates", (0.37, 0.37), _add_list),
    ("scarcity {seed}", (0.5, 0.06), _add_scarcity),
    ("doubles {seed}", (0.3, 0.05), _add_doubles),
    ("stock {seed}", (0.5, 0.0), _add_stock),
    ("warmth {seed}", (0.1, 0.1), _add_warmth),
    ("growth {seed}", (0.05, 0.05), _add_growth),
    ("queue {seed}", (0.12, 0.12), _add_queue),
    ("minutes {seed}", (0.15, 0.15), _add_minutes),
    ("tiers {seed}", (0.4, 0.4), _add_tiers),
)
"""By random stream: how often a story with a fallback list has the ability, and one without."""


# --- faults ---------------------------------------------------------------------------------------


def _make_faults(rng: Random, clusters: int) -> list[Fault]:
    faults = []
    for _ in range(rng.choices((0, 1, 2, 3, 4), (18, 30, 26, 16, 10))[0]):
        at, cluster = _draw_early(rng), rng.randrange(clusters)
        drawn = rng.random()
        if drawn < 0.55:
            faults.append(_make_once(rng, at, cluster))
        elif drawn < 0.7:
            kind = rng.choice(sorted(OUTCOMES))
            faults.append(Fault(at, kind, cluster=cluster, seconds=rng.choice((0.0, 120.0, 2100.0))))
        elif drawn < 0.85:
            kind = rng.choice(("lose", "duplicate", "duplicate", "delay"))
            faults.append(Fault(at, kind, cluster=cluster, seconds=rng.choice((3.0, 60.0, 900.0))))
        else:
            faults.append(_make_window(rng, at, cluster))
    return faults


def _make_once(rng: Random, at: float, cluster: int) -> Fault:
    kind = rng.choice(_ONCE)
    method, seconds = rng.choice(_CALLS), 0.0
    if kind == "late":
        method, seconds = rng.choice(("create", "delete")), rng.choice((40.0, 600.0))
    elif kind == "stall":
        seconds = rng.choice((20.0, 90.0, 600.0))
    elif kind == "stale":
        method, seconds = rng.choice(("list", "get", "get", "")), rng.choice((5.0, 60.0, 300.0))
    elif kind in ("busy", "quota"):
        method = ""
    elif kind == "cluster-not-found":
        method = rng.choice(sorted(GKE))
    return Fault(at, kind, method, cluster, seconds)


def _make_window(rng: Random, at: float, cluster: int) -> Fault:
    seconds = _draw(rng, 30, 900)
    kind = rng.choice(("outage", "outage", "no-quota", "no-stock", "no-right", "no-right"))
    if kind == "outage":
        return Fault(at, kind, rng.choice(("gke", "kubernetes")), cluster, seconds)
    if kind == "no-right":
        return Fault(at, kind, rng.choice(("get_workload", *_READS, "delete", "create")), cluster, seconds)
    return Fault(at, kind, cluster=cluster, seconds=0.0 if rng.random() < 0.4 else seconds)
