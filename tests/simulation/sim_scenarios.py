"""Makes the scenario of a seed: a few workloads, what is done to them, and what fails meanwhile."""

from dataclasses import replace
from random import Random

from tests.simulation.sim_acts import ENDING, RESTARTED, SCALED, SUSPENDED
from tests.simulation.sim_faults import GKE, OUTCOMES
from tests.simulation.sim_scenario import Act, Fault, Rollout, Scenario, Stock

LENGTH_SECONDS = 2400.0
TICK_SECONDS_MIN = 45.0
STOPPED_SHARE = 0.05
BLIND_SHARE = 0.15
LIST_SHARE = 0.37
TIERS_SHARE, FEW_SHARE, SLOW_SHARE = 0.4, 0.08, 0.1
SEVERAL_SHARE, DIFFER_SHARE = 0.1, 0.1
QUEUE_SHARE, MINUTES_SHARE = 0.12, 0.15
REFUSED_SHARE, STALE_SHARE = 0.3, 0.05
SCARCE_SHARE = 0.06
STOCK_SHARE = 0.5
QUOTA_SHARE = 0.6
WARM_SHARE = 0.1
GROWTH_SHARE, GROWTH_LENGTH_SECONDS = 0.05, 1500.0
_KINDS = (
    ("JobSet", 30),
    ("RayCluster", 20),
    ("LeaderWorkerSet", 15),
    ("Job", 12),
    ("Deployment", 10),
    ("StatefulSet", 6),
    ("Pod", 7),
)
_SHAPES = {
    "JobSet": ("one", "two", "two", "gpu"),
    "RayCluster": ("one", "two", "gpu"),
    "LeaderWorkerSet": ("one", "two", "two"),
    "Job": ("one", "two", "gpu"),
    "Deployment": ("one", "gpu"),
    "StatefulSet": ("one", "two", "gpu"),
    "Pod": ("one", "one", "two", "gpu"),
}
_READS = ("get", "list", "get_workload", "list_bound_pods", "list_nodes", "list_workload_pods", "list_operations")
_CALLS = ("", "", "", "create", "create", "delete", "delete", "write_notice", "list_accelerator_pods", *_READS)
_ONCE = (
    *("crash",) * 4,
    *("lost-reply",) * 3,
    *("late",) * 2,
    *("stall",) * 4,
    *("stale",) * 5,
    "unavailable",
    "throttled",
    "busy",
    "denied",
    "quota",
    "cluster-not-found",
)


