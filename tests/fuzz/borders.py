"""The borders of the product: how an odd input is made of a recipe, and what must hold for it."""

import base64
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import note
from msgspec import structs

from shared.deliver import Answer, deliver, deliver_tick, parse_push
from shared.edges.cluster import KubernetesCluster
from shared.edges.gke import GkeAdds, GkeTakes
from shared.engine.outside import Cluster, Role
from shared.kinds.table import get_kind
from shared.model.errors import JSON_ERRORS, ProvisionerError, Rejected
from shared.model.messages import Event, EventType, format_message
from shared.model.names import ObjectName
from shared.model.pools import PoolStatus
from tests.builders import CLUSTER, a_demand_event, a_pool, a_push, an_over_event
from tests.engine.world import World
from tests.fuzz.canned import NAMESPACE, NODE, Canned, CannedHttp, CannedKubernetes, Scene, open_pools
from tests.fuzz.spoiling import Recipe, odd_text, spoil, spoil_text, write
from tests.log_records import Records

ROLES = tuple(Role)


class Lost(AssertionError):
    """An input disappeared: no decision, no retry, no report that names it."""


@contextmanager
def recording() -> Iterator[Records]:
    """Yield the records of all loggers from INFO on; a record that cannot be written raises."""
    root, records = logging.getLogger(), Records()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = [records]
    root.setLevel(logging.INFO)
    try:
        yield records
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def expect_no_fault(records: Records) -> None:
    """Check that the functions met no error of their own."""
    if broken := [record for record in records.found if record.get("reason") == "internal_error"]:
        raise Lost(f"an error that is not documented: {broken}")


def use_ports(world: World, **ports: Any) -> None:
    """Give both functions other ports."""
    for function in (world.provisioner, world.collector):
        function.ports = structs.replace(function.ports, **ports)


def push(world: World, role: Role, message: Event | bytes) -> Answer:
    """Deliver a message, or the body of a push, to one function."""
    body = message if isinstance(message, bytes) else a_push(message)
    function = world.provisioner if role == Role.PROVISION else world.collector
    return deliver(role, body, function.ports)


def act(world: World, name: str, role: Role, demand: Event, over: Event) -> None:
    """Let a function do what an input says."""
    if name == "tick":
        function = world.provisioner if role == Role.PROVISION else world.collector
        deliver_tick(role, CLUSTER, function.ports)
    else:
        push(world, *((Role.PROVISION, demand) if name == "demand" else (Role.COLLECT, over)))


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


def push_body(recipe: Recipe) -> bytes:
    """Spoil the data of a message, its envelope, or the text of both."""
    event = recipe.choose(_EVENTS)
    data = spoil_text(recipe, write(spoil(recipe, format_message(event).data)))
    envelope: Any = spoil(recipe, a_push(event), changes_max=recipe.choose((0, 0, 2)))
    with suppress(AttributeError, TypeError, KeyError):  # else it has no place for data
        if isinstance(envelope["message"]["data"], str):
            envelope["message"]["data"] = base64.b64encode(data).decode()
    body = write(envelope)
    return spoil_text(recipe, body) if recipe.number(4) == 1 else body


def take_push(recipe: Recipe) -> None:
    """Check that each answer has its record, and a refusal the message."""
    body, role, has_pool = push_body(recipe), recipe.choose(ROLES), recipe.number(2)
    note(f"{role} gets {body!r:.4000}, with a pool: {has_pool}")
    with recording() as records:
        world = World()
        world.wait(0)
        if has_pool:
            world.gke.pools[a_pool().name] = a_pool()
        answer = push(world, role, body)
    messages = [record for record in records.found if record.get("logger") == "functions"]
    if not all(message.get("reason") for message in messages if "decision" in message):
        raise Lost(f"answered {answer.status} with these records: {messages}")
    refused = [message for message in messages if message.get("decision") == "reject"]
    if refused and (len(messages) > 1 or answer.status >= 300 or not _has_data(refused[0], body)):
        raise Lost(f"refused, answered {answer.status}, and not kept in the log: {messages}")
    if answer.status >= 300 and not any(message.get("decision") == "none" for message in messages):
        raise Lost(f"answered {answer.status} without the error in the log: {messages}")


def _has_data(record: dict[str, Any], body: bytes) -> bool:
    """Return whether the record of a refusal has the message, as far as it is not cut."""
    kept, texts = record.get("event_data", "").partition("… (")[0], [body]
    with suppress(Rejected):
        texts.append(parse_push(body).message.data)
    return any(each[:8192].decode(errors="replace").startswith(kept) for each in texts)


# --- Kubernetes objects: one that is odd never stops the steady JobSet beside it ---

