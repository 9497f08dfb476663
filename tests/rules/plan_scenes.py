"""What a scene of the plan is: a row with the acts of both functions and the answers.

A row is written in ages and in hosts: a pool is named by its slot and attempt, ``0.1``.
`read_scene` reads a row of the file, and `build_scene` makes of it what a look sees.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

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


class Row:
    """What is written in a row."""

    def but(self, **changes: Any) -> Self:
        """Return the same with other fields."""
        return replace(self, **changes)  # type: ignore[type-var]


@dataclass(frozen=True)
class Pod(Row):
    slice: object
    pool: str = ""
    age: int = 400
    held: str = ""  # why an unbound pod does not wait: gated, nominated, terminating, young
    shape: str = "tpu"
    ours: bool = True
    group: int = -1
    """Which of the needs it is of; -1: the first of its shape, -2: none that the spec has."""
    overdue: bool = False  # it terminates for longer than it may


@dataclass(frozen=True)
class Pool(Row):
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
    machines: int | None = 0  # how many GKE has made or makes; None: it gave no answer
    unread: str = ""  # what was not read of it: word, users

    @property
    def name(self) -> str:
        return self.owner if self.slot is None else f"{self.slot}.{self.attempt}"


@dataclass(frozen=True)
class Need(Row):
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
    wait: int = 0  # for how long a flex-start pool may wait


@dataclass(frozen=True)
class Scene:
    needs: tuple[Need, ...] = (Need(),)
    pods: tuple[Pod, ...] = ()
    pools: tuple[Pool, ...] = ()
    over: bool = False
    unknown: bool = False
    owner_age: int = 0  # of the workload; 0: it does not say
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
    gets: str = ""
    """The acts of `provision`, those of `collect`, and the answers, as `write_plan` has them."""


def build_scene(row: Scene) -> model.Scene:
    """Return what a look sees of a row."""
    needs = tuple(_build_need(need, warm=row.warm) for need in row.needs)
    used = row.used + sum(_measure(pool) for pool in row.pools)
    return model.Scene(
        now=NOW,
        needs=needs,
        pods=tuple(_build_pod(pod, row) for pod in row.pods),
        pools=tuple(map(_build_pool, row.pools)),
        over=row.over,
        owner_known=not row.unknown,
        owner_created_at=NOW - row.owner_age if row.owner_age else None,
        suspended_since=None if row.suspended < 0 else NOW - row.suspended,
        queued=row.queue == "quota",
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
    return model.Pod(
        need=key if pod.ours else "",
        slice="" if pod.ours and need.wants >= 0 else str(pod.slice),
        pool=pod.pool,
        created_at=NOW - pod.age,
        waits=not pod.pool and not pod.held,
        terminating=pod.held == "terminating",
        ends_by=NOW - 1 if pod.overdue else None,
    )


def _build_pool(pool: Pool) -> model.Pool:
    return model.Pool(
        name=pool.name,
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
        nodes=pool.nodes,
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
ELASTIC = Need(wants=3, hosts=1)
NEEDS = {
    "PLAIN": Need(key="a"),
    "SPOT": Need(key="b", asks=FLAVOR),
    "ELASTIC": ELASTIC,
    "ELASTIC_LIST": ELASTIC.but(list=("spot", "demand")),
    "PART": Need(wants=1, hosts=1, part=True),
}
BOUND, WAITING = Pod(0, "0.0", age=8000), Pod(0, age=700)
PODS = {
    "TWO": (*[Pod(0, "0.0")] * 4, *[Pod(1, "1.0")] * 4),
    "HUNG": (*[BOUND] * 3, WAITING),
    "BEGUN": (Pod(0, "0.0"), Pod(0)),
    "FOREIGN": (Pod("x", "0.0", ours=False),),
}
ERROR = Pool(0, state="ERROR", nodes=0, word="cause", error=30, age=90)
EMPTY = Pool(0, nodes=0, autoscaled=True, word="cause", error=130, age=200)
GPU = Pool("any", hosts=0, nodes=3, maximum=3, autoscaled=True)
POOLS = {
    "GO": Pool(None, owner="go"),
    "ERROR": ERROR,
    "HALF": ERROR.but(nodes=1),
    "EMPTY": EMPTY,
    "UNREAD": EMPTY.but(unread="word"),
    "LOST": Pool(0, nodes=3, word="lost", error=700, ready=9000, age=9000),
    "IDLE_READY": Pool(0, ready=1000, age=1500),
    "IDLE": Pool(0, idle=700, closed=70),
    "NEW": Pool(0, 1, state="PROVISIONING", nodes=0),
    "SPOT_POOL": Pool(0, key="b", labels=FLAVOR),
    "GPU": GPU,
    "STUCK": GPU.but(nodes=1, maximum=3, word="cause", error=130, ready=400, age=900),
}


def read_scene(row: dict[str, Any]) -> Scene:
    """Return the scene that a row of ``golden/scenes.yaml`` writes in short."""
    needs = tuple(_read_need(each) for each in _split(row.get("needs", "most=1")) if each != "none")
    pods = tuple(pod for each in _split(row.get("pods", "")) for pod in _read_pods(each))
    pools = tuple(map(_read_pool, _split(row.get("pools", ""))))
    more = {key: _freeze(value) for key, value in row.items() if key not in ("about", "needs", "pods", "pools")}
    return Scene(needs, pods, pools, **more)


def _split(text: object) -> list[str]:
    return [each.strip() for each in str(text).split(",") if each.strip()]


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, list) else value


def _read_need(text: str) -> Need:
    first, *rest = text.split()
    return NEEDS[first].but(**_read_fields(rest)) if first in NEEDS else Need(**_read_fields(text.split()))


def _read_pool(text: str) -> Pool:
    """Return a pool by its name, or by its slot and attempt, with the fields that differ."""
    first, *rest = text.split()
    if first in POOLS:
        return POOLS[first].but(**_read_fields(rest))
    slot, _, attempt = first.partition(".")
    return Pool(int(slot) if slot.isdecimal() else slot, int(attempt), **_read_fields(rest))


def _read_pods(text: str) -> tuple[Pod, ...]:
    """Return a group of pods by its name; else ``0 on 0.0 x4``: four of a slice on a pool."""
    if text in PODS:
        return PODS[text]
    key, *rest = text.split()
    place = rest.pop(1) if rest[:1] == ["on"] else ""
    count = int(rest.pop().removeprefix("x")) if rest and rest[-1].startswith("x") else 1
    return (Pod(key, place, **_read_fields([each for each in rest if each != "on"])),) * count


def _read_fields(texts: list[str]) -> dict[str, Any]:
    """Return fields by their names; a single word is the state of a pool."""
    fields = (text.partition("=") if "=" in text else ("state", "=", text) for text in texts)
    return {name: _read_value(name, value) for name, _, value in fields}


def _read_value(name: str, text: str) -> Any:
    if name in ("asks", "labels"):
        return frozenset(text.split("+"))
    if name == "list":
        return tuple(text.split("+"))
    words = {"yes": True, "no": False, "?": None}
    return words[text] if text in words else int(text) if text.removeprefix("-").isdecimal() else text
