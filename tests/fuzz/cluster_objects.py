"""Kubernetes objects, as the functions read them: one that is odd never stops the others.

A spoilt workload, pod, node or namespace stands beside a steady JobSet. Whatever becomes of the
first, the tick gives the second its pool, and every delivery ends in an answer.
"""

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import structs

from shared.edges.cluster import KubernetesCluster
from shared.engine.outside import Cluster
from shared.engine.reconcile import Role
from shared.model.errors import JSON_ERRORS
from shared.model.messages import Event, EventType
from shared.model.names import ObjectName
from shared.model.pools import NodePool, PoolStatus
from tests.builders import CLUSTER
from tests.engine.world import World
from tests.fuzz.border import Border, Lost
from tests.fuzz.canned_kubernetes import NAMESPACE, NODE, CannedKubernetes
from tests.fuzz.deliveries import push, tick, use_ports
from tests.fuzz.recording import expect_no_fault, recording
from tests.fuzz.scenes import Scene, list_scenes
from tests.fuzz.spoiling import Recipe, spoil, write

STEADY, *SCENES = list_scenes()
_ACTS = ("demand", "demand", "over", "over", "tick")
_PARTS = (*("workload",) * 3, *("pod",) * 3, "bound", "node", "namespace", "metadata", "notice")
_METADATA = b'{"resourceVersion": "100", "continue": ""}'
_NOTICE = b'{"metadata": {"name": "x"}, "count": 3, "lastTimestamp": "2027-01-15T07:59:00Z"}'


@dataclass(frozen=True, slots=True)
class Odd:
    """One spoilt object in its scene."""

    scene: Scene
    part: str
    text: bytes
    act: str
    pool: str
    """The status of the scene's pool; empty for none."""
    limited: bool


def _build(recipe: Recipe) -> Odd:
    scene, part = recipe.choose(SCENES), recipe.choose(_PARTS)
    example = {
        "workload": scene.workload,
        "node": NODE,
        "namespace": NAMESPACE,
        "metadata": _METADATA,
        "notice": _NOTICE,
    }.get(part, scene.pod)
    return Odd(
        scene=scene,
        part=part,
        act=recipe.choose(_ACTS),
        pool=recipe.choose(("", "RUNNING", "RUNNING", "ERROR")),
        limited=recipe.number(4) == 1,
        text=write(spoil(recipe, example)),
    )


def _check(odd: Odd) -> None:
    canned = CannedKubernetes(scene=odd.scene, workload=odd.scene.workload, pod=odd.scene.pod, steady=STEADY)
    if odd.part == "bound":
        canned.on_nodes = (odd.text,)
    elif odd.part == "metadata":
        canned.page_metadata = odd.text
    else:
        setattr(canned, odd.part, odd.text)
        canned.events_exist = odd.part == "notice"
    with recording() as records:
        world = _open_world(canned, limited=odd.limited)
        if odd.pool:
            pool = _POOLS[odd.scene.name]
            canned.pool_name = pool.name
            world.gke.pools[pool.name] = structs.replace(pool, status=PoolStatus(odd.pool))
        if odd.act == "tick":
            tick(world, Role.COLLECT)
            tick(world, Role.PROVISION)
        else:
            push(world, Role.PROVISION if odd.act == "demand" else Role.COLLECT, _format_event(odd))
    expect_no_fault(records)
    if odd.act == "tick":
        _check_tick(odd, world)


def _check_tick(odd: Odd, world: World) -> None:
    """Check that the steady neighbour has its pool, unless the answer was no JSON as a whole."""
    if _POOLS[STEADY.name].name in world.gke.pools:
        return
    if odd.part in ("namespace", "node", "notice", "metadata") or not _is_json(odd.text):
        return  # shared by all: nothing of the neighbour can be read or told
    raise Lost("the neighbour got no pool")


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(b'{"in": [{"a": ' + text + b"}]}")
    except JSON_ERRORS:
        return False
    return True


def _open_world(canned: CannedKubernetes, *, limited: bool = False) -> World:
    world = World(limit_chips=100_000 if limited else 0)
    clusters: dict[str, Cluster] = {CLUSTER: KubernetesCluster(canned.open(), clock=world.clock)}
    use_ports(world, clusters=clusters)
    return world


def _format_event(odd: Odd) -> Event:
    metadata: dict[str, Any] = msgspec.json.decode(odd.scene.workload)["metadata"]
    kind = odd.scene.kind.name
    return Event(
        type=EventType.DEMAND if odd.act == "demand" else EventType.WORKLOAD_OVER,
        cluster=CLUSTER,
        subject=ObjectName(kind=kind, namespace="default", name=metadata["name"], uid=metadata["uid"]),
    )


def _make_pool(scene: Scene) -> NodePool:
    """Return the pool that an unspoilt scene gets."""
    canned = CannedKubernetes(scene=scene, workload=scene.workload, pod=scene.pod, steady=STEADY)
    odd = Odd(scene=scene, part="", text=b"", act="demand", pool="", limited=False)
    with recording() as records:
        world = _open_world(canned)
        push(world, Role.PROVISION, _format_event(odd))
    assert world.gke.pools, f"{scene.name} gets no pool: {records.found}"
    return next(iter(world.gke.pools.values()))


def _show(odd: Odd) -> str:
    return (
        f"{odd.act} with the {odd.part} of {odd.scene.kind.name} {odd.scene.name}, pool {odd.pool}: {odd.text!r}"
    )


_POOLS = {scene.name: _make_pool(scene) for scene in (STEADY, *SCENES)}
CLUSTER_OBJECTS = Border(name="objects", share=0.17, build=_build, check=_check, show=_show)
