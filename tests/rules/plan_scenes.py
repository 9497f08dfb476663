"""What a scene of the plan is: a row of ``golden/scenes.yaml`` as what a look sees.

A row is written in ages and in hosts: a pool is named by its slot and attempt, ``0.1``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import structs

from shared.model.decisions import Decision, Reason, Verdict
from shared.model.names import Owner
from shared.model.needs import NodeSource, Tier
from shared.model.pools import PoolShape, PoolStatus
from shared.model.workloads import Taint
from shared.plan.scene import Asks, Need, Pod, Pool, PoolOperation, Scene, Stop, Way, Word

Fields = dict[str, Any]
NOW = 1_000_000.0
AN_AGE = 5000
TIERS = {"demand": Tier.ON_DEMAND, "spot": Tier.SPOT, "flex": Tier.FLEX_START, "reservation": Tier.RESERVATION}
COLUMNS = (
    "about needs pods pools over unknown owner_age suspended queue quota_lost retried part_held "
    "limit used slots stop refused operations operation_state deletions takers_served "
    "parent_over warm autoscaled gets"
)
NAMES = {
    "SPOT": "key=b asks=flavor=spot",
    "ELASTIC": "wants=3 hosts=1",
    "ELASTIC_LIST": "ELASTIC list=spot+demand",
    "PART": "wants=1 hosts=1 part=yes",
    "TWO": "0 on 0.0 x4, 1 on 1.0 x4",
    "HUNG": "0 on 0.0 age=8000 x3, 0 age=700",
    "BEGUN": "0 on 0.0, 0",
    "FOREIGN": "x on 0.0 ours=no",
    "GO": "go.0",
    "ERROR": "0.0 ERROR nodes=0 word=cause error=30 age=90",
    "HALF": "ERROR nodes=1",
    "EMPTY": "0.0 nodes=0 autoscaled=yes word=cause error=130 age=200",
    "UNREAD": "EMPTY unread=word",
    "LOST": "0.0 nodes=3 word=lost error=700 ready=9000 age=9000",
    "IDLE_READY": "0.0 ready=1000 age=1500",
    "IDLE": "0.0 idle=700 closed=60",
    "NEW": "0.1 PROVISIONING nodes=0",
    "SPOT_POOL": "0.0 key=b labels=flavor=spot",
    "GPU": "any.0 hosts=0 nodes=3 maximum=3 autoscaled=yes",
    "STUCK": "GPU nodes=1 maximum=3 word=cause error=130 ready=400 age=900",
}
"""What the first word of a need, of pods or of a pool may stand for; fields after it differ."""
POD: Fields = {"age": 400, "held": "", "shape": "tpu", "ours": True, "group": "", "overdue": False}
"""`held` says why an unbound pod does not wait. `group` is the number of its need: by default the
first one of its shape, and none for a pod that the spec has no more."""
NEED: Fields = {"key": "k1", "shape": "tpu", "hosts": 4, "list": ("demand",), "asks": frozenset(), "wants": None}
POOL: Fields = {
    "state": "RUNNING",
    "key": "k1",
    "shape": "tpu",
    "hosts": 4,
    "nodes": 4,
    "maximum": 4,
    "labels": frozenset(),
}
POOL |= {"age": AN_AGE, "ready": AN_AGE, "error": 0, "spare_before": True, "unread": "", "taint": "", "word": ""}
"""`unread` is what was not read of a pool: word or users."""


def read_scene(row: Fields) -> Scene:
    """Return the scene that a row writes in short."""
    needs = tuple(_read_need(each, warm="warm" in row) for each in _split(row.get("needs", "most=1")))
    pools = tuple(map(_read_pool, _split(row.get("pools", ""))))
    used = row.get("used", 0) + sum(map(_count_machines, pools))
    times = {"owner_age": "owner_created_at", "suspended": "suspended_since"}
    times |= {"quota_lost": "quota_lost_at", "part_held": "part_held_since"}
    same = ("over", "retried", "slots", "takers_served", "parent_over", "autoscaled")
    key = needs[0].key if needs else ""  # what failed or went is of the first need
    return Scene(
        now=NOW,
        needs=needs,
        pods=tuple(pod for each in _split(row.get("pods", "")) for pod in _read_pods(each, needs)),
        pools=pools,
        owner_known="unknown" not in row,
        queued=row.get("queue") == "quota",
        room=row.get("limit", 10**6) - used,
        stop=Stop(row.get("stop", "")),
        refused=frozenset(needs[0].ways[number] for number in row.get("refused", ())),
        operations=_read_operations(row, key),
        **_measure_from_now(row, times),
        **{name: row[name] for name in same if name in row},
    )


def _split(text: object) -> Iterator[list[str]]:
    """Yield the words of each need, pod or pool; a name is replaced by what it stands for."""
    for first, *rest in (part.split() for part in str(text).split(",") if part.strip() not in ("", "none")):
        for words in _split(NAMES[first]) if first in NAMES else [[first]]:
            yield [*words, *rest]


def _read_fields(words: Sequence[str]) -> Fields:
    """Return fields by their names; a single word is the state of a pool."""
    fields = (word.partition("=") if "=" in word else ("state", "=", word) for word in words)
    return {name: _read_value(name, value) for name, _, value in fields}


def _read_value(name: str, text: str) -> Any:
    if name in ("asks", "labels"):
        return frozenset((each.partition("=")[0], each.partition("=")[2]) for each in text.split("+"))
    if name == "list":
        return tuple(text.split("+"))
    words = {"yes": True, "no": False, "?": None}
    return words[text] if text in words else int(text) if text.removeprefix("-").isdecimal() else text


def _measure_from_now(row: Fields, times: dict[str, str]) -> Fields:
    """Return the times of those ages that a row has."""
    return {field: NOW - row[age] for age, field in times.items() if age in row}


def _build_shape(shape: str, hosts: int) -> PoolShape:
    accelerator, topology = {"gpu": ("nvidia-l4", "")}.get(shape, (shape, "4x4"))
    return PoolShape(accelerator=accelerator, topology=topology, hosts=hosts, units=1)


def _read_need(words: list[str], *, warm: bool) -> Need:
    row = NEED | _read_fields(words)
    key, shape, wants, asks = (row.pop(each) for each in ("key", "shape", "wants", "asks"))
    source = NodeSource(row.pop("source")) if "source" in row else None
    zones = [str(at * (way != "reservation")) for at, way in enumerate(row["list"])]
    ways = tuple(
        Way(TIERS[way], zone=zone, nodes_from=source) for way, zone in zip(row.pop("list"), zones, strict=True)
    )
    for field, verdict in (("waits_for", Verdict.WAIT), ("never", Verdict.REFUSE)):
        if field in row:
            row[field] = Decision(verdict, Reason(row[field]), "")
    return Need(
        key=key + shape,
        asks=Asks(_build_shape(shape, row["hosts"] if wants is None else 0), asks),
        ways=ways,
        nodes=wants,
        flex_wait_seconds=row.pop("wait", 0),
        warm_seconds=600 * warm,
        **row,
    )


def _read_pods(words: list[str], needs: tuple[Need, ...]) -> list[Pod]:
    """Return ``0 on 0.0 x4`` as four pods of a slice on a pool; without a pool they wait."""
    key, *rest = words
    pool = rest.pop(1) if rest[:1] == ["on"] else ""
    count = int(rest.pop().removeprefix("x")) if rest and rest[-1].startswith("x") else 1
    row = POD | _read_fields([each for each in rest if each != "on"])
    need = next((each for each in needs if each.key.endswith(row["shape"])), needs[0])
    if isinstance(row["group"], int):
        need = needs[row["group"]]
    pod = Pod(
        need=("-" if row["group"] == "none" else need.key) * row["ours"],
        slice="" if row["ours"] and need.elastic else key,
        pool=pool,
        created_at=NOW - row["age"],
        waits=not pool and not row["held"],
        terminating=row["held"] == "terminating",
        ends_by=NOW if row["overdue"] else None,
    )
    return [pod] * count


def _read_pool(words: list[str]) -> Pool:
    """Return a pool by its slot and attempt, with the fields that differ."""
    slot, _, attempt = words[0].partition(".")
    row = POOL | {"slot": _read_value("slot", slot), "attempt": int(attempt)} | _read_fields(words[1:])
    name = f"{row['slot']}.{row['attempt']}"
    if slot == "go":
        row["slot"], name = None, "go"
    times = {"error": "word_at", "idle": "idle_since", "closed": "closed_since"}
    times |= {"ready": "ready_since"} if row["nodes"] else {}
    owned = ("slot", "attempt", "candidate", "round", "useless")
    same = ("autoscaled", "maximum", "busy", "nodes", "spare_before")
    return Pool(
        name=name,
        status=PoolStatus(row["state"]),
        shape=_build_shape(row["shape"], row["hosts"]),
        owner=Owner(
            need=row["key"] + row["shape"],
            created_at=int(NOW) - row["age"],
            warm_seconds=row.get("warm", 0),
            **{field: row[field] for field in owned if field in row},
        ),
        node_labels=dict(row["labels"]),
        taints=(Taint(row["taint"], "present", "NoSchedule"),) * bool(row["taint"]),
        ready=row["nodes"],
        word=None if row["unread"] == "word" else Word(row["word"]),
        machines=None if row["unread"] == "word" else row.get("machines", 0),
        users_read=row["unread"] != "users",
        **_measure_from_now(row, times),
        **{field: row[field] for field in same if field in row},
    )


def _count_machines(pool: Pool) -> int:
    """Return for how many a pool counts under a limit: as none if it failed without one."""
    failed = pool.status in (PoolStatus.ERROR, PoolStatus.RUNNING_WITH_ERROR)
    return 0 if failed and not pool.nodes and pool.shape.hosts else max(pool.maximum, pool.nodes)


def _read_operations(row: Fields, key: str) -> tuple[PoolOperation, ...] | None:
    """Return creates ``[slot, attempt, age]``, deletes ``[slot, useless, age, attempt]``."""
    creates, state = row.get("operations", ()), row.get("operation_state")
    if creates is None:
        return None
    ended = {"pending": state == "stands", "failed": state == "failed"}
    operations = [
        PoolOperation(need=key, slot=slot, attempt=attempt, began_at=NOW - sum(age or [AN_AGE]), **ended)
        for slot, attempt, *age in creates
    ]
    for slot, useless, age, *attempt in row.get("deletions", ()):
        operation = PoolOperation(need=key, slot=slot, creates=False, useless=useless, began_at=NOW - age)
        operations.append(structs.replace(operation, attempt=sum(attempt)))
    return tuple(operations)
