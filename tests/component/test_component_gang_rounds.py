"""Rounds of a gang: which candidate one begins with, and since when it holds pools."""

import dataclasses

import pytest

from shared.capacity_lists import read_policies
from shared.core import labels
from shared.core.identity.creations import Creation
from shared.core.messages import EventType, Observed
from shared.core.workloads import NodeView
from tests.builders import CLUSTER, NOW, a_jobset, an_over_event
from tests.component.fake_queues import run
from tests.component.looks import Look, by_sweep, choose_look
from tests.component.test_component_admission import Queued
from tests.component.test_component_candidates import refuse_at_once
from tests.component.world import Records, World, slice_name
from tests.unit.test_elastic import a_gpu_job

NAMES = [slice_name(index) for index in range(2)]
POLICY = "[{priorities: [{location: {zones: [us-east5-a, us-east5-b]}}]}]"


def by_message(world: World) -> None:
    event = an_over_event(Observed.QUOTA_RESERVED, type=EventType.DEMAND)
    assert world.deliver(event).status == 200


look = choose_look(by_message, by_sweep)


@pytest.fixture(name="world")
def let_wait(records: Records) -> Queued:
    return Queued(records, capacity_policies=read_policies(POLICY))


def begin_round(world: Queued, retries: int, at: float = NOW) -> None:
    """Let Kueue reserve quota again, after so many rounds have ended."""
    world.queues.reserve(a_jobset(replicas=2, suspended=True), at=at, retries=retries)


def test_a_round_whose_first_candidate_gke_refuses_at_once_goes_on_with_the_others(
    world: Queued, look: Look
) -> None:
    begin_round(world, 1)
    refuse_at_once(world, "b")
    look(world)

    assert {body["locations"][0][-1] for body in world.pools.bodies} == {"a"}
    assert len(world.pools.bodies) == len(NAMES)


@pytest.mark.parametrize(
    ("zones", "ended", "zone"),
    [(zones, *row) for zones, order in (("ab", "abaaba"), ("abc", "abcabc")) for row in enumerate(order)],
)
def test_each_round_begins_with_the_next_candidate(
    records: Records, look: Look, zones: str, ended: int, zone: str
) -> None:
    """What a round gave back let the creation that starved come good, so none of them failed.

    With three candidates each is next within three rounds (seed 7004175). With two, every second
    round alone still has both.
    """
    listed = ", ".join(f"us-east5-{each}" for each in zones)
    policies = read_policies(f"[{{priorities: [{{location: {{zones: [{listed}]}}}}]}}]")
    world = Queued(records, capacity_policies=policies)
    begin_round(world, ended)
    look(world)

    assert [body["locations"] for body in world.pools.bodies] == [[f"us-east5-{zone}"]] * 2


def test_an_elastic_pool_of_a_later_candidate_completes_the_gang(records: Records) -> None:
    job = dataclasses.replace(a_gpu_job(parallelism=3), suspended=True)
    world = Queued(records, job, capacity_policies=read_policies(POLICY))
    world.queues.reserve(job, at=NOW, api="batch/v1")
    world.sweep()
    (first,) = world.pools.names(CLUSTER)
    world.pools.fail(CLUSTER, first, "Current errors: [GCE_STOCKOUT]")
    world.sweep()
    second = next(name for name in world.pools.names(CLUSTER) if name != first)
    del world.pools.pools[CLUSTER, first]
    run(world, second)
    world.sweep()

    assert world.pools.count("create") == 2
    assert world.queues.state(job.name).state == "Ready"


def test_later_rounds_create_nothing_while_gke_creates_a_pool_of_an_earlier_one(world: Queued, look: Look) -> None:
    world.sweep()
    world.pools.move(CLUSTER, NAMES[0], "gone")
    world.pools.creations[CLUSTER, NAMES[0]] = Creation(pool=NAMES[0], ended=True)
    world.clock.advance(200)
    begin_round(world, 1, NOW + 100)
    look(world)

    assert world.pools.names(CLUSTER) == [NAMES[1]]
    assert "nothing is created for the other slices meanwhile [pool_in_progress]" in world.state.message
    run(world, NAMES[1])
    look(world)
    assert len(world.pools.names(CLUSTER)) == 2


@pytest.mark.parametrize("came_late", [True, False])
def test_a_pool_that_ran_before_the_round_is_held_since_the_round_began(
    records: Records, look: Look, *, came_late: bool
) -> None:
    waiting = a_jobset(replicas=2, suspended=True, marks={labels.CAPACITY_CHECK_SECONDS: "600"})
    world = Queued(records, waiting)
    world.sweep()
    run(world, NAMES[0])
    name = f"{NAMES[0]}-node"
    came = NOW + 500 if came_late else NOW
    world.cluster.node_views[name] = NodeView(name=name, ready=True, created_at=came)
    begin_round(world, 1, NOW + 100)
    world.clock.advance(701)
    look(world)

    assert world.state.state == ("Pending" if came_late else "Retry")


def test_a_pool_that_pods_of_others_use_ends_no_round(world: Queued) -> None:
    """It cannot be given back, and each end would take a candidate its turn (seed 7603255)."""
    world.sweep()
    run(world, NAMES[0])
    world.cluster.bind(NAMES[0], workload="other")
    world.clock.advance(2100)
    world.pools.fail(CLUSTER, NAMES[1], "Current errors: [GCE_STOCKOUT]")
    by_sweep(world)
    assert world.state.state == "Pending"
    assert slice_name(1, 1) in world.pools.names(CLUSTER)

    world.cluster.bound.clear()
    by_sweep(world)
    assert world.state.state == "Retry"


def test_a_pool_that_gke_makes_and_does_not_list_yet_ends_a_round_that_is_late(
    world: Queued, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the answer to the second create, or the operation, says that GKE makes it."""
    world.sweep()
    run(world, NAMES[0])
    listed = world.pools.list(CLUSTER)[:1]
    monkeypatch.setattr(world.pools, "list", lambda _cluster: listed)
    world.clock.advance(1800)
    look(world)

    assert world.state.state == "Retry"
    assert "1 of 2 slices got their node pools within 1800 s" in world.state.message