_PARTS = (*("workload",) * 3, *("pod",) * 3, "bound", "node", "namespace", "metadata")
_SHARED = {"node": NODE, "namespace": NAMESPACE, "metadata": b'{"resourceVersion": "100", "continue": ""}'}
"""What the neighbour needs too: nothing of it can be read or told without."""


def _read_scene(line: str) -> Scene:
    body = json.loads(line)
    workload, pod = (json.dumps(body[each]).encode() for each in ("workload", "pod"))
    return Scene(kind=get_kind(body["kind"]), name=body["name"], workload=workload, pod=pod)


STEADY, *SCENES = map(_read_scene, (Path(__file__).parent / "scenes.jsonl").read_text().splitlines())


def live_through(
    scene: Scene, deed: str = "demand", part: str = "", text: bytes = b"", *, pool: str = "", limited: bool = False
) -> World:
    """Return the world after an act on a cluster of which a part has another text.

    The scene's pool, if there is one, has that status.
    """
    canned = CannedKubernetes(scene=scene, workload=scene.workload, pod=scene.pod, steady=STEADY)
    if part:
        setattr(canned, part, text)
    with recording() as records:
        world = World(limit_chips=100_000 if limited else 0)
        clusters: dict[str, Cluster] = {CLUSTER: KubernetesCluster(canned.open(), clock=world.clock)}
        use_ports(world, clusters=clusters)
        if pool:
            own = _POOLS[scene.name]
            canned.pool_name = own.name
            world.gke.pools[own.name] = structs.replace(own, status=PoolStatus(pool))
        subject = ObjectName(
            kind=scene.kind.name, namespace="default", name=scene.name, uid=f"uid-of-{scene.name}"
        )
        demand = Event(type=EventType.DEMAND, cluster=CLUSTER, subject=subject)
        over = structs.replace(demand, type=EventType.WORKLOAD_OVER)
        for role in (Role.COLLECT, Role.PROVISION) if deed == "tick" else (Role.PROVISION,):
            act(world, deed, role, demand, over)
    expect_no_fault(records)
    return world


def take_object(recipe: Recipe) -> None:
    """Spoil a workload, its pod, one on its node, or what all share: neighbours get their pool."""
    scene, part = recipe.choose(SCENES), recipe.choose(_PARTS)
    example = scene.workload if part == "workload" else _SHARED.get(part, scene.pod)
    deed = recipe.choose(("demand", "demand", "over", "over", "tick"))
    pool, limited = recipe.choose(("", "RUNNING", "RUNNING", "ERROR")), recipe.number(4) == 1
    text = write(spoil(recipe, example))
    note(f"{deed} of {scene.name}, pool {pool!r}, limited: {limited}, {part}: {text!r:.4000}")
    world = live_through(scene, deed, part, text, pool=pool, limited=limited)
    if deed != "tick" or part in _SHARED or _POOLS[STEADY.name].name in world.gke.pools:
        return
    with suppress(*JSON_ERRORS):  # unless no answer was JSON
        msgspec.json.decode(b'{"in": [{"a": ' + text + b"}]}")
        raise Lost("the neighbour got no pool")


_POOLS = {scene.name: next(iter(live_through(scene).gke.pools.values())) for scene in (STEADY, *SCENES)}
"""The pool that each unspoilt scene gets."""

# --- answers of Google: each call ends in a documented error; no foreign pool is touched ---

