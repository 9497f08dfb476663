"""The borders of the product: how an odd input is made, and what must hold for it."""

import base64
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import structs

from shared.deliver import deliver, deliver_tick, parse_push
from shared.edges.cluster import KubernetesCluster
from shared.edges.gke import GkeAdds, GkeTakes
from shared.engine.outside import Cluster, Role
from shared.kinds.table import get_kind
from shared.model.errors import JSON_ERRORS, ProvisionerError, Rejected
from shared.model.messages import Event, EventType, format_message
from shared.model.names import ObjectName
from shared.model.pools import NodePool, PoolStatus
from tests.builders import CLUSTER, a_demand_event, a_pool, a_push, an_over_event
from tests.canned import SHARED, Canned, CannedHttp, Scene, open_kubernetes, open_pools
from tests.engine.world import Function, World
from tests.fuzz.spoiling import spoil, spoil_text, write
from tests.log_records import Records

ROLES = tuple(Role)


def read_lines(name: str) -> list[Any]:
    """Return the JSON values of a file, one a line."""
    return [json.loads(line) for line in (Path(__file__).parent / name).read_text().splitlines()]


def expect_no_fault(records: Records) -> None:
    """Check that the functions met no error of their own."""
    assert not [record for record in records.found if record.get("reason") == "internal_error"]


def list_functions(world: World) -> dict[Role, Function]:
    return {each.role: each for each in (world.provisioner, world.collector)}


def use_ports(world: World, **ports: Any) -> None:
    """Give both functions other ports; each takes its own verb's only."""
    for each in list_functions(world).values():
        own = {name: port for name, port in ports.items() if getattr(each.ports, name)}
        each.ports = structs.replace(each.ports, **own)


def act(world: World, deed: str, role: Role, demand: Event) -> None:
    """Let a function do what an input says."""
    functions = list_functions(world)
    if deed == "tick":
        deliver_tick(role, CLUSTER, functions[role].ports)
    elif deed == "demand":
        deliver(Role.PROVISION, a_push(demand), functions[Role.PROVISION].ports)
    else:
        over = structs.replace(demand, type=EventType.WORKLOAD_OVER)
        deliver(Role.COLLECT, a_push(over), functions[Role.COLLECT].ports)


# --- pushes: every body ends decided, refused with its text, or handed back to be retried ---

_EVENTS: tuple[Event, ...] = (
    a_demand_event(),
    structs.replace(a_demand_event(), cause="7"),
    a_demand_event(uid=""),
    an_over_event(),
    an_over_event("scaled, generation 4"),
    an_over_event("deleted", subject=ObjectName(kind="RayCluster", namespace="a", name="serving", uid="0f9c")),
    a_demand_event(cluster=CLUSTER.replace("/p/", "/q/")),
)


def push_body(chance: Random) -> bytes:
    """Spoil the data of a message, its envelope, or the text of both."""
    event = chance.choice(_EVENTS)
    data = spoil_text(chance, write(spoil(chance, format_message(event).data)))
    envelope: Any = spoil(chance, a_push(event), changes_max=chance.choice((0, 0, 2)))
    with suppress(AttributeError, TypeError, KeyError):  # else it has no place for data
        if isinstance(envelope["message"]["data"], str):
            envelope["message"]["data"] = base64.b64encode(data).decode()
    body = write(envelope)
    return spoil_text(chance, body) if chance.randrange(4) == 1 else body


def take_push(chance: Random, records: Records) -> None:
    """Check that each answer has its record, and a refusal the message."""
    body, role, has_pool = push_body(chance), chance.choice(ROLES), chance.randrange(2)
    world = World()
    world.wait(0)
    if has_pool:
        world.gke.pools[a_pool().name] = a_pool()
    answer = deliver(role, body, list_functions(world)[role].ports)
    expect_no_fault(records)
    messages = [record for record in records.found if record.get("logger") == "functions"]
    assert all(message.get("reason") for message in messages if "decision" in message)
    refused = [message for message in messages if message.get("decision") == "reject"]
    if refused:
        assert (messages, answer.status < 300, _has_data(refused[0], body)) == (refused, True, True)
    if answer.status >= 300:
        assert "none" in [message.get("decision") for message in messages], answer


def _has_data(record: dict[str, Any], body: bytes) -> bool:
    """Return whether the record of a refusal has the message, as far as it is not cut."""
    kept, texts = record.get("event_data", "").partition("… (")[0], [body]
    with suppress(Rejected):
        texts.append(parse_push(body).message.data)
    return any(each[:8192].decode(errors="replace").startswith(kept) for each in texts)


# --- Kubernetes objects: one that is odd never stops the steady JobSet beside it ---

_PARTS = (*("workload",) * 3, *("pod",) * 3, "bound", "node", "namespace", "metadata")


def _read_scene(body: dict[str, Any]) -> Scene:
    workload, pod = (json.dumps(body[each]).encode() for each in ("workload", "pod"))
    return Scene(get_kind(body["kind"]), body["name"], workload, pod, body["pod"]["metadata"]["name"])


STEADY, *SCENES = map(_read_scene, read_lines("scenes.jsonl"))


