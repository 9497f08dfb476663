"""Finite capacity: what creates, resizes, spot pools and flex-start pools get while machines are scarce."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from google.cloud import container_v1

from standins.fakegke.faults.capacity_script import Stock, parse_capacity
from standins.fakegke.faults.fault_rules import Target
from standins.fakegke.resource_names import ClusterName
from standins.fakegke.tests.fakegke_worlds import LOCATION, LONG, PROJECT, InProcessWorld, cpu_pool
from standins.processes.stand_ins import ROOT

if TYPE_CHECKING:
    from standins.fakegke.model.state import PoolRecord

Pool = container_v1.NodePool.Status
DAY = 86_400.0
EMPTY: dict[str, Any] = {"initial_node_count": 0, "autoscaling": {"enabled": True, "max_node_count": 4}}
FLEX = {"spot": False, "flex_start": True}
RESERVED = {
    "spot": False,
    "reservation_affinity": {
        "consume_reservation_type": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["res-1"],
    },
}


def _world(*rules: dict[str, Any]) -> InProcessWorld:
    return InProcessWorld({"capacity": list(rules)})


def _record(world: InProcessWorld, name: str) -> PoolRecord:
    return world.gke.world.clusters[ClusterName(PROJECT, LOCATION, world.cluster)].pools[name]


def _nodes(world: InProcessWorld, name: str = "pool-1") -> int:
    return len(_record(world, name).nodes)


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
    world.advance(110)
    assert world.pool("late").status == Pool.PROVISIONING
    world.advance(20)
    done = world.operation(operation)
    assert (done.error.code, world.pool("late").status, _nodes(world, "late")) == (8, Pool.ERROR, 0)
    assert "Atomic resize failed with [GCE_STOCKOUT]" in done.status_message
    assert world.pool("late").status_message == done.status_message
    world.delete("fits")
    world.advance(LONG)
    assert world.created("again").error.code == 0
    assert (world.pool("late").status, _nodes(world, "late")) == (Pool.ERROR, 0)


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
    assert (world.pool("cpus").status, _nodes(world, "cpus")) == (Pool.PROVISIONING, 2)
    world.advance(150)
    done = world.operation(operation)
    assert "Not all instances running in IGM after 35m4.123s. Expected 3, running 2" in done.status_message
    assert (done.error.code, world.pool("cpus").status) == (8, Pool.ERROR)
    world.advance(2000)
    assert (world.pool("cpus").status, _nodes(world, "cpus")) == (Pool.RUNNING, 3)
    assert (world.pool("cpus").status_message, len(world.pool("cpus").conditions)) == ("", 0)


def test_a_create_succeeds_when_machines_come_while_gke_still_tries() -> None:
    world = _world({"nodes": 0, "changes": [{"at": 600, "nodes": 3}]})
    operation = _create_ordinary(world, "cpus", 3)
    world.advance(LONG)
    assert (_code(world, operation), world.pool("cpus").status, _nodes(world, "cpus")) == (0, Pool.RUNNING, 3)


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
    assert (world.pool("cpus").status, _nodes(world, "cpus")) == (Pool.RUNNING_WITH_ERROR, 3)
    shrink = _resize(world, "cpus", 3)
    world.advance(LONG)
    assert (_code(world, shrink), world.pool("cpus").status, _nodes(world, "cpus")) == (0, Pool.RUNNING, 3)


def test_machines_of_a_smaller_or_deleted_pool_go_to_the_one_that_waits() -> None:
    world = _world({"nodes": 4})
    _create_ordinary(world, "old", 3)
    world.advance(LONG)
    _create_ordinary(world, "waits", 3)
    world.advance(LONG)
    assert _nodes(world, "waits") == 1
    _resize(world, "old", 2)
    world.advance(LONG)
    assert _nodes(world, "waits") == 2
    world.delete("old")
    world.advance(LONG)
    assert (_nodes(world, "waits"), world.pool("waits").status) == (3, Pool.RUNNING)


def test_spot_slices_are_taken_back_whole_the_newest_first_and_repaired_when_machines_come() -> None:
    world = _world({"tier": "spot", "nodes": 8, "changes": [{"at": DAY, "nodes": 7}, {"at": 2 * DAY, "nodes": 8}]})
    world.created("old")
    world.created("new")
    before = set(_record(world, "new").nodes)
    world.advance(DAY)
    assert [(_nodes(world, name), world.pool(name).status) for name in ("old", "new")] == [
        (4, Pool.RUNNING),
        (0, Pool.RUNNING),
    ]
    world.advance(DAY)
    assert (_nodes(world, "new"), world.pool("new").status) == (4, Pool.RUNNING)
    assert not before & set(_record(world, "new").nodes)


def test_an_ordinary_spot_pool_loses_no_more_nodes_than_are_taken() -> None:
    world = _world({"nodes": 5, "changes": [{"at": DAY, "nodes": 3}]})
    _create_ordinary(world, "spot", 4, spot=True)
    world.advance(LONG)
    _create_ordinary(world, "paid", 1)
    world.advance(DAY)
    assert (_nodes(world, "spot"), _nodes(world, "paid")) == (2, 1)
    assert world.pool("spot").status == Pool.RUNNING


def test_other_tiers_keep_what_they_have_above_a_lowered_bound() -> None:
    world = _world({"tier": "on-demand", "nodes": 8, "changes": [{"at": DAY, "nodes": 0}]})
    world.created(config={"spot": False})
    world.advance(DAY)
    assert _nodes(world) == 4
    assert world.created("more", config={"spot": False}).error.code == 8


def test_a_spot_slice_whose_machines_are_taken_while_it_comes_up_fails() -> None:
    world = _world({"tier": "spot", "nodes": 4, "changes": [{"at": 100, "nodes": 0}]})
    done = world.created()
    assert (done.error.code, world.pool().status, _nodes(world)) == (8, Pool.ERROR, 0)


def test_flex_start_waits_without_nodes_until_the_whole_slice_fits() -> None:
    changes = [{"at": DAY, "nodes": 3}, {"at": 2 * DAY, "nodes": 4}]
    world = _world({"tier": "flex-start", "nodes": 0, "changes": changes})
    assert world.created(config=FLEX, **EMPTY).error.code == 0
    world.advance(DAY)
    assert (world.pool().status, _nodes(world)) == (Pool.RUNNING, 0)
    world.advance(DAY)
    assert (world.pool().status, _nodes(world)) == (Pool.RUNNING, 4)


def test_flex_start_that_no_rule_covers_stays_empty_as_without_a_script() -> None:
    world = _world({"tier": "spot", "nodes": 0})
    world.created(config=FLEX, **EMPTY)
    assert _nodes(world) == 0


def test_a_pool_that_is_deleted_while_it_waits_gets_nothing() -> None:
    world = _world({"nodes": 0, "changes": [{"at": DAY, "nodes": 9}]})
    world.created(config=FLEX, **EMPTY)
    world.delete()
    world.advance(DAY)
    assert world.pools() == []
    assert world.created("next", initial_node_count=4).error.code == 0


def test_a_fault_that_says_how_a_create_ends_is_stronger() -> None:
    world = _world({"nodes": 0})
    world.add_fault(switch="outcome", kind="ok", count=1)
    assert world.created("first").error.code == 0
    assert world.created("second").error.code == 8


def test_a_stock_has_the_amount_of_its_last_change() -> None:
    change = {"at": 60, "chips": None}
    (stock,) = parse_capacity([{"zone": "us-east5-*", "tier": "spot", "chips": 16, "changes": [change]}])
    assert stock == Stock(zone="us-east5-*", tier="spot", unit="chips", steps=((0.0, 16), (60.0, None)))
    assert [stock.amount_at(at) for at in (0.0, 59.9, 60.0)] == [16, 16, None]
    assert stock.covers(Target(zone="us-east5-b", tier="spot"), "")
    assert not stock.covers(Target(zone="us-west1-b", tier="spot"), "")


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


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({"nodes": 1}, r"capacity: must be a list \(got \{'nodes': 1\}\); valid: a list of rules"),
        (["all"], r"capacity\[0\]: must be a mapping \(got 'all'\); valid: machine_type, zone"),
        ([{}], r"capacity\[0\]: must have one unit \(got \[\]\); valid: nodes or chips"),
        ([{"nodes": 1, "chips": 4}], r"\(got \['nodes', 'chips'\]\); valid: nodes or chips, not both"),
        ([{"nodes": 1}, {"nodes": -1}], r"capacity\[1\]\.nodes: is no amount \(got -1\); valid: a whole number"),
        ([{"chips": True}], r"capacity\[0\]\.chips: is no amount \(got True\)"),
        ([{"nodes": 1, "zon": "x"}], r"capacity\[0\]\.zon: is no field here \(got 'x'\); valid: .*zone"),
        ([{"nodes": 1, "zone": 5}], r"capacity\[0\]\.zone: must be a text \(got 5\); valid: a name or a glob"),
        (
            [{"nodes": 1, "zone": "us-east5"}],
            r"zone: is no zone \(got 'us-east5'\); valid: a zone such as us-east5-b",
        ),
        ([{"nodes": 1, "tier": "Spot"}], r"tier: matches no tier \(got 'Spot'\); valid: on-demand, spot"),
        (
            [{"nodes": 1, "tier": "spot", "reservation": "r"}],
            r"tier: does not go .*\(got 'spot'\); valid: reservation",
        ),
        (
            [{"nodes": 1, "machine_type": "ct9-1t"}],
            r"machine_type: is no machine type \(got 'ct9-1t'\); valid: a mach",
        ),
        ([{"nodes": 1, "changes": 3}], r"capacity\[0\]\.changes: must be a list \(got 3\); valid: .*at and nodes"),
        (
            [{"nodes": 1, "changes": [{"at": 5}]}],
            r"changes\[0\]\.nodes: is missing \(got None\); valid: at, nodes",
        ),
        (
            [{"nodes": 1, "changes": [{"at": 5, "chips": 2}]}],
            r"changes\[0\]\.chips: is no field .*valid: at, nodes",
        ),
        (
            [{"nodes": 1, "changes": [{"at": 5, "nodes": 2}, {"at": 5, "nodes": 3}]}],
            r"changes\[1\]\.at: must be later \(got 5\); valid: virtual seconds from the start, more than 5",
        ),
    ],
)
def test_a_script_that_cannot_be_played_names_field_value_and_what_is_valid(raw: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        InProcessWorld({"capacity": raw})