_GROUP_URL = "https://compute.googleapis.com/compute/v1/projects/p/zones/us-east5-b/instanceGroupManagers/grp"
_OURS = {
    "name": a_pool().name,
    "status": "RUNNING",
    "config": {
        "machineType": a_pool().machine_type,
        "labels": a_pool().labels,
        "accelerators": [{"acceleratorCount": "1", "acceleratorType": "nvidia-l4"}],
    },
    "initialNodeCount": 4,
    "autoscaling": {"maxNodeCount": 4},
    "placementPolicy": {"type": "COMPACT", "tpuTopology": a_pool().topology},
    "instanceGroupUrls": [_GROUP_URL],
    "conditions": [{"code": "GCE_STOCKOUT", "message": "no stock"}],
    "statusMessage": "",
}
_FOREIGN = {
    "name": "default-pool",
    "status": "RUNNING",
    "config": {"labels": {"team": "a"}},
    "initialNodeCount": 3,
}
_NO_STOCK = {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "no stock"}
_PROGRESS = {"error": {"errors": [_NO_STOCK]}, "timestamp": "2027-01-15T08:00:00Z"}
_MACHINE = {"instance": "zones/z/instances/n-1", "currentAction": "NONE", "instanceStatus": "RUNNING"}
_MISSING = {
    "instance": "zones/z/instances/n-2",
    "currentAction": "CREATING",
    "lastAttempt": {"errors": {"errors": [{"code": "QUOTA_EXCEEDED", "message": "no quota"}]}},
}
_BULK = {"bulkInstanceOperation": {"inProgress": True, "lastProgressCheck": _PROGRESS}}
_ANSWERS = {
    call: json.dumps(answer).encode()
    for call, answer in {
        "list": {"nodePools": [_OURS, _FOREIGN]},
        "get": _OURS,
        "cluster": {"name": CLUSTER.rpartition("/")[2], "releaseChannel": {"channel": "REGULAR"}},
        "group": {"targetSize": 4, "name": "grp", "status": _BULK},
        "machines": {"managedInstances": [_MACHINE, _MISSING]},
        "errors": {"items": [{"error": _NO_STOCK, "timestamp": "2027-01-15T08:00:00.000-08:00"}]},
        "write": {"name": "operation-1", "status": "RUNNING"},
    }.items()
}
_DETAIL = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "QUOTA_EXCEEDED"}
_WORDS = "Insufficient quota to satisfy the request: nodePools/x in /clusters/c"
_REFUSAL = {"code": 403, "message": _WORDS, "status": "PERMISSION_DENIED", "details": [_DETAIL]}
_STATUSES = (200, 200, 200, 204, 301, 400, 401, 403, 404, 408, 409, 412, 429, 499, 500, 501, 503, 504, 799)


def take_answer(recipe: Recipe) -> None:
    """Spoil one kind of answer: both functions, and each call by itself, live with it."""
    odd_call, status = recipe.choose(tuple(_ANSWERS)), recipe.choose(_STATUSES)
    example = _ANSWERS[odd_call] if status < 300 else json.dumps({"error": _REFUSAL}).encode()
    body = write(spoil(recipe, example))
    deed, role = recipe.choose(("demand", "over", "tick", "tick", "edge")), recipe.choose(ROLES)
    limited, has_owner = recipe.number(2), recipe.number(2)
    body = spoil_text(recipe, body) if recipe.number(4) == 1 else body
    pause = recipe.choose(("", "5", odd_text(recipe)))
    odd = Canned(body, status, {"Retry-After": pause} if pause else {})
    note(f"{role} {deed}, limited: {limited}, owner: {has_owner}, {odd_call}: {odd!r:.4000}")

    def answer(method: str, url: str) -> Canned:
        call = _name_call(method, url)
        return odd if call == odd_call else Canned(_ANSWERS[call])

    http = CannedHttp(answer)
    with recording() as records:
        world = World(limit_chips=1_000 if limited else 0)
        world.wait(0)
        if not has_owner:
            world.cluster.workloads.clear()
        adds, takes = open_pools(http, GkeAdds), open_pools(http, GkeTakes)
        use_ports(world, pools=adds)
        world.provisioner.ports = structs.replace(world.provisioner.ports, adds=adds)
        world.collector.ports = structs.replace(world.collector.ports, takes=takes)
        if deed == "edge":
            with suppress(ProvisionerError):
                _call_each(adds, takes)
        else:
            act(world, deed, role, a_demand_event(), an_over_event())
    if deed != "edge":
        expect_no_fault(records)
    if touched := [each for each in http.sent if each[0] != "GET" and "default-pool" in each[1]]:
        raise Lost(f"a pool that is not ours was touched: {touched}")


def _call_each(adds: GkeAdds, takes: GkeTakes) -> None:
    """Make every call once; only the documented errors may come out."""
    pool = adds.get(CLUSTER, "a") or a_pool(group_urls=(_GROUP_URL,))
    adds.list(CLUSTER)
    adds.list_operations(CLUSTER)
    adds.find_channel(CLUSTER)
    adds.read_machines(pool)
    adds.raise_maximum(CLUSTER, "a", 3)
    takes.lower_maximum(CLUSTER, "a", 2)
    takes.delete(CLUSTER, "a")


def _name_call(method: str, url: str) -> str:
    path = url.partition("?")[0]
    calls = {
        "/listManagedInstances": "machines",
        "/listErrors": "errors",
        "": "write" if method != "GET" else "",
        "/instanceGroupManagers/grp": "group",
        "/nodePools": "list",
    }
    of_path = (call for end, call in calls.items() if call and path.endswith(end))
    return next(of_path, "get" if "/nodePools/" in path else "cluster")


BORDERS: dict[str, Callable[[Recipe], None]] = {"push": take_push, "objects": take_object, "gke": take_answer}
"""By the place where the product reads what others wrote: what passes an odd input through it."""