def live_through(
    scene: Scene, deed: str, parts: Mapping[str, bytes], pool: NodePool | None = None, *, limited: bool = False
) -> World:
    """Return the world after an act on a cluster of which parts have another text."""
    api = open_kubernetes(scene, STEADY, parts, pool.name if pool else "another")
    world = World(limit_chips=100_000 if limited else 0)
    if pool:
        world.gke.pools[pool.name] = pool
    clusters: dict[str, Cluster] = {CLUSTER: KubernetesCluster(api, clock=world.clock)}
    use_ports(world, clusters=clusters)
    subject = ObjectName(kind=scene.kind.name, namespace="default", name=scene.name, uid=f"uid-of-{scene.name}")
    demand = Event(type=EventType.DEMAND, cluster=CLUSTER, subject=subject)
    for role in (Role.COLLECT, Role.PROVISION) if deed == "tick" else (Role.PROVISION,):
        act(world, deed, role, demand)
    return world


def take_object(chance: Random, records: Records) -> None:
    """Spoil a workload, its pod, one on its node, or what all share: neighbours get their pool."""
    scene, part = chance.choice(SCENES), chance.choice(_PARTS)
    example = scene.workload if part == "workload" else SHARED.get(part, scene.pod)
    deed = chance.choice(("demand", "demand", "over", "over", "tick"))
    status, limited = chance.choice(("", "RUNNING", "RUNNING", "ERROR")), chance.randrange(4) == 1
    pool = structs.replace(_POOLS[scene.name], status=PoolStatus(status)) if status else None
    text = write(spoil(chance, example))
    world = live_through(scene, deed, {part: text}, pool, limited=limited)
    expect_no_fault(records)
    if deed != "tick" or part in SHARED or _POOLS[STEADY.name].name in world.gke.pools:
        return
    with suppress(*JSON_ERRORS):  # unless no answer was JSON
        msgspec.json.decode(b'{"in": [{"a": ' + text + b"}]}")
        raise AssertionError("the neighbour got no pool")


_POOLS = {
    scene.name: next(iter(live_through(scene, "demand", {}).gke.pools.values())) for scene in (STEADY, *SCENES)
}
"""The pool that each unspoilt scene gets."""

# --- answers of Google: each call ends in a documented error; no foreign pool is touched ---

_ANSWERS = {row["call"]: json.dumps(row["answer"]).encode() for row in read_lines("answers.jsonl")}
"""What Google says of a pool of ours, beside one that is not, and how it refuses."""
_ENDS = {"/listManagedInstances": "machines", "/listErrors": "errors", "/grp": "group", "/nodePools": "list"}
_CALLS = tuple(call for call in _ANSWERS if call != "refusal")
_STATUSES = (*[200] * 15, 204, 301, 400, 401, 403, 404, 408, 409, 412, 429, 499, 500, 501, 503, 504, 799)


def take_answer(chance: Random, records: Records) -> None:
    """Spoil one kind of answer: both functions, and each call by itself, live with it."""
    odd_call, status = chance.choice(_CALLS), chance.choice(_STATUSES)
    example = _ANSWERS[odd_call if status < 300 else "refusal"]
    body = write(spoil(chance, example))
    deed, role = chance.choice(("demand", "over", "tick", "edge", "edge")), chance.choice(ROLES)
    limited, has_owner = chance.randrange(2), chance.randrange(2)
    body = spoil_text(chance, body) if chance.randrange(4) == 1 else body
    odd = Canned(body, status)

    def answer(method: str, url: str) -> Canned:
        call = _name_call(method, url)
        return odd if call == odd_call else Canned(_ANSWERS[call])

    http = CannedHttp(answer)
    world = World(limit_chips=1_000 if limited else 0)
    world.wait(0)
    if not has_owner:
        world.cluster.workloads.clear()
    adds, takes = open_pools(http, GkeAdds), open_pools(http, GkeTakes)
    use_ports(world, pools=adds, adds=adds, takes=takes)
    if deed == "edge":
        _call_each(adds, takes)
    else:
        act(world, deed, role, a_demand_event())
    if deed != "edge":
        expect_no_fault(records)
    assert not [each for each in http.sent if each[0] != "GET" and "default-pool" in each[1]], "it is not ours"


def _call_each(adds: GkeAdds, takes: GkeTakes) -> None:
    """Make every call once; only the documented errors may come out."""
    calls: tuple[Callable[[], object], ...] = (
        lambda: adds.get(CLUSTER, "a"),
        lambda: adds.list(CLUSTER),
        lambda: adds.list_operations(CLUSTER),
        lambda: adds.find_channel(CLUSTER),
        lambda: adds.read_machines(a_pool(group_urls=("projects/p/zones/z/instanceGroupManagers/grp",))),
        lambda: adds.raise_maximum(CLUSTER, "a", 3),
        lambda: takes.lower_maximum(CLUSTER, "a", 2),
        lambda: takes.delete(CLUSTER, "a"),
    )
    for call in calls:
        with suppress(ProvisionerError):
            call()


def _name_call(method: str, url: str) -> str:
    if method != "GET" and "/nodePools" in url:
        return "write"
    path = url.partition("?")[0]
    return next(
        (call for end, call in _ENDS.items() if path.endswith(end)), "get" if "/nodePools/" in path else "cluster"
    )


BORDERS: dict[str, Callable[[Random, Records], None]] = {
    "push": take_push,
    "objects": take_object,
    "gke": take_answer,
}
"""By the place where the product reads what others wrote: what passes an odd input through it."""
