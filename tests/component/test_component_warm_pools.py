"""An ended workload's pool stays for the next one: idle, used, idle again, gone."""

from typing import Any

import pytest

from shared.core import labels
from shared.core.identity.pools import PoolSnapshot
from shared.core.kinds import jobset as jobset_keys
from shared.core.ports import SurplusMark
from tests.builders import CLUSTER, NOW, a_demand_event, a_jobset, a_pod, a_pool, a_template, an_over_event
from tests.component.world import NAME, World

NODES = ["n0", "n1", "n2", "n3"]
IDLE = 1800
DONE: dict[str, Any] = {"terminal": "Completed", "terminal_since": NOW}
TOGETHER: dict[str, Any] = {"node_pool_affinity": True}
ASK = labels.IDLE_SECONDS


def a_warm_pool(name: str = NAME, idle: int = IDLE, **overrides: Any) -> PoolSnapshot:
    return a_pool(extra_labels={labels.IDLE: str(idle)}, name=name, **overrides)


@pytest.fixture
def world(world: World) -> World:
    return make_warm(world)


def make_warm(world: World) -> World:
    """Return the plain case: its workload has completed, and its pool may stay idle."""
    world.use(idle_seconds=IDLE)
    world.cluster.pods.clear()
    world.pools.add(CLUSTER, a_warm_pool())
    world.cluster.nodes[NAME] = list(NODES)
    world.cluster.add(a_jobset(**DONE))
    return world


def sweep(world: World, *, after: float = 60) -> None:
    world.clock.advance(after)
    world.sweep()


def mark_all(since: float, *, closed: bool = False) -> dict[str, SurplusMark]:
    return {name: SurplusMark(since, closed) for name in NODES}


def status(world: World, name: str = NAME) -> str:
    found = world.pools.pools.get((CLUSTER, name))
    return str(found.status) if found else "gone"


def use(world: World, *, workload: str = "next", **pod: Any) -> None:
    world.cluster.bind(NAME, workload=workload, **pod)


# --- its life -------------------------------------------------------------------------------------


def test_an_idle_pool_stays_for_its_time_and_is_gone_within_a_sweep_after_it(world: World) -> None:
    sweep(world)
    began = world.clock.now()
    assert world.cluster.marks == mark_all(began)
    while world.clock.now() + 60 < began + IDLE:
        sweep(world)
        assert status(world) == "RUNNING"
    sweep(world)

    assert status(world) == "STOPPING"
    assert world.cluster.marks == mark_all(began, closed=True), "no pod comes while the pool is deleted"


def test_the_end_of_the_workload_keeps_the_pool_and_tells_it(world: World) -> None:
    world.collect(an_over_event())

    assert world.says() == ("keep", "pool_warm")
    assert world.last["idle_seconds"] == IDLE
    assert world.cluster.marks == {}, "only the sweep may change nodes"
    assert world.notices() == [("JobSet", "NodePoolKept", False)]


def test_use_keeps_it_alive_and_after_the_use_the_time_begins_again(world: World) -> None:
    sweep(world)
    use(world)
    sweep(world, after=IDLE - 30)
    assert world.cluster.marks == {}
    sweep(world, after=10 * IDLE)
    assert status(world) == "RUNNING"
    assert world.cluster.notices == {}, "whoever uses it is no intruder"

    world.cluster.bound.clear()
    sweep(world)
    ended = world.clock.now()
    sweep(world, after=IDLE - 60)
    assert (status(world), world.cluster.marks) == ("RUNNING", mark_all(ended))
    sweep(world)
    assert status(world) == "STOPPING"


# --- who may --------------------------------------------------------------------------------------


def deliver_asking(world: World, asked: str | None, *, pinned: bool = False, **template: Any) -> None:
    annotations = {} if asked is None else {ASK: asked}
    found = a_template(**{**TOGETHER, **template}, annotations=annotations)
    both = {jobset_keys.EXCLUSIVE_TOPOLOGY: labels.NODE_POOL, jobset_keys.NODE_SELECTOR_STRATEGY: "true"}
    world.pools.pools.clear()
    world.cluster.add(a_pod(template=found), a_jobset(template=found, annotations=both if pinned else {}))
    world.deliver(a_demand_event())


@pytest.mark.parametrize(
    ("asked", "label"), [(None, str(IDLE)), ("0", None), ("60", "60"), ("1800", "1800"), ("3600", "3600")]
)
def test_the_setting_and_the_annotation_say_how_long(world: World, asked: str | None, label: str | None) -> None:
    world.use(idle_seconds=IDLE, idle_seconds_max=3600)
    deliver_asking(world, asked)

    assert world.pools.bodies[0]["config"]["labels"].get(labels.IDLE) == label
    assert world.last.get("idle_seconds", 0) == int(label or 0)


@pytest.mark.parametrize("asked", ["1801", "-1", "1h", "", "9" * 5000])
def test_an_annotation_out_of_range_is_refused_with_what_is_valid(world: World, asked: str) -> None:
    deliver_asking(world, asked)

    assert world.says() == ("refuse", "request_not_allowed")
    assert f"annotation {ASK}" in world.last["message"]
    assert "valid: 0 to 1800" in world.last["message"]
    assert world.pools.bodies == []


@pytest.mark.parametrize(
    ("changes", "why"), [({"pinned": True}, "pinned"), ({"node_pool_affinity": False}, "keeps the pods")]
)
def test_a_pool_that_no_other_workload_may_use_never_stays(world: World, changes: Any, why: str) -> None:
    deliver_asking(world, None, **changes)
    assert labels.IDLE not in world.pools.bodies[0]["config"]["labels"]
    deliver_asking(world, "60", **changes)
    assert world.says() == ("refuse", "request_not_allowed")
    assert why in world.last["message"]
    deliver_asking(world, "0", **changes)
    assert world.says() == ("create", "pool_absent")
