"""What we refuse ourselves ends no round of capacity first, and gives no quota back to Kueue."""

import dataclasses
from typing import Any

import pytest

from shared.core import labels
from shared.core.errors import NoCapacity, Unavailable
from tests.builders import CLUSTER, NOW, settings
from tests.component.looks import Look, choose_look
from tests.component.test_component_admission import Queued
from tests.component.test_component_capacity_first import NAMES, by_message, by_sweep, jobset, run, start_waiting
from tests.component.world import Records, World

look = choose_look(by_message, by_sweep)


@pytest.fixture(name="waiting")
def wait_for_capacity(world: World) -> World:
    start_waiting(world)
    return world


def lose_second(world: World, look: Look) -> None:
    """Let the first of the two pools run, and the second one be gone without a trace."""
    look(world)
    run(world, NAMES[0])
    world.pools.move(CLUSTER, NAMES[1], "gone")
    world.pools.creations.clear()


def by_limit(world: World) -> None:
    world.use(capacity_first=True, limit_chips=16)


def by_setting(world: World) -> None:
    world.use(capacity_first=True, mode="no-create")


def by_label(world: World) -> None:
    world.cluster.namespace_labels["tpu-provisioner"] = {labels.MODE: "no-create"}


def by_namespace(world: World) -> None:
    world.cluster.namespace_labels["default"] = {labels.DISABLE_AUTOPROVISIONING: "true"}


def by_errors_of_gke(world: World) -> None:
    world.pools.fail_next("create", Unavailable("503"))


@pytest.mark.parametrize("refuse", [by_limit, by_setting, by_label, by_namespace, by_errors_of_gke])
def test_what_we_refuse_ourselves_ends_no_round_and_buys_nothing(waiting: World, look: Look, refuse: Look) -> None:
    world = waiting
    lose_second(world, look)
    created = world.pools.count("create")
    for _ in range(4):
        refuse(world)
        world.clock.advance(900)
        look(world)

    assert (world.pools.names(CLUSTER), world.pools.count("delete")) == ([NAMES[0]], 0)
    assert world.pools.count("create") == created + 4 * (refuse is by_errors_of_gke)
    assert jobset(world).marks[labels.CAPACITY_FIRST_ROUND].startswith("0 from ")
    world.use(capacity_first=True)
    world.cluster.namespace_labels |= {"default": {}, "tpu-provisioner": {}}
    look(world)
    assert world.pools.names(CLUSTER) == NAMES


def test_a_round_ends_in_time_if_gke_refuses_a_slice_at_once(waiting: World, look: Look) -> None:
    world = waiting
    lose_second(world, look)
    for seconds, deletes in ((1799, 0), (1, 1)):
        world.clock.advance(seconds)
        world.pools.fail_next("create", NoCapacity("Insufficient quota"))
        look(world)
        assert world.pools.count("delete") == deletes


@pytest.mark.parametrize(
    "overrides",
    [{"limit_slices": 1}, {"mode": "no-create"}, {"allowed_accelerators": ("nvidia-l4",)}, {"kinds": ("Job",)}],
    ids=str,
)
def test_what_we_refuse_ourselves_takes_no_quota_and_no_pools_back(
    records: Records, overrides: dict[str, Any]
) -> None:
    world = Queued(records)
    world.sweep()
    first, second = world.pools.names(CLUSTER)
    world.pools.move(CLUSTER, first, "RUNNING")
    world.pools.move(CLUSTER, second, "gone")
    world.pools.creations.clear()
    world.cluster.nodes = {first: ["node-of-first"]}
    world.ports = dataclasses.replace(world.ports, settings=settings(kueue_admission_check=True, **overrides))
    for _ in range(4):
        world.clock.advance(900)
        world.sweep()

    assert world.state.state == "Pending"
    assert (world.statuses(), world.pools.count("create")) == (["RUNNING"], 2)


@pytest.mark.parametrize(("error", "state"), [("internal error", "Pending"), ("GCE_STOCKOUT", "Retry")])
def test_only_a_lack_of_capacity_gives_the_quota_back_before_the_time_is_over(
    records: Records, error: str, state: str
) -> None:
    world = Queued(records)
    world.sweep()
    world.pools.fail(CLUSTER, world.pools.names(CLUSTER)[0], error, ended_at=NOW)
    world.sweep()
    assert world.state.state == state
