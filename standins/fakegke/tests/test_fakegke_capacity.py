"""Finite capacity: what creates, resizes, spot and flex-start pools get of scarce machines."""

import random
import re
from contextlib import suppress
from typing import Any

import pytest
import yaml
from google.cloud import container_v1

from standins.fakegke.errors import GkeError
from standins.fakegke.model.instance_groups import InstanceGroups
from standins.fakegke.model.node_events import Event, NodeUp
from standins.fakegke.tests.fakegke_worlds import (
    EMPTY,
    FLEX_START,
    LONG,
    PROJECT,
    ZONE,
    InProcessWorld,
    cpu_pool,
    reserved,
    slice_pool,
)
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


def _code(world: InProcessWorld, operation: Any) -> int:
    return int(world.operation(operation).error.code)


def test_what_no_rule_covers_has_no_bound() -> None:
    world = _world({"machine_type": "ct6e-*", "tier": "on-demand", "nodes": 0})
    assert world.created("spot").error.code == 0
    assert world.created("none-left", config={"spot": False}).error.code == 8


def test_the_first_rule_that_covers_a_pool_counts() -> None:
    world = _world({"tier": "spot", "nodes": None}, {"nodes": 0})
    assert world.created("spot").error.code == 0
    assert world.created("other", config={"spot": False}).error.code == 8


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


def test_machines_are_taken_when_the_nodes_are_made_and_not_when_the_create_ends() -> None:
    world = _world({"nodes": 4})
    first = world.create("first")
    world.advance(10)
    second = world.create("second")
    world.advance(LONG)
    assert (_code(world, first), _code(world, second)) == (0, 8)


def test_two_machine_types_share_a_stock_of_chips() -> None:
    world = _world({"machine_type": "ct6e-*", "chips": 24})
    assert world.created("slice").error.code == 0
    single = {"initial_node_count": 1, "placement_policy": {}, "config": {"machine_type": "ct6e-standard-8t"}}
    assert world.created("one", **single).error.code == 0
    assert world.created("two", **single).error.code == 8


def test_chips_are_gpus_too_and_machines_without_either_need_none() -> None:
    world = _world({"chips": 8})
    accelerators = [{"accelerator_type": "nvidia-h100-80gb", "accelerator_count": 8}]
    gpus = {"machine_type": "a3-highgpu-8g", "disk_type": "pd-ssd", "accelerators": accelerators}
    operations = [_create_ordinary(world, name, 1, **gpus) for name in ("gpu-1", "gpu-2")]
    operations.append(_create_ordinary(world, "cpus", 5))
    world.advance(LONG)
    assert sorted(_code(world, each) for each in operations[:2]) == [0, 8]
    assert _code(world, operations[2]) == 0


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


def test_a_create_succeeds_when_machines_come_while_gke_still_tries() -> None:
    world = _world({"nodes": 0, "changes": [{"at": 600, "nodes": 3}]})
    operation = _create_ordinary(world, "cpus", 3)
    world.advance(LONG)
    assert (_code(world, operation), world.pool("cpus").status, world.count_nodes("cpus")) == (0, Pool.RUNNING, 3)


def test_a_used_up_reservation_says_so_in_its_own_words() -> None:
    world = _world({"reservation": "res-*", "nodes": 6})
    assert world.created("first", config=RESERVED).error.code == 0
    done = world.created("second", config=RESERVED)
    text = "Specified reservation res-1 does not have available resources for the request."
    assert (done.error.code, done.error.message, world.pool("second").status) == (8, text, Pool.ERROR)
    assert world.created("elsewhere").error.code == 0