def make_scenario(seed: int) -> Scenario:
    """Return the scenario of a seed; the same for the same seed in every process."""
    rng = Random(f"story {seed}")
    clusters = 2 if rng.random() < 0.15 else 1
    acts = _make_acts(rng, clusters) + _make_stop(seed, clusters)
    faults = _make_faults(rng, clusters) + _make_blindness(seed, acts)
    ticks = [_round(30 + rng.random() * LENGTH_SECONDS) for _ in range(rng.randint(2, 5))]
    rng_of_list = Random(f"story {seed} candidates")
    candidates = rng_of_list.choice((2, 3)) if rng_of_list.random() < LIST_SHARE else 0
    _add_scarcity(seed, acts, faults, ticks, candidates)
    faults += _make_doubles(seed, acts[0], candidates)
    stock = _make_stock(seed, candidates, ticks)
    idle_seconds, tight = _add_warmth(seed, acts, ticks)
    narrow = () if stock else _add_growth(seed, acts, ticks)
    if narrow and not any(act.shape.endswith(("spot", "spot-intolerant")) for act in acts):
        stock, candidates = narrow, max(candidates, 2)  # the policy's list is none for pods that select spot
    drawn = rng.random()
    mode = "report-only" if drawn < 0.03 else "no-create" if drawn < 0.05 else "active"
    limit = rng.choice((8, 16)) if rng.random() < 0.06 else tight
    queue = _add_queue(seed, acts, clusters)
    if Random(f"minutes {seed}").random() < MINUTES_SHARE:
        ticks = [_round(each) for each in range(30, int(LENGTH_SECONDS), 60)]
    scenario = Scenario(
        seed=seed,
        acts=tuple(sorted(acts, key=lambda act: act.at)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        ticks=_thin(ticks),
        clusters=clusters,
        mode=mode,
        cap=rng.randint(1, 2) if rng.random() < 0.12 else 50,
        limit_chips=limit,
        candidates=candidates,
        tiers=_draw_tiers(seed, candidates),
        stock=stock,
        idle_seconds=idle_seconds,
        skew_seconds=rng.choice((120.0, 3600.0, 3600.0)) if rng.random() < 0.05 else 0.0,
        quota_pods=queue,
    )
    return _add_instances(_add_slowness(scenario))


def _add_slowness(scenario: Scenario) -> Scenario:
    """Let calls be slow in some stories, and GKE run few operations at one time in others."""
    rng = Random(f"slowness {scenario.seed}")
    slow, few = rng.random() < SLOW_SHARE, rng.random() < FEW_SHARE
    return replace(
        scenario,
        latency_seconds=rng.choice((1.0, 3.0, 3.0)) if slow else 0.4,
        operation_slots=rng.choice((1, 2, 3)) if few else 0,
        says_slots=rng.random() < 0.7,
        check_seconds=rng.choice((600, 1800)),
    )


def _add_instances(scenario: Scenario) -> Scenario:
    """Let functions have several instances in one story of ten, and other settings in others."""
    rng = Random(f"instances {scenario.seed}")
    several, differ = rng.random() < SEVERAL_SHARE, rng.random() < DIFFER_SHARE
    rollouts = []
    for _ in range(rng.randint(1, 3) if several else 0):
        at, seconds = _round(rng.random() ** 1.5 * LENGTH_SECONDS), rng.choice((60.0, 300.0, 900.0))
        role = rng.choice(("provision", "provision", "collect"))
        rollouts.append(Rollout(at, role, seconds, rng.choice((0, 0, 1)), rng.choice((0, 0, 1, 2))))
    release = rng.choice((0, 1)) if differ else 0
    return replace(
        scenario,
        rollouts=tuple(rollouts),
        collect_settings=rng.choice((0, 1, 2)) if differ else 0,
        collect_release=release,
    )


def _add_queue(seed: int, acts: list[Act], clusters: int) -> int:
    """Let Kueue hold workloads back in some stories; return for how many pods it has quota."""
    rng = Random(f"queue {seed}")
    if rng.random() >= QUEUE_SHARE:
        return 0
    at = 5.0
    for index in range(rng.randint(1, 3)):
        kind, name = rng.choice(("JobSet", "JobSet", "Job")), f"q{index}"
        shape = rng.choice(_SHAPES[kind])
        cluster = rng.randrange(clusters)
        count = rng.randint(1, 3)
        acts.append(Act(_round(at), "queue", cluster, name, kind, shape, count, rng.random() < 0.3))
        for _ in range(rng.randint(0, 2)):
            verb = rng.choice(("evict-queued", "complete", "delete", "preempt", "restart"))
            acts.append(Act(_round(at + 60 + rng.random() * 1500), verb, cluster, name, count=rng.randint(0, 2)))
        at += rng.random() * 300
    return rng.choice((2, 4, 8))


def _thin(ticks: list[float]) -> tuple[float, ...]:
    """Return moments in their order, without those that follow another one at once."""
    thinned: list[float] = []
    for tick in sorted(ticks):
        if not thinned or tick - thinned[-1] >= TICK_SECONDS_MIN:
            thinned.append(tick)
    return tuple(thinned)


def _round(seconds: float) -> float:
    return round(seconds, 1)


def _make_acts(rng: Random, clusters: int) -> list[Act]:
    acts: list[Act] = []
    count = rng.choices((1, 2, 3, 6), (55, 30, 12, 3))[0]
    many = count > 3
    end = _round(600 + rng.random() * 900)
    first = ""
    for index in range(count):
        kind = rng.choices([name for name, _ in _KINDS], [weight for _, weight in _KINDS])[0]
        shape = rng.choice(_SHAPES[kind])
        if first in _SHAPES[kind] and rng.random() < 0.6:
            shape = first  # so that workloads can take each other's nodes
        first = first or shape
        if shape != "gpu" and rng.random() < 0.12:
            shape += "+spot" if rng.random() < 0.7 else "+spot-intolerant"
        name, cluster = f"w{index}", rng.randrange(clusters)
        at = _round(rng.random() * (60 if index == 0 else 900))
        replicas = 1 if kind == "Pod" else rng.choices((1, 2, 3), (45, 40, 15))[0]
        acts.append(Act(at, "create", cluster, name, kind, shape, replicas, rng.random() < 0.4))
        if many:
            acts.append(Act(end, "delete", cluster, name))
        acts += _make_life(rng, acts[index * 2 if many else -1])
    if rng.random() < 0.25:
        acts.append(_make_event(rng, rng.randrange(clusters)))
    return acts


def _make_life(rng: Random, birth: Act) -> list[Act]:
    """Return what is done to one workload during the scenario."""
    kind, acts = birth.kind, []
    verbs = ["delete", "recreate", "recreate", "evict", "preempt", "preempt", "degrade", "remove-pool"]
    verbs += ["relabel", "visitor"]
    if kind in SUSPENDED:
        verbs += ["suspend", "suspend", "resume"]
    if kind in ENDING:
        verbs += ["complete", "complete"]
    if kind in SCALED:
        verbs += ["scale", "scale", "scale", "respec"]
    if kind in RESTARTED:
        verbs += ["restart", "restart"]
    if kind == "JobSet":
        verbs += ["go-pool", "finish-slice", "static-pool"]
    for _ in range(rng.choices((0, 1, 2, 3), (15, 40, 30, 15))[0]):
        verb = rng.choice(verbs)
        at = _round(birth.at + 5 + rng.random() ** 1.5 * (LENGTH_SECONDS - birth.at))
        count = rng.randint(0, 3) if verb in ("scale", "evict", "preempt") else 0
        if verb in ("delete", "recreate"):
            count = rng.choice((1, 1, 20, 120))
        acts.append(Act(at, verb, birth.cluster, birth.name, count=count, flag=rng.random() < 0.4))
        if verb == "suspend":
            wait = rng.choice((5.0, 200.0, 320.0, 950.0, 1300.0))
            if rng.random() < 0.6:
                acts.append(Act(_round(at + wait + rng.random() * 10), "resume", birth.cluster, birth.name))
    return acts


def _make_event(rng: Random, cluster: int) -> Act:
    at = _round(rng.random() * LENGTH_SECONDS)
    verb = rng.choice(("exporter-down", "exporter-down", "replay", "replay", "rubbish", "bystander"))
    return Act(at, verb, cluster, "", count=rng.choice((60, 600, 3000)), flag=rng.random() < 0.5)


def _make_stop(seed: int, clusters: int) -> list[Act]:
    """Return the emergency stop of some scenarios."""
    rng = Random(f"stop {seed}")
    if rng.random() >= STOPPED_SHARE:
        return []
    at, seconds = _round(rng.random() * 1500), rng.choice((60, 400, 1200))
    return [Act(at, "stop", rng.randrange(clusters), "", count=seconds, flag=rng.random() < 0.5)]


def _make_faults(rng: Random, clusters: int) -> list[Fault]:
    faults = []
    for _ in range(rng.choices((0, 1, 2, 3, 4), (18, 30, 26, 16, 10))[0]):
        at, cluster = _round(rng.random() ** 1.5 * LENGTH_SECONDS), rng.randrange(clusters)
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


def _make_blindness(seed: int, acts: list[Act]) -> list[Fault]:
    """Return the loss of the right to read workloads, in some scenarios while a pool is empty."""
    rng = Random(f"blindness {seed}")
    empties = [act for act in acts if act.verb in ("suspend", "restart")]
    if not empties or rng.random() >= BLIND_SHARE:
        return []
    act = rng.choice(empties)
    return [Fault(_round(act.at + 5), "no-right", "get_workload", act.cluster, _round(60 + rng.random() * 600))]


def _make_doubles(seed: int, birth: Act, candidates: int) -> list[Fault]:
    """Let the first message come twice in some scenarios, with what makes the second one dangerous.

    With a list, GKE refuses the first candidate at once. Without one, GKE's next answer about the
    pool is stale.
    """
    rng = Random(f"doubles {seed}")
    if rng.random() >= (REFUSED_SHARE if candidates else STALE_SHARE):
        return []
    again = Fault(birth.at, "duplicate", cluster=birth.cluster, seconds=rng.choice((1.0, 3.0, 30.0)))
    if candidates:
        return [again, Fault(birth.at, "quota", "create", birth.cluster)]
    return [again, Fault(birth.at, "stale", "get", birth.cluster, 60.0)]


def _add_scarcity(seed: int, acts: list[Act], faults: list[Fault], ticks: list[float], candidates: int) -> None:
    """Let some scenarios have no stock for a while, with ticks each minute and messages again.

    With a list of capacity it is often a part of its zones that has none. Without one it is often a
    quota of Compute Engine, which lets each creation fail within a minute.
    """
    rng, rng_of_zones = Random(f"scarcity {seed}"), Random(f"dry zones {seed}")
    if rng.random() >= (0.5 if candidates else SCARCE_SHARE):
        return
    dry = rng_of_zones.choice(("", "a", "ab", "b")) if candidates else ""
    cluster, until = acts[0].cluster, rng.choice((200.0, 500.0, 1500.0))
    soon = not candidates and rng_of_zones.random() < QUOTA_SHARE
    faults.append(Fault(0.0, "no-chips" if soon else "no-stock", dry, cluster, until))
    if rng.random() < 0.3:
        faults.append(Fault(_round(rng.random() * until), "crash", "delete", cluster))
    acts += [Act(_round(100 + rng.random() * until), "replay", cluster, "") for _ in range(3)]
    ticks += [_round(each + rng.random()) for each in range(60, int(until) + 300, 60)]


def _make_stock(seed: int, candidates: int, ticks: list[float]) -> tuple[Stock, ...]:
    """Let the machines of some scenarios' zones come and go at any moment, with ticks meanwhile.

    At the end each zone has none, some or enough, and that lasts.
    """
    rng = Random(f"stock {seed}")
    if not candidates or rng.random() >= STOCK_SHARE:
        return ()
    rows = []
    for zone in "abc"[:candidates]:
        at = 0.0
        while at < LENGTH_SECONDS:
            rows.append(Stock(_round(at), zone, rng.choice((0, 0, 1, 2, 4, 30))))
            at += 60 + rng.random() * 900
    ticks += [_round(each + rng.random()) for each in range(60, int(LENGTH_SECONDS), 120)]
    return tuple(sorted(rows, key=lambda each: each.at))


def _draw_tiers(seed: int, candidates: int) -> tuple[str, ...]:
    """Return the tier of each zone of a list; in most stories with one, each is on-demand."""
    rng = Random(f"tiers {seed}")
    if rng.random() >= TIERS_SHARE:
        return ()
    return tuple(rng.choice(("", "", "reservation", "flex-start")) for _ in range(candidates))


def _add_warmth(seed: int, acts: list[Act], ticks: list[float]) -> tuple[int, int]:
    """Let pools stay idle in some scenarios, where one workload after the other wants the same.

    Return for how long, and the limit of chips: with one, the last workload wants another shape.
    """
    rng = Random(f"warmth {seed}")
    if rng.random() >= WARM_SHARE:
        return 0, 0
    first = acts[0]
    kind = first.kind if first.kind in ("RayCluster", "LeaderWorkerSet") else rng.choice(("JobSet", "Job"))
    at = first.at
    for index in range(rng.randint(1, 3)):
        ends = _round(at + 200 + rng.random() * 600)
        verb = "complete" if kind in ENDING and rng.random() < 0.5 else "delete"
        acts.append(Act(ends, verb, first.cluster, f"s{index - 1}" if index else first.name, count=1))
        at = _round(ends + rng.random() * 400 - 60)
        pinned = kind in ("RayCluster", "LeaderWorkerSet") and rng.random() < 0.8  # their pods share one pool
        acts.append(Act(at, "create", first.cluster, f"s{index}", kind, first.shape, max(first.count, 1), pinned))
    ticks += [_round(each + rng.random()) for each in range(60, int(at) + 300, rng.choice((60, 60, 300)))]
    idle_seconds, tight = rng.choice((120, 600, 900)), rng.choice((0, 8, 16))
    if tight:
        shape, spot, rest = acts[-1].shape.partition("+")
        other = {"one": "two", "two": "one", "gpu": "one"}[shape] + spot + rest
        acts.append(Act(_round(at + rng.random() * 60), "create", first.cluster, "tight", "JobSet", other, 1))
    return idle_seconds, tight


def _add_growth(seed: int, acts: list[Act], ticks: list[float]) -> tuple[Stock, ...]:
    """Let an elastic pool grow in some scenarios where its zone has room for a part of it only.

    Return the machines of zones. At the end each zone has none, some or enough, and that lasts.
    """
    rng = Random(f"growth {seed}")
    if rng.random() >= GROWTH_SHARE:
        return ()
    cluster, at, first = acts[0].cluster, _round(rng.random() * 100), rng.randint(1, 3)
    kind = rng.choice(("Deployment", "Deployment", "RayCluster"))
    acts.append(Act(at, "create", cluster, "grows", kind, "gpu", first))
    rows = [Stock(0.0, zone, first + rng.choice((0, 0, 1, 2)) if zone == "a" else 30) for zone in "ab"]
    for _ in range(rng.randint(1, 4)):
        verb = rng.choice(("scale", "scale", "scale", "preempt", "restart", "suspend", "remove-pool"))
        when = _round(at + 300 + rng.random() * GROWTH_LENGTH_SECONDS)
        acts.append(Act(when, verb, cluster, "grows", count=rng.randint(0, 6), flag=rng.random() < 0.3))
    acts.append(Act(_round(at + 400), "scale", cluster, "grows", count=first + rng.randint(1, 4)))
    for _ in range(rng.randint(0, 5)):
        when = _round(rng.random() * GROWTH_LENGTH_SECONDS)
        rows.append(Stock(when, rng.choice("ab"), rng.choice((0, 1, 2, 3, 4, 6, 30))))
    ticks += [_round(each + rng.random()) for each in range(60, int(GROWTH_LENGTH_SECONDS) + 1800, 60)]
    return tuple(sorted(rows, key=lambda each: each.at))


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
    seconds = _round(30 + rng.random() * 900)
    kind = rng.choice(("outage", "outage", "no-quota", "no-stock", "no-right", "no-right"))
    if kind == "outage":
        return Fault(at, kind, rng.choice(("gke", "kubernetes")), cluster, seconds)
    if kind == "no-right":
        return Fault(at, kind, rng.choice(("get_workload", *_READS, "delete", "create")), cluster, seconds)
    return Fault(at, kind, cluster=cluster, seconds=0.0 if rng.random() < 0.4 else seconds)
