"""What an instance saw before it was frozen is no reason to delete or resize a pool after it."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tests.builders import CLUSTER, NOW, a_jobset, a_pod, a_pool, an_over_event
from tests.component.test_component_elastic import Elastic, a_demand
from tests.component.test_component_emergency_stop import stop
from tests.component.world import NAME, World

LATER = 12.0


def freeze(world: World, meanwhile: Callable[[], Any]) -> Callable[[], None]:
    """Return an action by which time passes, and the world changes meanwhile."""

    def pass_time() -> None:
        world.clock.advance(LATER)
        meanwhile()

    return pass_time


@pytest.fixture
def over(world: World) -> World:
    """The plain case with its pool running and the workload completed."""
    world.pools.add(CLUSTER, a_pool())
    world.cluster.add(a_jobset(terminal="Completed", terminal_since=NOW))
    return world


@pytest.mark.parametrize("method", ["get_workload", "list_pool_pods"])
def test_a_look_that_is_too_old_when_the_pool_is_to_be_deleted_is_made_again(over: World, method: str) -> None:
    """An instance that was frozen between the look and the delete: a pod came meanwhile."""

    later = int(method == "get_workload")  # the first owner is read before the look, and the pods after it

    def thaw() -> None:
        over.clock.advance(LATER)
        over.cluster.before_next("list_pool_pods", lambda: over.cluster.bind(NAME, workload="other"), skip=later)

    over.cluster.before_next(method, thaw, skip=later)
    over.collect(an_over_event())

    assert over.says() == ("keep", "pool_in_use")
    assert over.pools.count("get") == 3
    assert over.pools.count("delete") == 0


def test_a_pool_that_grew_since_it_was_measured_is_not_made_smaller(world: World) -> None:
    elastic = Elastic(world, pods=1)
    elastic.want(4)

    def grow() -> None:
        world.pools.sizes[elastic.pool] = 8

    world.cluster.before_next("get_namespace", freeze(world, grow))
    world.deliver(a_demand(elastic.pod))

    assert world.says() == ("keep", "pool_serves")
    assert (world.pools.count("measure"), world.pools.count("resize")) == (2, 0)


CHANGES: dict[str, dict[str, Any]] = {
    "bound": {"node_name": "static-node", "unschedulable": False},
    "made anew": {"uid": "another"},
    "waits": {},
}


@pytest.mark.parametrize("change", [*CHANGES, "gone"])
@pytest.mark.parametrize("seconds", [LATER, 400.0])
def test_a_sweep_that_takes_long_reads_a_leader_again_before_it_creates(
    world: World, change: str, seconds: float
) -> None:
    """The first create is slow, for example because GKE throttles."""
    world.use(timeout_seconds=540)
    late, reads = a_pod(jobset="zeta", uid="zeta-0"), list[float]()
    world.cluster.add(a_jobset(name="zeta"), late)

    def pass_time() -> None:
        world.clock.advance(seconds)
        del world.cluster.pods[late.namespace, late.name]
        if change != "gone":
            world.cluster.add(dataclasses.replace(late, **CHANGES[change]))

    world.pools.before_next("create", pass_time)
    world.cluster.before_next("get_pod", lambda: reads.append(world.clock.now()))

    made = 2 if change == "waits" else 1
    assert world.sweep() == (200, {"create": made, "errors": 0})
    assert len(world.pools.bodies) == made
    assert reads == [NOW + seconds]


@pytest.fixture
def closed(world: World) -> Elastic:
    """A pool with two nodes that are closed, and that the next sweep removes."""
    elastic = Elastic(world, pods=4)
    elastic.close("n0", "n2", want=2)
    return elastic


def test_nodes_that_are_used_since_they_were_looked_at_stay(world: World, closed: Elastic) -> None:
    """Two looks: the one that plans, the one before the removal. The second one is too old, too."""
    thaw = freeze(world, lambda: closed.use("n0", "n1", "n2", "n3"))
    world.pools.before_next("measure", thaw, skip=1)
    closed.sweep()

    assert world.pools.removed == []


def disown(world: World, pool: str) -> None:
    """Let a person remove our labels from a pool, so that it is no longer ours."""
    world.pools.add(CLUSTER, dataclasses.replace(world.pools.pools[CLUSTER, pool], labels={}))


@pytest.mark.parametrize(
    ("happens", "skip"),
    [
        (lambda closed: closed.want(4), 0),
        (lambda closed: disown(closed.world, closed.pool), 1),
        (lambda closed: stop(closed.world, "report-only"), 1),
    ],
    ids=["they are wanted again", "the pool lost its labels", "an operator stops it"],
)
def test_no_node_is_removed_if_this_happens_since_the_look(
    closed: Elastic, world: World, happens: Callable[[Elastic], None], skip: int
) -> None:
    world.pools.before_next("measure", lambda: happens(closed), skip=skip)
    closed.sweep()

    assert world.pools.removed == []


def test_a_sweep_reads_the_owner_again_before_it_replaces_a_differing_pool(world: World) -> None:
    """The leaders of a sweep share their reads, and the spec may have changed back meanwhile."""
    world.use(replace_differing_pools=True)
    world.pools.add(CLUSTER, a_pool(fingerprint="1-other"))
    world.cluster.before_next("list_pool_pods", lambda: world.cluster.add(a_jobset(generation=9)))

    world.sweep()

    assert world.pools.count("delete") == 0
    world.sweep()
    assert world.pools.count("delete") == 1
