"""A pool with errors is judged by its nodes and the pods that wait, never by its age alone."""

from typing import Any

import pytest

from shared.core.decide.attempts import PAUSE_SECONDS
from tests.builders import CLUSTER, NOW, a_jobset, a_pod, a_pool
from tests.component.looks import Look, by_sweep
from tests.component.world import NAME, World, name_of

DAYS = 3 * 86_400.0
GRACE = 300.0
NODES = [f"n{number}" for number in range(4)]


@pytest.fixture(params=["ERROR", "RUNNING_WITH_ERROR"])
def world(world: World, request: pytest.FixtureRequest) -> World:
    """A pool with errors that served for days; its pods were made anew a moment ago: a restart."""
    world.pools.add(CLUSTER, a_pool(request.param, age_seconds=DAYS, error="one host is gone"))
    world.cluster.nodes[NAME] = NODES
    world.cluster.unready = {"n3"}
    restart(world)
    return world


def restart(world: World) -> None:
    now = world.clock.now()
    world.cluster.add(a_pod(created_at=now - 6, unschedulable_since=now - 6))


def is_kept(world: World) -> bool:
    assert world.pools.bodies == []
    return world.pools.count("delete") == 0


def expect_to_go_after(world: World, look: Look, seconds: float) -> None:
    """Expect that the pool is kept now, and deleted after so long."""
    look(world)
    assert is_kept(world)

    world.clock.advance(seconds)
    look(world)
    assert world.pools.count("delete") == 1


def restart_again(world: World) -> None:
    """Let a restart begin the grace anew, just before it is over."""
    world.clock.advance(GRACE - 7)
    restart(world)
    world.clock.advance(GRACE - 7)


def repair(world: World) -> None:
    world.cluster.unready.clear()
    world.clock.advance(DAYS)


def run_a_pod(world: World) -> None:
    world.cluster.bind(NAME)
    world.clock.advance(DAYS)


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda _world: None, id="a restart, seconds ago"),
        pytest.param(restart_again, id="two restarts"),
        pytest.param(repair, id="all nodes are Ready, and pods wait for days"),
        pytest.param(run_a_pod, id="a pod runs on it for days"),
    ],
)
def test_it_stays_in_spite_of(world: World, look: Look, happens: Look) -> None:
    happens(world)
    look(world)

    assert is_kept(world)


def test_a_pool_that_does_not_serve_for_the_grace_goes(world: World, look: Look) -> None:
    world.clock.advance(GRACE - 7)
    expect_to_go_after(world, look, 1)
    world.records.expect_in_order({"decision": "delete", "reason": "pool_degraded"})


def test_a_pool_that_lost_all_of_its_hosts_goes_after_the_grace(world: World, look: Look) -> None:
    world.cluster.nodes[NAME] = []
    expect_to_go_after(world, look, GRACE)


def test_a_restart_of_another_slice_keeps_it_too(world: World, look: Look) -> None:
    """Slices of equal shape swap pools: the pod that ran here may be of another slice."""
    world.cluster.add(
        a_jobset(),
        a_pod(created_at=NOW - DAYS - 1, unschedulable_since=NOW - 60),
        a_pod(index=1, uid="second", created_at=NOW - 6),
    )
    look(world)

    assert world.pools.count("delete") == 0


def test_without_any_pod_it_stays(world: World) -> None:
    world.cluster.pods.clear()
    world.clock.advance(DAYS)
    by_sweep(world)

    assert is_kept(world)


def fail_to_create(world: World, *, pod_created_at: float | None, **overrides: Any) -> None:
    """Let a pool that is one minute old have failed, without a node; its pod waits."""
    world.pools.add(CLUSTER, a_pool("ERROR", age_seconds=60, **{"error": "[GCE_STOCKOUT]", **overrides}))
    world.cluster.nodes[NAME] = []
    world.cluster.add(a_pod(created_at=pod_created_at, unschedulable_since=None))


@pytest.mark.parametrize("ahead", [0, 5])
def test_a_creation_that_failed_is_kept_as_the_record_of_it(world: World, look: Look, ahead: float) -> None:
    """Clocks that differ a little change nothing."""
    fail_to_create(world, pod_created_at=NOW - 60 + ahead)
    look(world)

    assert is_kept(world)
    world.records.expect_in_order({"decision": "wait", "reason": "stockout"})


def test_a_leader_that_is_made_anew_gets_the_next_attempt_of_a_creation_that_failed(
    world: World, look: Look
) -> None:
    """A pool that got no machine serves nobody, so nothing is gained by the grace."""
    fail_to_create(world, pod_created_at=NOW - 6)
    world.clock.advance(2 * PAUSE_SECONDS)
    look(world)

    assert world.pools.count("delete") == 1
    assert [body["name"] for body in world.pools.bodies] == [name_of(1)]


@pytest.mark.parametrize("holds", ["a reservation", "nodes"])
def test_a_creation_that_failed_and_holds_machines_goes_at_once(world: World, look: Look, holds: str) -> None:
    reserved = holds == "a reservation"
    error = "[INTERNAL_ERROR]" if reserved else "[GCE_STOCKOUT]"
    fail_to_create(world, pod_created_at=NOW - 61, reserved=reserved, error=error)
    world.cluster.nodes[NAME] = ["n3"] if holds == "nodes" else []  # it is not Ready
    look(world)

    assert world.pools.count("delete") == 1
    world.records.expect_in_order({"decision": "delete", "reason": "pool_failed"})


@pytest.mark.parametrize("pod_created_at", [NOW + 3600, None])
def test_without_a_time_that_can_be_true_a_pool_without_a_ready_node_has_the_grace_since_it_was_made(
    world: World, look: Look, pod_created_at: float | None
) -> None:
    fail_to_create(world, pod_created_at=pod_created_at)
    world.cluster.nodes[NAME] = ["n3"]  # it is not Ready
    world.clock.advance(GRACE - 61)
    expect_to_go_after(world, look, 2)


@pytest.mark.parametrize(
    ("created_at", "waits_since", "seconds"),
    [(None, NOW - 6, GRACE), (NOW + 3600, NOW + 3600, 3600 + GRACE)],
    ids=["the pod does not say when it was created", "a clock that is ahead"],
)
def test_hosts_that_are_ready_keep_the_grace_since_the_pod_waits_and_it_ends(
    world: World, look: Look, created_at: float | None, waits_since: float, seconds: float
) -> None:
    world.cluster.add(a_pod(created_at=created_at, unschedulable_since=waits_since))
    expect_to_go_after(world, look, seconds)
