"""Finite capacity: what creates, resizes, spot and flex-start pools get of scarce machines."""

import random
import re
from contextlib import suppress
from typing import Any

import pytest
import yaml
from google.cloud import container_v1

from standins.fakegke.errors import GkeError
from standins.fakegke.tests.fakegke_worlds import EMPTY, FLEX_START, LONG, InProcessWorld, cpu_pool, reserved
from standins.processes.stand_ins import ROOT

Pool = container_v1.NodePool.Status
DAY = 86_400.0
RESERVED = reserved("res-1")


def _world(*rules: dict[str, Any]) -> InProcessWorld:
    return InProcessWorld({"capacity": list(rules)})


def _create_ordinary(world: InProcessWorld, name: str, nodes: int, **config: Any) -> Any:
    pool = cpu_pool(name, initial_node_count=nodes, config=config)
    return world.client.create_node_pool(parent=world.parent, node_pool=pool)


def _resize(world: InProcessWorld, name: str, nodes: int) -> Any:
    return world.client.set_node_pool_size(name=f"{world.parent}/nodePools/{name}", node_count=nodes)


def test_a_slice_that_does_not_fit_whole_fails_like_a_stockout_and_takes_nothing() -> None:
    world = _world({"machine_type": "ct6e-*", "chips": 31})
    assert world.created("fits").error.code == 0
    operation = world.create("late")
    world.advance(2_090)
    assert world.pool("late").status == Pool.PROVISIONING
    world.advance(30)
    done = world.operation(operation)
    assert (done.error.code, world.pool("late").status, world.count_nodes("late")) == (8, Pool.ERROR, 0)
    assert "Atomic resize failed with [GCE_STOCKOUT]" in done.status_message
    assert world.pool("late").status_message == done.status_message
    world.delete("fits")
    world.advance(LONG)
    assert world.created("again").error.code == 0
    assert (world.pool("late").status, world.count_nodes("late")) == (Pool.ERROR, 0)


def test_an_ordinary_pool_gets_what_there_is_and_heals_when_the_rest_comes() -> None:
    world = _world({"nodes": 2, "changes": [{"at": 4000, "nodes": 3}]})
    operation = _create_ordinary(world, "cpus", 3)
    world.advance(2000)
    assert (world.pool("cpus").status, world.count_nodes("cpus")) == (Pool.PROVISIONING, 2)
    world.advance(150)
    done = world.operation(operation)
    message = r"Not all instances running in IGM after 35m\d+\.\d+s\. Expected 3, running 2, transitioning 1"
    assert re.search(message, done.status_message)
    assert (done.error.code, world.pool("cpus").status) == (8, Pool.ERROR)
    world.advance(2000)
    assert (world.pool("cpus").status, world.count_nodes("cpus")) == (Pool.RUNNING, 3)
    assert (world.pool("cpus").status_message, len(world.pool("cpus").conditions)) == ("", 0)


def test_a_used_up_reservation_says_so_in_its_own_words() -> None:
    world = _world({"reservation": "res-*", "nodes": 6})
    assert world.created("first", config=RESERVED).error.code == 0
    done = world.created("second", config=RESERVED)
    text = "Specified reservation res-1 does not have available resources for the request."
    assert (done.error.code, done.error.message, world.pool("second").status) == (8, text, Pool.ERROR)
    assert world.created("elsewhere").error.code == 0


def test_spot_slices_are_taken_back_whole_the_newest_first_and_repaired_when_machines_come() -> None:
    world = _world({"tier": "spot", "nodes": 8, "changes": [{"at": DAY, "nodes": 7}, {"at": 2 * DAY, "nodes": 8}]})
    world.created("old")
    world.created("new")
    before = set(world.record("new").nodes)
    world.advance(DAY)
    assert [(world.count_nodes(name), world.pool(name).status) for name in ("old", "new")] == [
        (4, Pool.RUNNING),
        (0, Pool.RUNNING),
    ]
    world.advance(DAY)
    assert (world.count_nodes("new"), world.pool("new").status) == (4, Pool.RUNNING)
    assert not before & set(world.record("new").nodes)


def test_flex_start_waits_without_nodes_until_the_whole_slice_fits() -> None:
    changes = [{"at": DAY, "nodes": 3}, {"at": 2 * DAY, "nodes": 4}]
    world = _world({"tier": "flex-start", "nodes": 0, "changes": changes})
    assert world.created(config=FLEX_START, **EMPTY).error.code == 0
    world.advance(DAY)
    assert (world.pool().status, world.count_nodes()) == (Pool.RUNNING, 0)
    world.advance(DAY)
    assert (world.pool().status, world.count_nodes()) == (Pool.RUNNING, 4)


@pytest.mark.parametrize("seed", range(30))
def test_no_scenario_uses_more_spot_machines_than_there_are_and_all_come_back(seed: int) -> None:
    chance = random.Random(seed)
    changes = [{"at": 3000 * index, "nodes": chance.randint(0, 16)} for index in range(1, 7)]
    world = _world({"tier": "spot", "nodes": 8, "changes": [*changes, {"at": DAY, "nodes": None}]})
    for step in range(60):
        act, name = chance.choice(["slice", "ordinary", "resize", "delete"]), f"pool-{chance.randint(0, step)}"
        with suppress(GkeError):  # Refusals are expected: no such pool, busy, a slice has no other size.
            if act == "slice":
                world.create(f"pool-{step}")
            elif act == "ordinary":
                _create_ordinary(world, f"pool-{step}", chance.randint(0, 5), spot=True)
            elif act == "resize":
                _resize(world, name, chance.randint(0, 6))
            else:
                world.delete(name)
        world.advance(chance.choice([5, 60, 300, 1000]))
        rows = world.gke.pools()
        now = world.gke.agenda.now
        assert (
            sum(row["nodes"] for row in rows)
            <= ([8] + [each["nodes"] for each in changes if each["at"] <= now])[-1]
        )
    world.advance(DAY + LONG)
    pools = [world.record(row["pool"]) for row in world.gke.pools()]
    assert all((pool.short, len(pool.nodes)) == (0, pool.target) for pool in pools)
    assert all(len(pool.nodes) in (0, 4) for pool in pools if pool.shape.atomic)
    assert all(pool.status == (Pool.RUNNING if pool.nodes or not pool.failed else Pool.ERROR) for pool in pools)


def test_the_manual_has_an_example_that_can_be_played() -> None:
    text = (ROOT / "docs/fake-gke.md").read_text(encoding="utf-8")
    example = next(block for block in text.split("```") if block.startswith("yaml\ncapacity:"))
    script = yaml.safe_load(example.removeprefix("yaml\n"))
    world = InProcessWorld(script)
    assert len(script["capacity"]) == 5
    assert [world.created(name).error.code for name in ("first", "too-late")] == [0, 8]
    _create_ordinary(world, "cpus", 9)
    world.advance(LONG)
    assert world.pool("cpus").status == Pool.RUNNING
