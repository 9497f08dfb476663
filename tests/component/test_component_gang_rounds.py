"""Rounds of a gang: which candidate one begins with, since when it holds pools, and the pause."""

import dataclasses

import pytest

from shared.capacity_lists import read_policies
from shared.core import labels
from shared.core.ports import FillError, Machines
from shared.core.times import format_time
from shared.core.workloads import NodeView
from tests.builders import CLUSTER, NOW, an_over_event
from tests.component.looks import Look, choose_look
from tests.component.test_component_candidates import refuse_at_once
from tests.component.test_component_capacity_first import (
    ASKS,
    NAMES,
    by_message,
    by_sweep,
    jobset,
    put,
    run,
    start_waiting,
)
from tests.component.world import World, slice_name
from tests.unit.test_elastic import a_gpu_job

POLICY = "[{priorities: [{location: {zones: [us-east5-a, us-east5-b]}}]}]"
look = choose_look(by_message, by_sweep)


@pytest.fixture(autouse=True)
def _waiting(world: World) -> None:
    start_waiting(world)


@pytest.mark.parametrize("late", [True, False])
def test_a_gang_whose_last_pool_comes_in_the_pause_is_resumed_and_not_given_back(
    world: World, *, late: bool
) -> None:
    """The sweep does it, because a message in the pause lists no pools."""
    world.sweep()
    run(world, *NAMES[: 1 + late])
    put(world, {labels.CAPACITY_FIRST_ROUND: f"1 from {format_time(NOW + 60)}"})
    world.collect(an_over_event("suspended"))
    by_sweep(world)

    assert jobset(world).suspended != late
    assert world.pools.count("delete") == (0 if late else 1)


def test_a_round_whose_first_candidate_gke_refuses_at_once_goes_on_with_the_others(
    world: World, look: Look
) -> None:
    world.use(capacity_first=True, capacity_policies=read_policies(POLICY))
    put(world, {labels.CAPACITY_FIRST_ROUND: f"1 from {format_time(NOW - 1)}"})
    refuse_at_once(world, "b")
    look(world)

    assert {body["locations"][0][-1] for body in world.pools.bodies} == {"a"}
    assert len(world.pools.bodies) == len(NAMES)


@pytest.mark.parametrize(
    ("zones", "ended", "zone"),
    [(zones, *row) for zones, order in (("ab", "abaaba"), ("abc", "abcabc")) for row in enumerate(order)],
)
def test_each_round_begins_with_the_next_candidate(
    world: World, look: Look, zones: str, ended: int, zone: str
) -> None:
    """What a round gave back let the creation that starved come good, so none of them failed.

    With three candidates each is next within three rounds (seed 7004175). With two, every second
    round alone still has both.
    """
    listed = ", ".join(f"us-east5-{each}" for each in zones)
    policies = read_policies(f"[{{priorities: [{{location: {{zones: [{listed}]}}}}]}}]")
    world.use(capacity_first=True, capacity_policies=policies)
    put(world, {labels.CAPACITY_FIRST_ROUND: f"{ended} from {format_time(NOW - 10)}"})
    look(world)

    assert [body["locations"] for body in world.pools.bodies] == [[f"us-east5-{zone}"]] * 2


def test_an_elastic_pool_of_a_later_candidate_completes_the_gang(world: World) -> None:
    world.use(capacity_first=True, capacity_policies=read_policies(POLICY))
    world.cluster.workloads.clear()
    job = dataclasses.replace(a_gpu_job(parallelism=3), suspended=True, marks=ASKS, version="1")
    world.cluster.add(job)
    world.sweep()
    (first,) = world.pools.names(CLUSTER)
    world.pools.fail(CLUSTER, first, "Current errors: [GCE_STOCKOUT]")
    world.sweep()
    second = next(name for name in world.pools.names(CLUSTER) if name != first)
    del world.pools.pools[CLUSTER, first]
    run(world, second)
    world.sweep()

    assert world.pools.count("create") == 2
    assert not world.cluster.workloads["Job", job.namespace, job.name].suspended


@pytest.mark.parametrize("came_late", [True, False])
def test_a_pool_that_ran_before_the_round_is_held_since_the_round_began(
    world: World, look: Look, *, came_late: bool
) -> None:
    world.sweep()
    run(world, NAMES[0])
    name = f"{NAMES[0]}-node"
    came = NOW + 500 if came_late else NOW
    world.cluster.node_views[name] = NodeView(name=name, ready=True, created_at=came)
    begun = f"1 from {format_time(NOW + 100)}"
    put(world, {labels.CAPACITY_FIRST_ROUND: begun, labels.CAPACITY_FIRST_SECONDS: "600"})
    world.clock.advance(701)
    look(world)

    assert world.pools.count("delete") == (0 if came_late else 1)


def test_a_pool_that_pods_of_others_use_ends_no_round(world: World) -> None:
    """It cannot be given back, and each end would take a candidate its turn (seed 7603255)."""
    world.use(capacity_first=True, capacity_policies=read_policies(POLICY))
    world.sweep()
    run(world, NAMES[0])
    world.cluster.bind(NAMES[0], workload="other")
    world.pools.machines[NAMES[1]] = Machines(errors=(FillError("ZONE_RESOURCE_POOL_EXHAUSTED", NOW + 30),))
    world.clock.advance(60)
    by_sweep(world)
    assert jobset(world).marks[labels.CAPACITY_FIRST_ROUND].startswith("0 from ")

    world.clock.advance(2100)
    world.pools.fail(CLUSTER, NAMES[1], "Current errors: [GCE_STOCKOUT]")
    by_sweep(world)
    following = slice_name(1, 1)
    assert jobset(world).marks[labels.CAPACITY_FIRST_ROUND].startswith("0 from ")
    assert following in world.pools.names(CLUSTER)

    world.cluster.bound.clear()
    by_sweep(world)
    assert jobset(world).marks[labels.CAPACITY_FIRST_ROUND].startswith("1 from ")
    assert str(world.pools.pools[CLUSTER, NAMES[0]].status) == "STOPPING"


def test_a_pool_that_gke_makes_and_does_not_list_yet_ends_a_round_that_is_late(
    world: World, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the answer to the second create, or the operation, says that GKE makes it."""
    world.sweep()
    run(world, NAMES[0])
    listed = world.pools.list(CLUSTER)[:1]
    monkeypatch.setattr(world.pools, "list", lambda _cluster: listed)
    world.clock.advance(1800)
    look(world)

    assert jobset(world).marks[labels.CAPACITY_FIRST_ROUND].startswith("1 from ")
    assert str(world.pools.pools[CLUSTER, NAMES[0]].status) == "STOPPING"