def test_a_resize_that_does_not_fit_fails_late_and_a_smaller_one_makes_the_pool_whole() -> None:
    world = _world({"nodes": 3})
    _create_ordinary(world, "cpus", 2)
    world.advance(LONG)
    grow = _resize(world, "cpus", 4)
    world.advance(2000)
    assert world.pool("cpus").status == Pool.RECONCILING
    world.advance(150)
    done = world.operation(grow)
    assert "Expected 4, running 3, transitioning 1. Current errors: [GCE_STOCKOUT]" in done.status_message
    assert (world.pool("cpus").status, world.count_nodes("cpus")) == (Pool.RUNNING_WITH_ERROR, 3)
    conditions = len(world.pool("cpus").conditions)
    _resize(world, "cpus", 4)
    world.advance(LONG)
    assert len(world.pool("cpus").conditions) == conditions
    shrink = _resize(world, "cpus", 3)
    world.advance(LONG)
    assert (_code(world, shrink), world.pool("cpus").status, world.count_nodes("cpus")) == (0, Pool.RUNNING, 3)


def test_what_a_group_cannot_make_is_given_up_by_name_and_never_comes() -> None:
    world = _world({"nodes": 3, "changes": [{"at": DAY, "nodes": 9}]})
    _create_ordinary(world, "cpus", 2)
    world.advance(LONG)
    _resize(world, "cpus", 5)
    world.advance(LONG)
    compute = InstanceGroups(world.gke.world, world.gke.growth)
    group = world.pool("cpus").instance_group_urls[0].rsplit("/", 1)[-1]
    rows = compute.managed_instances(PROJECT, group, zone=ZONE)["managedInstances"]
    missing = [each["instance"] for each in rows if each["currentAction"] == "CREATING"]
    assert (len(rows), len(missing)) == (5, 2)

    compute.delete_instances(PROJECT, group, {"instances": missing}, zone=ZONE)
    assert compute.group(PROJECT, group, zone=ZONE)["targetSize"] == 3
    with pytest.raises(GkeError, match="not a member"):
        compute.delete_instances(PROJECT, group, {"instances": missing}, zone=ZONE)
    world.advance(DAY)
    assert (world.count_nodes("cpus"), world.pool("cpus").status) == (3, Pool.RUNNING_WITH_ERROR)


def test_machines_of_a_smaller_or_deleted_pool_go_to_the_one_that_waits() -> None:
    world = _world({"nodes": 4})
    _create_ordinary(world, "old", 3)
    world.advance(LONG)
    _create_ordinary(world, "waits", 3)
    world.advance(LONG)
    assert world.count_nodes("waits") == 1
    _resize(world, "old", 2)
    world.advance(LONG)
    assert world.count_nodes("waits") == 2
    world.delete("old")
    world.advance(LONG)
    assert (world.count_nodes("waits"), world.pool("waits").status) == (3, Pool.RUNNING)


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


def test_the_seconds_of_a_rule_may_count_from_its_first_node() -> None:
    world = _world({"tier": "spot", "nodes": 4, "from_use": True, "changes": [{"at": LONG, "nodes": 0}]})
    world.advance(DAY)
    assert world.created("late").error.code == 0
    assert world.count_nodes("late") == 4
    world.advance(LONG)
    assert (world.count_nodes("late"), world.pool("late").status) == (0, Pool.RUNNING)
    assert world.created("later").error.code == 8


def test_an_ordinary_spot_pool_loses_no_more_nodes_than_are_taken() -> None:
    world = _world({"nodes": 5, "changes": [{"at": DAY, "nodes": 3}]})
    _create_ordinary(world, "spot", 4, spot=True)
    world.advance(LONG)
    _create_ordinary(world, "paid", 1)
    world.advance(DAY)
    assert (world.count_nodes("spot"), world.count_nodes("paid")) == (2, 1)
    assert world.pool("spot").status == Pool.RUNNING


def test_other_tiers_keep_what_they_have_above_a_lowered_bound() -> None:
    world = _world({"tier": "on-demand", "nodes": 8, "changes": [{"at": DAY, "nodes": 0}]})
    world.created(config={"spot": False})
    world.advance(DAY)
    assert world.count_nodes() == 4
    assert world.created("more", config={"spot": False}).error.code == 8


def test_a_spot_slice_whose_machines_are_taken_while_it_comes_up_fails() -> None:
    world = _world({"tier": "spot", "nodes": 4, "changes": [{"at": 100, "nodes": 0}, {"at": DAY, "nodes": 4}]})
    done = world.created()
    world.advance(DAY)
    assert (done.error.code, world.pool().status, world.count_nodes()) == (8, Pool.ERROR, 0)


