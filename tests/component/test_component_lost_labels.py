"""No pool is deleted whose labels a person removed after the look at it: each way to a deletion."""

import pytest

from shared.capacity_lists import read_policies
from tests.builders import CLUSTER, NOW, a_demand_event, a_jobset, a_pod, a_pool, an_over_event
from tests.component import empty_pools
from tests.component.looks import Look
from tests.component.test_component_old_looks import disown
from tests.component.test_component_warm_pools import IDLE, make_warm, sweep
from tests.component.world import NAME, World, claim_of


def complete(world: World) -> None:
    world.pools.add(CLUSTER, a_pool())
    world.cluster.add(a_jobset(terminal="Completed", terminal_since=NOW))


def complete_two(world: World) -> None:
    """Their looks share one list of pools."""
    complete(world)
    world.pools.add(CLUSTER, a_pool(claim=claim_of(1)))


def differ(world: World) -> None:
    world.use(replace_differing_pools=True)
    world.pools.add(CLUSTER, a_pool(fingerprint="1-other"))
    world.cluster.add(a_pod(unschedulable_since=NOW - 20))


def break_whole(world: World) -> None:
    """No limit and no list: the pool has errors, and makes room for the same attempt."""
    world.pools.add(CLUSTER, a_pool("ERROR", reserved=True))
    world.cluster.add(a_pod(unschedulable_since=NOW - 20))


def fail(world: World) -> None:
    """Its record goes once the next attempt was submitted."""
    leave_empty(world)
    world.pools.fail(CLUSTER, NAME, empty_pools.STOCKOUT)


def leave_empty(world: World) -> None:
    """Seed 8107002: the next attempt follows, and the pool is deleted right before that."""
    world.use(capacity_policies=read_policies(empty_pools.POLICY))
    world.cluster.add(a_pod(unschedulable_since=NOW - 20))
    empty_pools.begin(world)
    empty_pools.refuse(world)


def make_idle(world: World) -> None:
    """Its time is over at the next sweep."""
    make_warm(world)
    world.use(idle_seconds=IDLE)
    sweep(world)
    world.clock.advance(IDLE)


def collect(world: World) -> None:
    world.collect(an_over_event())


def provision(world: World) -> None:
    world.deliver(a_demand_event())


def run_sweep(world: World) -> None:
    world.sweep()


CASES: list[tuple[Look, Look, int]] = [
    *((begins, act, 0) for begins in (complete, complete_two) for act in (collect, run_sweep)),
    *((begins, act, 0) for begins in (differ, break_whole) for act in (provision, run_sweep)),
    *((fail, act, 1) for act in (provision, run_sweep)),
    (leave_empty, run_sweep, 0),
    (make_idle, run_sweep, 1),
]
"""Each with the number of earlier looks at the pods, from which nothing is deleted."""


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize(("begins", "act", "skip"), CASES)
def test_a_pool_is_deleted_only_while_it_has_its_labels(
    world: World, begins: Look, act: Look, skip: int, *, removed: bool
) -> None:
    """The pods on a pool are read after its labels, and before the proof and the stop."""
    begins(world)
    if removed:
        world.cluster.before_next("list_pool_pods", lambda: disown(world, NAME), skip=skip)
    act(world)

    assert (world.pools.pools[CLUSTER, NAME].labels == {}) == removed
    assert (("delete", NAME) in world.pools.calls) != removed


def test_a_failed_pool_that_came_good_since_the_look_is_looked_at_again(world: World) -> None:
    """Seed 7407618: what the last read of the pool shows is not ignored."""
    world.pools.add(CLUSTER, a_pool("ERROR", reserved=True))
    world.cluster.before_next("list_pool_pods", lambda: world.pools.move(CLUSTER, NAME, "RUNNING"))
    world.deliver(a_demand_event())

    assert world.pools.count("delete") == 0


@pytest.mark.parametrize("removed", [True, False])
def test_nodes_are_marked_only_while_their_pool_has_its_labels(world: World, *, removed: bool) -> None:
    make_warm(world)
    if removed:
        world.cluster.before_next("list_pool_pods", lambda: disown(world, NAME))
    sweep(world)

    assert bool(world.cluster.marks) != removed
