"""Answers of Google's APIs: whatever GKE or Compute says, each call ends in a documented error.

Both functions run on them: a demand, an end of a workload, a tick. A pool that is not ours is
never touched.
"""

import json
from dataclasses import dataclass

from msgspec import structs

from shared.edges.gke import GkeAdds, GkeTakes
from shared.engine.reconcile import Role
from shared.model.errors import ProvisionerError
from shared.model.pools import NodePool
from tests.builders import CLUSTER, a_demand_event, a_pool, an_over_event
from tests.engine.world import World
from tests.fuzz.border import Border, Lost
from tests.fuzz.canned_http import Canned, CannedHttp, open_pools
from tests.fuzz.deliveries import ROLES, push, tick, use_ports
from tests.fuzz.recording import expect_no_fault, recording
from tests.fuzz.spoiling import Recipe, odd_text, spoil, spoil_text, write

_GROUP_URL = "https://compute.googleapis.com/compute/v1/projects/p/zones/us-east5-b/instanceGroupManagers/grp"
_FOREIGN = {
    "name": "default-pool",
    "status": "RUNNING",
    "config": {"labels": {"team": "a"}},
    "initialNodeCount": 3,
}


def _write_pool(pool: NodePool) -> dict[str, object]:
    return {
        "name": pool.name,
        "status": str(pool.status),
        "config": {
            "machineType": pool.machine_type,
            "labels": pool.labels,
            "accelerators": [{"acceleratorCount": "1", "acceleratorType": "nvidia-l4"}],
        },
        "initialNodeCount": pool.node_count,
        "autoscaling": {"maxNodeCount": 4},
        "placementPolicy": {"type": "COMPACT", "tpuTopology": pool.topology},
        "instanceGroupUrls": [_GROUP_URL],
        "conditions": [{"code": "GCE_STOCKOUT", "message": "no stock"}],
        "statusMessage": "",
    }


_OURS = _write_pool(a_pool())
_NO_STOCK = {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "no stock"}
_NO_QUOTA = {"code": "QUOTA_EXCEEDED", "message": "no quota"}
_PROGRESS = {"error": {"errors": [_NO_STOCK]}, "timestamp": "2027-01-15T08:00:00Z"}
_MACHINE = {"instance": "zones/z/instances/n-1", "currentAction": "NONE", "instanceStatus": "RUNNING"}
_MISSING = {
    "instance": "zones/z/instances/n-2",
    "currentAction": "CREATING",
    "lastAttempt": {"errors": {"errors": [_NO_QUOTA]}},
}
_ANSWERS = {
    call: json.dumps(answer).encode()
    for call, answer in {
        "list": {"nodePools": [_OURS, _FOREIGN]},
        "get": _OURS,
        "cluster": {
            "name": CLUSTER.rpartition("/")[2],
            "releaseChannel": {"channel": "REGULAR"},
            "nodePools": [_OURS],
        },
        "group": {
            "targetSize": 4,
            "name": "grp",
            "status": {"bulkInstanceOperation": {"inProgress": True, "lastProgressCheck": _PROGRESS}},
        },
        "machines": {"managedInstances": [_MACHINE, _MISSING]},
        "errors": {"items": [{"error": _NO_STOCK, "timestamp": "2027-01-15T08:00:00.000-08:00"}]},
        "write": {"name": "operation-1", "status": "RUNNING"},
    }.items()
}
_REFUSAL = json.dumps(
    {
        "error": {
            "code": 403,
            "message": "Insufficient quota to satisfy the request: nodePools/x in /clusters/c",
            "status": "PERMISSION_DENIED",
            "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "QUOTA_EXCEEDED"}],
        }
    }
).encode()
_STATUSES = (200, 200, 200, 204, 301, 400, 401, 403, 404, 408, 409, 412, 429, 499, 500, 501, 503, 504, 799)
_ACTS = ("demand", "over", "tick", "tick", "edge")


@dataclass(frozen=True, slots=True)
class OddAnswer:
    """What one kind of call gets, in place of a plain answer."""

    act: str
    role: Role
    """Whose tick it is."""
    call: str
    status: int
    body: bytes
    retry_after: str
    limited: bool
    has_owner: bool


def _build(recipe: Recipe) -> OddAnswer:
    call, status = recipe.choose(tuple(_ANSWERS)), recipe.choose(_STATUSES)
    example = _ANSWERS[call] if status < 300 else _REFUSAL
    body = write(spoil(recipe, example))
    return OddAnswer(
        act=recipe.choose(_ACTS),
        role=recipe.choose(ROLES),
        call=call,
        status=status,
        limited=bool(recipe.number(2)),
        has_owner=bool(recipe.number(2)),
        body=spoil_text(recipe, body) if recipe.number(4) == 1 else body,
        retry_after=recipe.choose(("", "5", odd_text(recipe))),
    )


def _check(odd: OddAnswer) -> None:
    http = CannedHttp(lambda method, url: _answer(odd, method, url))
    with recording() as records:
        world = World(limit_chips=1_000 if odd.limited else 0)
        world.wait(0)
        if not odd.has_owner:
            world.cluster.workloads.clear()
        adds, takes = open_pools(http, GkeAdds), open_pools(http, GkeTakes)
        use_ports(world, pools=adds)
        world.provisioner.ports = structs.replace(world.provisioner.ports, adds=adds)
        world.collector.ports = structs.replace(world.collector.ports, takes=takes)
        if odd.act == "demand":
            push(world, Role.PROVISION, a_demand_event())
        elif odd.act == "over":
            push(world, Role.COLLECT, an_over_event())
        elif odd.act == "tick":
            tick(world, odd.role)
        else:
            _use_edge(adds, takes)
    if odd.act != "edge":
        expect_no_fault(records)
    touched = [(method, url) for method, url, _ in http.sent if method != "GET" and "default-pool" in url]
    if touched:
        raise Lost(f"a pool that is not ours was touched: {touched}")


def _use_edge(adds: GkeAdds, takes: GkeTakes) -> None:
    """Make every call once; only the documented errors may come out."""
    found = adds.get(CLUSTER, "a") or a_pool(group_urls=(_GROUP_URL,))
    adds.list(CLUSTER)
    adds.list_operations(CLUSTER)
    adds.find_channel(CLUSTER)
    adds.read_machines(found)
    adds.raise_maximum(CLUSTER, "a", 3)
    takes.lower_maximum(CLUSTER, "a", 2)
    takes.delete(CLUSTER, "a")


def _answer(odd: OddAnswer, method: str, url: str) -> Canned:
    path = url.partition("?")[0]
    if path.endswith(("/listManagedInstances", "/listErrors")):
        call = "machines" if path.endswith("Instances") else "errors"
    elif method != "GET":
        call = "write"
    elif "/instanceGroupManagers/" in url:
        call = "group"
    else:
        call = "list" if path.endswith("/nodePools") else "get" if "/nodePools/" in path else "cluster"
    if call != odd.call:
        return Canned(_ANSWERS[call])
    headers = {"Retry-After": odd.retry_after} if odd.retry_after else {}
    return Canned(odd.body, odd.status, headers)


def _show(odd: OddAnswer) -> str:
    return (
        f"{odd.act}, owner={odd.has_owner}: {odd.call} is answered {odd.status} {odd.retry_after!r} {odd.body!r}"
    )


def _check_documented(odd: OddAnswer) -> None:
    try:
        _check(odd)
    except ProvisionerError:
        if odd.act != "edge":
            raise


GKE_ANSWERS = Border(name="gke", share=0.2, build=_build, check=_check_documented, show=_show)