def test_the_newest_pool_loses_its_machines_whichever_cluster_it_is_in() -> None:
    world = _world({"tier": "spot", "nodes": 8, "changes": [{"at": DAY, "nodes": 4}]})
    zonal = f"projects/{PROJECT}/locations/{ZONE}/clusters/{world.zonal}"
    world.client.create_node_pool(parent=zonal, node_pool=slice_pool("old"))
    world.advance(LONG)
    world.created("new")
    world.advance(DAY)
    assert {row["pool"]: row["nodes"] for row in world.gke.pools()} == {"old": 4, "new": 0}


def test_a_pool_that_is_being_deleted_gets_no_new_nodes() -> None:
    world = _world({"nodes": 4, "changes": [{"at": DAY, "nodes": 0}, {"at": DAY + 30, "nodes": 4}]})
    world.created()
    world.advance(DAY - LONG - 10)
    world.delete()
    told: list[Event] = []
    world.gke.listen(told.append)
    world.advance(LONG)
    assert world.pools() == []
    assert not [event for event in told if isinstance(event, NodeUp)]


def test_machines_that_a_caller_deletes_go_to_the_pool_that_waits() -> None:
    world = _world({"nodes": 2})
    for name in ("old", "waits"):
        _create_ordinary(world, name, 2)
        world.advance(LONG)
    (url,), (node, _) = world.pool("old").instance_group_urls, world.record("old").nodes
    body = {"instances": [f"zones/{ZONE}/instances/{node}"]}
    InstanceGroups(world.gke.world, world.gke.growth).delete_instances(
        PROJECT, url.rsplit("/", 1)[-1], body, zone=ZONE
    )
    world.advance(LONG)
    assert (world.count_nodes("old"), world.count_nodes("waits")) == (1, 1)


def test_machines_of_a_broken_pool_of_a_reservation_are_free_when_it_is_deleted() -> None:
    world = _world({"reservation": "res-1", "nodes": 5})
    world.add_fault(switch="outcome", kind="internal", pool="broken")
    world.created("broken", config=RESERVED)
    _create_ordinary(world, "waits", 1, **RESERVED)
    world.advance(LONG)
    grow = _resize(world, "waits", 3)
    world.advance(LONG)
    assert "Specified reservation res-1 does not have" in world.operation(grow).error.message
    assert world.count_nodes("waits") == 1
    world.delete("broken")
    world.advance(LONG)
    assert (world.count_nodes("waits"), world.pool("waits").status) == (3, Pool.RUNNING)


def test_flex_start_waits_without_nodes_until_the_whole_slice_fits() -> None:
    changes = [{"at": DAY, "nodes": 3}, {"at": 2 * DAY, "nodes": 4}]
    world = _world({"tier": "flex-start", "nodes": 0, "changes": changes})
    assert world.created(config=FLEX_START, **EMPTY).error.code == 0
    world.advance(DAY)
    assert (world.pool().status, world.count_nodes()) == (Pool.RUNNING, 0)
    world.advance(DAY)
    assert (world.pool().status, world.count_nodes()) == (Pool.RUNNING, 4)


def test_flex_start_that_no_rule_covers_stays_empty_as_without_a_script() -> None:
    world = _world({"tier": "spot", "nodes": 0})
    world.created(config=FLEX_START, **EMPTY)
    assert world.count_nodes() == 0


def test_a_pool_that_is_deleted_while_it_waits_gets_nothing() -> None:
    world = _world({"nodes": 0, "changes": [{"at": DAY, "nodes": 9}]})
    world.created(config=FLEX_START, **EMPTY)
    world.delete()
    world.advance(DAY)
    assert world.pools() == []
    assert world.created("next", initial_node_count=4).error.code == 0


def test_a_fault_that_says_how_a_create_ends_is_stronger() -> None:
    world = _world({"nodes": 0})
    world.add_fault(switch="outcome", kind="ok", count=1)
    assert world.created("first").error.code == 0
    assert world.created("second").error.code == 8


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
