"""The scenes of the plan, each with the acts of both functions and the answers.

A row is written in ages and in hosts: a pool is named by its slot and attempt, ``0.1``.
`build_scene` makes of it what a look sees.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from shared.model.decisions import Decision, Reason, Verdict
from shared.model.needs import Tier
from shared.model.pools import PoolShape, PoolStatus
from shared.model.workloads import Taint
from shared.plan import scene as model

NOW = 1_000_000.0
AN_AGE = 5000
NO_NEED = -2
TIERS = {"demand": Tier.ON_DEMAND, "spot": Tier.SPOT, "flex": Tier.FLEX_START, "reservation": Tier.RESERVATION}


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True)
class Pod:
    slice: object
    pool: str = ""
    age: int = 400
    held: str = ""
    """Why an unbound pod does not wait: gated, nominated, terminating, young."""
    asks: frozenset[str] = words("")
    shape: str = "tpu"
    ours: bool = True
    group: int = -1
    """Which of the needs it is of; -1: the first of its shape, -2: none that the spec has."""
    overdue: bool = False
    """It terminates for longer than it may."""


@dataclass(frozen=True)
class Pool:
    slot: int | str | None = 0
    attempt: int = 0
    state: str = "RUNNING"
    nodes: int = 4
    candidate: int = 0
    age: int = AN_AGE
    ready: int = AN_AGE
    word: str = ""
    error: int = 0
    labels: frozenset[str] = words("")
    key: str = "k1"
    shape: str = "tpu"
    hosts: int = 4
    owner: str = "ours"
    autoscaled: bool = False
    maximum: int = 4
    busy: bool = False
    round: int = 0
    useless: int = 0
    spare_before: bool = True
    idle: int = -1
    closed: int = -1
    warm: int = 0
    taint: str = ""
    machines: int | None = 0
    """How many GKE has made or makes; None: it gave no answer."""
    unread: str = ""
    """What was not read of it: word, users."""

    @property
    def name(self) -> str:
        return self.owner if self.slot is None else f"{self.slot}.{self.attempt}"


@dataclass(frozen=True)
class Need:
    most: int = 1
    list: tuple[str, ...] = ("demand",)
    asks: frozenset[str] = words("")
    key: str = "k1"
    shape: str = "tpu"
    hosts: int = 4
    pin: str = ""
    wants: int = -1
    part: bool = False
    waits_for: str = ""
    never: str = ""
    of_flavor: bool = False
    apart: bool = False
    wait: int = 0
    """For how long a flex-start pool may wait."""


@dataclass(frozen=True)
class Scene:
    needs: tuple[Need, ...] = (Need(),)
    pods: tuple[Pod, ...] = ()
    pools: tuple[Pool, ...] = ()
    over: bool = False
    unknown: bool = False
    owner_age: int = 0
    """Of the workload; 0: it does not say."""
    suspended: int = -1
    queue: str = ""
    quota_lost: int = 10**6
    retried: bool = False
    part_held: int = 0
    limit: int = 10**6
    used: int = 0
    slots: int = 20
    stop: str = ""
    refused: tuple[int, ...] = ()
    operations: tuple[tuple[int, ...], ...] | None = ()
    """Creates: slot, attempt, age. None: they were not read."""
    operation_state: str = ""
    """Of all creates: stands, failed; empty for those whose pool was deleted."""
    deletions: tuple[tuple[int, ...], ...] = ()
    """Slot, how many useless pools came before it, age, attempt."""
    refused_useless: bool = False
    takers_served: bool = False
    parent_over: bool = False
    warm: bool = False
    autoscaled: int = 0


def build_scene(row: Scene) -> model.Scene:
    """Return what a look sees of a row."""
    needs = tuple(_build_need(need, warm=row.warm) for need in row.needs)
    used = row.used + sum(_measure(pool) for pool in row.pools if pool.owner != "static")
    return model.Scene(
        now=NOW,
        needs=needs,
        pods=tuple(_build_pod(pod, row) for pod in row.pods),
        pools=tuple(map(_build_pool, row.pools)),
        over=row.over,
        owner_known=not row.unknown,
        owner_created_at=NOW - row.owner_age if row.owner_age else None,
        suspended_since=None if row.suspended < 0 else NOW - row.suspended,
        queue=model.Queue({"": "", "quota": "quota"}.get(row.queue, "waits")),
        quota_lost_at=NOW - row.quota_lost,
        retried=row.retried,
        part_held_since=NOW - row.part_held if row.part_held else None,
        room=row.limit - used,
        slots=row.slots,
        stop=model.Stop(row.stop),
        refused=frozenset(needs[0].ways[number] for number in row.refused),
        creations=None
        if row.operations is None
        else tuple(
            model.Creation(
                need=needs[0].key,
                slot=slot,
                attempt=attempt,
                began_at=NOW - sum(age or [AN_AGE]),
                pending=row.operation_state == "stands",
                failed=row.operation_state == "failed",
            )
            for slot, attempt, *age in row.operations
        ),
        deletions=tuple(
            model.Deletion(need=needs[0].key, slot=slot, useless=useless, began_at=NOW - age, attempt=sum(attempt))
            for slot, useless, age, *attempt in (*row.deletions, *[(0, 2, 100)] * row.refused_useless)
        ),
        takers_served=row.takers_served,
        parent_over=row.parent_over,
        autoscaled=row.autoscaled,
    )


def _measure(pool: Pool) -> int:
    failed = pool.state in ("ERROR", "RUNNING_WITH_ERROR") and pool.nodes < pool.hosts
    return 0 if failed and not pool.nodes else max(pool.maximum, pool.nodes)


def _build_shape(shape: str, hosts: int) -> PoolShape:
    accelerator, topology = {"gpu": ("nvidia-l4", "")}.get(shape, (shape, "4x4"))
    return PoolShape(accelerator=accelerator, topology=topology, hosts=hosts, units=1)


def _build_labels(asked: frozenset[str]) -> frozenset[tuple[str, str]]:
    return frozenset((each.partition("=")[0], each.partition("=")[2]) for each in asked)


def _build_need(need: Need, *, warm: bool) -> model.Need:
    elastic = need.wants >= 0
    asks = model.Asks(_build_shape(need.shape, 0 if elastic else need.hosts), _build_labels(need.asks))
    return model.Need(
        key=need.key + need.shape,
        asks=asks,
        most=need.most,
        hosts=need.hosts,
        ways=tuple(
            model.Way(TIERS[way], zone=str(number * (way != "reservation")))
            for number, way in enumerate(need.list)
        ),
        pin=need.pin,
        nodes=need.wants if elastic else None,
        part=need.part,
        waits_for=Decision(Verdict.WAIT, Reason(need.waits_for), "") if need.waits_for else None,
        never=Decision(Verdict.REFUSE, Reason(need.never), "") if need.never else None,
        of_flavor=need.of_flavor,
        apart=need.apart,
        flex_wait_seconds=need.wait,
        warm_seconds=600 if warm else 0,
    )


def _build_pod(pod: Pod, row: Scene) -> model.Pod:
    first = next((each for each in row.needs if each.shape == pod.shape), row.needs[0])
    need = row.needs[pod.group] if pod.group >= 0 else first
    key = "-" if pod.group == NO_NEED else need.key + need.shape
    hosts = 0 if need.wants >= 0 else need.hosts
    return model.Pod(
        need=key if pod.ours else "",
        slice=str(pod.slice),
        pool=pod.pool,
        created_at=NOW - pod.age,
        waits=not pod.pool and not pod.held,
        terminating=pod.held == "terminating",
        ends_by=NOW - 1 if pod.overdue else None,
        asks=model.Asks(_build_shape(pod.shape, hosts), _build_labels(pod.asks)),
    )


def _build_pool(pool: Pool) -> model.Pool:
    return model.Pool(
        name=pool.name,
        whose=model.Whose({"ours": "deployment", "static": "other"}.get(pool.owner, pool.owner)),
        status=PoolStatus(pool.state),
        shape=_build_shape(pool.shape, pool.hosts),
        node_labels=dict(_build_labels(pool.labels)),
        taints=(Taint(pool.taint, "present", "NoSchedule"),) if pool.taint else (),
        need=pool.key + pool.shape,
        slot=pool.slot,
        attempt=pool.attempt,
        candidate=pool.candidate,
        round=pool.round,
        useless=pool.useless,
        created_at=NOW - pool.age,
        autoscaled=pool.autoscaled,
        maximum=pool.maximum,
        busy=pool.busy,
        ready=pool.nodes,
        ready_since=NOW - pool.ready if pool.nodes else None,
        word=None if pool.unread == "word" else model.Word(pool.word),
        users_read=pool.unread != "users",
        warm_seconds=pool.warm,
        word_at=NOW - pool.error,
        machines=None if "word" in pool.unread else pool.machines,
        spare_before=pool.spare_before,
        idle_since=None if pool.idle < 0 else NOW - pool.idle,
        closed_since=None if pool.closed < 0 else NOW - pool.closed,
    )


FLAVOR = words("flavor=spot")
LIST = ("spot", "demand")


def on(pool: str, slice_key: object, count: int = 4, **more: Any) -> tuple[Pod, ...]:
    return tuple(Pod(slice_key, pool, **more) for _ in range(count))


def scene(
    most: int = 1, pods: Iterable[Pod] = (), pools: Iterable[Pool] = (), need: Need | None = None, **more: Any
) -> Scene:
    return Scene((replace(need or Need(), most=most),), tuple(pods), tuple(pools), **more)


def fleet(count: int, **more: Any) -> tuple[Pool, ...]:
    return tuple(Pool(slot, **more) for slot in range(count))


TWO = on("0.0", 0) + on("1.0", 1)
STATIC = Pool(None, owner="static")
GO = Pool(None, owner="go")
ERROR = Pool(0, state="ERROR", nodes=0, word="cause", error=30, age=90)
EMPTY = Pool(0, nodes=0, autoscaled=True, word="cause", error=130, age=200)
LOST = Pool(0, nodes=3, word="lost", error=700, ready=9000, age=9000)
HUNG = (*on("0.0", 0, 3, age=8000), Pod(0, age=700))
IDLE_READY = Pool(0, ready=1000, age=1500)
FOREIGN = (Pod("x", "0.0", ours=False),)
ELASTIC = Need(wants=3, hosts=1)
GPU = Pool("any", hosts=0, nodes=3, maximum=3, autoscaled=True)
PART = Need(wants=1, hosts=1, part=True)
GANG: dict[str, Any] = {"suspended": 9000, "queue": "quota"}
NEW = Pool(0, 1, state="PROVISIONING", nodes=0)

SCENES: list[tuple[str, Scene, str, str, str]] = [
    ("two slices wait", scene(2, [Pod(0), Pod(1)]), "create 0.0 demand, create 1.0 demand", "", ""),
    (
        "a second delivery sees the first pool",
        scene(2, [Pod(0), Pod(1)], [Pool(0, state="PROVISIONING", nodes=0)]),
        "create 1.0 demand",
        "",
        "",
    ),
    (
        "a gated, a nominated and a young pod",
        scene(3, [Pod(0, held="gated"), Pod(1, held="nominated"), Pod(2, held="young")]),
        "",
        "",
        "",
    ),
    ("restart gap: no pods", scene(2, (), fleet(2)), "", "", ""),
    ("slices have changed pools", scene(2, on("1.0", 0) + on("0.0", 1), fleet(2)), "", "", ""),
    ("one slice runs, its sister waits", scene(2, (*on("0.0", 0), Pod(1)), fleet(1)), "create 1.0 demand", "", ""),
    (
        "runs on a static pool: ours is too many",
        scene(1, on("static", 0), [Pool(0), STATIC]),
        "",
        "delete 0.0",
        "",
    ),
    (
        "runs on a failed pool with all hosts: its successor is too many",
        scene(1, on("0.0", 0), [Pool(0, state="ERROR"), Pool(0, 1)]),
        "",
        "delete 0.1",
        "",
    ),
    (
        "runs on a failed pool in part: its successor stays",
        scene(1, on("0.0", 0, 3), [Pool(0, state="ERROR", nodes=3), Pool(0, 1)]),
        "",
        "",
        "",
    ),
    (
        "two slices, each in part on a static pool: nothing is created for their sake",
        scene(
            2, (*on("0.0", 0, 2), *on("static", 0, 2), *on("0.0", 1, 2), *on("static", 1, 2)), [Pool(0), STATIC]
        ),
        "",
        "",
        "slice_mixed",
    ),
    ("too many for one tick only", scene(1, on("static", 0), [Pool(0, spare_before=False), STATIC]), "", "", ""),
    (
        "followers wait beside a static pool",
        scene(1, (*on("static", 0, 1), Pod(0)), [STATIC]),
        "",
        "",
        "followers_wait",
    ),
    ("taken by a foreign pod", scene(1, (Pod(0), *FOREIGN), fleet(1)), "create 0.1 demand", "", "pool_taken"),
    (
        "the second one taken too",
        scene(1, (Pod(0), *FOREIGN, Pod("y", "0.1", ours=False)), [Pool(0), Pool(0, 1)]),
        "",
        "",
        "pool_taken",
    ),
    ("taken, its taker's pool is coming", scene(1, (Pod(0), *FOREIGN), fleet(1), takers_served=True), "", "", ""),
    (
        "edited policy on a running fleet",
        scene(2, TWO, fleet(2), need=Need(list=("reservation", "spot", "demand"))),
        "",
        "",
        "",
    ),
    ("a new hash version in a restart gap", scene(2, [Pod(0)], fleet(2), need=Need(key="k2")), "", "", ""),
    (
        "LWS, selectors in the pods only, running",
        scene(2, on("0.0", 0, asks=FLAVOR) + on("1.0", 1, asks=FLAVOR), fleet(2, labels=FLAVOR)),
        "",
        "",
        "",
    ),
    (
        "LWS waits for another flavor",
        scene(1, [Pod(0, asks=FLAVOR)], fleet(1)),
        "create 1.0 demand",
        "delete 0.0",
        "",
    ),
    ("LWS surge: the fourth waits", scene(4, (*TWO, *on("2.0", 2), Pod(3)), fleet(4)), "", "", ""),
    ("doubled Ray", scene(2, (*TWO, Pod(2), Pod(3)), fleet(2)), "", "", "slice_doubled"),
    ("Ray scaled down", scene(1, on("1.0", 1), fleet(2)), "", "delete 0.0", ""),
    (
        "two mixed slices",
        scene(2, on("0.0", 0, 2) + on("1.0", 0, 2) + (*on("0.0", 1, 2), Pod(1)), fleet(2)),
        "",
        "",
        "slice_mixed",
    ),
    ("pinned", scene(1, [Pod("w-1")], need=Need(pin="w-1")), "create w-1.0 demand", "", ""),
    ("suspended within the grace", scene(1, (), fleet(1), suspended=200), "", "", ""),
    ("suspended after the grace", scene(1, (), fleet(1), suspended=400), "", "delete 0.0", ""),
    ("quota lost a moment ago", scene(1, (), fleet(1), suspended=9000, queue="none", quota_lost=20), "", "", ""),
    (
        "gang of 64, 20 slots, limit of 64",
        scene(64, limit=256, **GANG),
        ", ".join(f"create {n}.0 demand" for n in range(20)),
        "",
        "no_operation_slot",
    ),
    (
        "gang of 64, 60 are there",
        scene(64, (), fleet(60), limit=256, **GANG),
        ", ".join(f"create {n}.0 demand" for n in range(60, 64)),
        "",
        "",
    ),
    ("gang, room for a part", scene(4, limit=12, **GANG), "", "", "limit_reached"),
    (
        "gang, a part is held too long",
        scene(2, (), fleet(1), part_held=900, limit=4, **GANG),
        "",
        "",
        "check_retry, limit_reached",
    ),
    (
        "gang after our Retry",
        scene(2, (), fleet(1), suspended=9000, queue="none", quota_lost=5, retried=True),
        "",
        "delete 0.0",
        "",
    ),
    ("gang, a failed pool and its successor", scene(1, (), [ERROR, NEW], **GANG), "", "delete 0.0", ""),
    ("gang ready", scene(2, (), fleet(2), **GANG), "", "", "check_ready"),
    ("no list: error, pause", scene(1, [Pod(0)], [ERROR]), "", "", "paused"),
    (
        "no list: the pause is over",
        scene(1, [Pod(0)], [replace(ERROR, error=70)]),
        "create 0.1 demand round=1",
        "",
        "",
    ),
    ("a paused slot is not evaded", scene(2, (*on("1.0", 1), Pod(0)), [ERROR, Pool(1)]), "", "", "paused"),
    (
        "list: refused at once",
        scene(1, [Pod(0)], need=Need(list=LIST), refused=(0,)),
        "create 0.0 demand empty",
        "",
        "",
    ),
    (
        "list: every way refused at once",
        scene(1, [Pod(0)], need=Need(list=LIST), refused=(0, 1)),
        "",
        "",
        "paused",
    ),
    (
        "list: 150 autoscaled pools",
        scene(1, [Pod(0)], need=Need(list=LIST), autoscaled=150),
        "create 0.0 spot",
        "",
        "",
    ),
    (
        "list: several GPU machines",
        scene(1, [Pod(0, shape="gpu")], need=Need(list=LIST, shape="gpu")),
        "create 0.0 spot",
        "",
        "",
    ),
    ("list: a queued workload", scene(1, (), need=Need(list=LIST), **GANG), "create 0.0 spot", "", ""),
    (
        "too many creates in an hour",
        scene(1, [Pod(0)], operations=((0, 0), (0, 1), (0, 2), (0, 3))),
        "",
        "",
        "paused",
    ),
    (
        "list: short without a machine",
        scene(1, [Pod(0)], [EMPTY], Need(list=LIST)),
        "create 0.1 demand empty",
        "switch-off 0.0",
        "",
    ),
    (
        "list: within the patience",
        scene(1, [Pod(0)], [replace(EMPTY, error=100, age=100)], Need(list=LIST)),
        "",
        "",
        "",
    ),
    (
        "list: short with half of its machines",
        scene(1, [Pod(0)], [replace(EMPTY, nodes=2, ready=190)], Need(list=LIST)),
        "create 0.1 demand empty",
        "",
        "",
    ),
    (
        "list: pause after the last, the record stays",
        scene(1, [Pod(0)], [replace(EMPTY, attempt=1, candidate=1, round=2, maximum=0)], Need(list=LIST)),
        "",
        "",
        "paused",
    ),
    ("list: the successor is listed", scene(1, [Pod(0)], [EMPTY, NEW], Need(list=LIST)), "", "delete 0.0", ""),
    (
        "list, limit of one slice",
        scene(1, [Pod(0)], [EMPTY], Need(list=LIST), limit=4),
        "",
        "switch-off 0.0",
        "limit_reached",
    ),
    (
        "list, limit of one slice, switched off",
        scene(1, [Pod(0)], [replace(EMPTY, maximum=0)], Need(list=LIST), limit=4),
        "create 0.1 demand empty",
        "",
        "",
    ),
    (
        "list, limit of one slice, half filled",
        scene(1, [Pod(0)], [replace(EMPTY, nodes=2, ready=190)], Need(list=LIST), limit=4),
        "",
        "delete 0.0",
        "pool_goes_first",
    ),
    (
        "lost host in a reservation",
        scene(1, HUNG, [LOST], Need(list=("reservation",))),
        "",
        "delete 0.0",
        "host_lost, pool_goes_first",
    ),
    ("lost host: the successor first", scene(1, HUNG, [LOST]), "create 0.1 demand round=1", "", "host_lost"),
    (
        "flex-start waits for hours",
        scene(1, [Pod(0, age=20000)], [Pool(0, nodes=0, age=20000)], Need(list=("flex", "spot"))),
        "",
        "",
        "",
    ),
    (
        "useless: the first",
        scene(1, [Pod(0, age=2000)], [IDLE_READY]),
        "create 0.1 demand round=1 useless=1",
        "",
        "",
    ),
    (
        "useless: the third",
        scene(1, [Pod(0, age=2000)], [replace(IDLE_READY, useless=2)]),
        "",
        "delete 0.0",
        "pool_useless",
    ),
    ("useless: refused from then on", scene(1, [Pod(0, age=9000)], refused_useless=True), "", "", "pool_useless"),
    (
        "useless: refused, and another slot has one",
        scene(2, [Pod(0, age=2000), Pod(1, age=2000)], [replace(IDLE_READY, slot=1)], refused_useless=True),
        "",
        "delete 1.0",
        "pool_useless",
    ),
    ("the pod is younger than the nodes", scene(1, [Pod(0, age=500)], [IDLE_READY]), "", "", ""),
    ("elastic: first", scene(1, [Pod(0)], need=ELASTIC, limit=2), "create any.0 demand max=2", "", ""),
    (
        "elastic: more",
        scene(1, (*on("any.0", 0, 3), Pod(1)), [GPU], replace(ELASTIC, wants=5)),
        "raise any.0 5",
        "",
        "",
    ),
    (
        "elastic: fewer, two nodes exist",
        scene(1, on("any.0", 0, 1), [replace(GPU, maximum=5, nodes=2)], replace(ELASTIC, wants=1)),
        "",
        "lower any.0 2",
        "",
    ),
    (
        "elastic: none for now",
        scene(1, (), [replace(GPU, nodes=0)], replace(ELASTIC, wants=0)),
        "",
        "lower any.0 1",
        "",
    ),
    ("elastic: on a taken pool", scene(1, (Pod("x", "any.0", ours=False), Pod(0)), [GPU], ELASTIC), "", "", ""),
    ("part of a host: fewer", scene(1, on("any.0", 0, 1), [GPU], PART), "", "", ""),
    ("part of a host: none", scene(1, (), [GPU], replace(PART, wants=0)), "", "delete any.0", ""),
    ("warm: over", scene(1, (), fleet(1), over=True, warm=True), "", "mark 0.0", ""),
    ("warm: idle", scene(1, (), fleet(1, idle=100), over=True, warm=True), "", "", ""),
    ("warm: its time is over", scene(1, (), fleet(1, idle=700), over=True, warm=True), "", "close 0.0", ""),
    ("warm: closed a moment ago", scene(1, (), fleet(1, idle=700, closed=10), over=True, warm=True), "", "", ""),
    (
        "warm: closed for a tick",
        scene(1, (), fleet(1, idle=700, closed=70), over=True, warm=True),
        "",
        "delete 0.0",
        "",
    ),
    (
        "warm: a foreign pod waits for it",
        scene(1, [Pod("x", ours=False)], fleet(1, idle=700, closed=70), over=True, warm=True),
        "open 0.0",
        "",
        "",
    ),
    ("Go pool, live", scene(1, on("go", 0), [GO]), "", "", ""),
    ("Go pool, ERROR", scene(1, [Pod(0)], [replace(GO, state="ERROR", nodes=0)]), "create 0.0 demand", "", ""),
    (
        "Go pool, ERROR, its successor is listed",
        scene(1, [Pod(0)], [replace(GO, state="ERROR", nodes=0), replace(NEW, attempt=0)]),
        "",
        "delete go",
        "",
    ),
    (
        "Go pool, ERROR, JobSet over",
        scene(1, (), [replace(GO, state="ERROR", nodes=0)], over=True),
        "",
        "delete go",
        "",
    ),
    (
        "over, a pod still terminates",
        scene(1, on("0.0", 0, 1, held="terminating"), fleet(1), over=True),
        "",
        "",
        "",
    ),
    ("stop: no-create", scene(2, [Pod(0)], fleet(0), stop="no-create"), "", "", "stopped"),
    ("stop: report-only", scene(1, (), fleet(1), over=True, stop="report-only"), "", "", ""),
    ("limit reached", scene(2, [Pod(0), Pod(1)], limit=4), "create 0.0 demand", "", "limit_reached"),
    (
        "a STOPPING pool keeps its number",
        scene(1, [Pod(0)], fleet(1, state="STOPPING")),
        "create 0.1 demand",
        "",
        "",
    ),
    ("a number that only operations know", scene(1, [Pod(0)], operations=((0, 0),)), "create 0.1 demand", "", ""),
    ("finished Job of a live JobSet", scene(1, on("0.0", 0), fleet(2)), "", "delete 1.0", ""),
    (
        "a twin on its way replaces nothing",
        scene(1, (), [Pool(0), Pool(1, state="PROVISIONING", nodes=0)]),
        "",
        "",
        "",
    ),
    ("what fits is waited for", scene(1, (*on("static", 0), Pod(1)), [Pool(0), STATIC]), "", "", "slice_doubled"),
    (
        "edited to another shape, empty",
        scene(1, on("0.0", 0), [Pool(0), Pool(0, 7, shape="old")]),
        "",
        "delete 0.7",
        "",
    ),
    ("a slice with two hosts elsewhere is no proof", scene(1, on("static", 0, 2), [Pool(0), STATIC]), "", "", ""),
    ("a pod is being made", scene(1, [Pod(0, held="young")], fleet(2)), "", "", ""),
    ("the owner is unknown", scene(1, (), fleet(1), over=True, unknown=True), "", "", ""),
    ("GKE upgrades the pool", scene(1, HUNG, [replace(LOST, busy=True)]), "", "", ""),
    ("claim unbound", scene(1, [Pod(0)], need=Need(waits_for="claim_unbound")), "", "", "claim_unbound"),
    (
        "one part is refused",
        Scene((Need(), Need(shape="gpu", never="resource_unknown")), (Pod(0), Pod(0, shape="gpu"))),
        "",
        "",
        "resource_unknown",
    ),
    (
        "one part is refused for which no other waits",
        Scene((Need(), Need(shape="gpu", never="resource_unknown", apart=True)), (Pod(0), Pod(0, shape="gpu"))),
        "create 0.0 demand",
        "",
        "resource_unknown",
    ),
    (
        "one part is refused for which no other waits, and its pods fit the other's pool",
        Scene(
            (Need(), Need(key="k2", never="resource_unknown", apart=True)),
            (Pod(0, group=0), Pod(0, group=1)),
            (Pool(0, state="PROVISIONING", nodes=0),),
        ),
        "",
        "",
        "resource_unknown",
    ),
    (
        "one part waits for a claim",
        Scene((Need(), Need(shape="gpu", waits_for="claim_unbound")), (Pod(0), Pod(0, shape="gpu"))),
        "",
        "",
        "claim_unbound",
    ),
    (
        "one part waits for a claim, and no other waits for it",
        Scene((Need(), Need(shape="gpu", waits_for="claim_unbound", apart=True)), (Pod(0), Pod(0, shape="gpu"))),
        "create 0.0 demand",
        "",
        "claim_unbound",
    ),
    (
        "one part has a claim that is unbound, and no pods yet",
        Scene((Need(), Need(shape="gpu", waits_for="claim_unbound")), (Pod(0),)),
        "create 0.0 demand",
        "",
        "",
    ),
    (
        "a finished RayJob keeps its cluster",
        scene(1, on("0.0", 0), fleet(1), parent_over=True),
        "",
        "",
        "parent_over",
    ),
]
"""Name, scene, the acts of `provision`, those of `collect`, the answers."""
