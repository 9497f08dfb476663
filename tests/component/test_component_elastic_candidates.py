"""An elastic pool with a list of capacity: a failed creation moves along it, and one pool stays."""

import dataclasses

import pytest

from shared.capacity_lists import read_policies
from shared.core import labels
from shared.core.decide.attempts import find_pause
from shared.core.decide.demands import decide_demand
from shared.core.identity.names import SliceClaim, build_pool_name
from tests.builders import CLUSTER, expect_demand
from tests.component.looks import Look, by_sweep, choose_look
from tests.component.test_component_elastic import a_demand, a_waiting_pod
from tests.component.world import World
from tests.unit.test_elastic import a_gpu_job

STOCKOUT = "Not all instances running in IGM after 35m4s. Current errors: [GCE_STOCKOUT]"
POLICY = "[{priorities: [{location: {zones: [us-east5-a, us-east5-b, us-east5-c]}}]}]"
POD = a_waiting_pod()


def claim_of(world: World) -> SliceClaim:
    (job,) = world.cluster.workloads.values()
    demand = expect_demand(decide_demand(CLUSTER, POD, job, world.ports.settings))
    assert (demand.elastic, demand.choices) == (True, 3)
    return demand.claim


def name_of(world: World, attempt: int) -> str:
    return build_pool_name(claim_of(world), attempt)


def zones(world: World) -> list[str]:
    return [body["locations"][0][-1] for body in world.pools.bodies]


def by_message(world: World) -> None:
    assert world.deliver(a_demand(POD)).status == 200


look = choose_look(by_message, by_sweep)


@pytest.fixture(autouse=True)
def _listed(world: World) -> None:
    world.use(capacity_policies=read_policies(POLICY))
    world.cluster.empty()
    world.cluster.add(a_gpu_job(parallelism=3, completions=9), POD)
    by_message(world)


def fail(world: World, attempt: int) -> None:
    world.clock.advance(50)
    world.pools.fail(CLUSTER, name_of(world, attempt), STOCKOUT)


def test_each_candidate_is_tried_at_once_and_the_pause_comes_after_the_last(world: World, look: Look) -> None:
    for attempt in range(2):
        fail(world, attempt)
        look(world)
        assert world.pools.pools[CLUSTER, name_of(world, attempt)].status == "STOPPING"
        world.pools.move(CLUSTER, name_of(world, attempt), "gone")
    assert zones(world) == ["a", "b", "c"]
    assert world.pools.bodies[1]["config"]["labels"][labels.CANDIDATE].startswith("2-of-3-")
    made_at = int(world.clock.now())

    fail(world, 2)
    look(world)
    world.records.expect_in_order({"decision": "wait", "reason": "stockout", "attempt": 2})
    assert world.pools.names(CLUSTER) == [name_of(world, 2)], "it is the record of the failure"

    world.clock.advance(made_at + find_pause(claim_of(world).hash, 2, 3) + 1 - world.clock.now())
    look(world)
    assert zones(world) == ["a", "b", "c", "a"]


def test_the_pool_of_a_later_candidate_serves_and_grows(world: World, look: Look) -> None:
    fail(world, 0)
    look(world)
    world.pools.move(CLUSTER, name_of(world, 0), "gone")
    world.pools.move(CLUSTER, name_of(world, 1), "RUNNING")
    world.cluster.add(a_gpu_job(parallelism=5, completions=9))
    look(world)

    assert zones(world) == ["a", "b"]
    assert world.pools.sizes == {name_of(world, 1): 5}


def share_five_nodes(world: World, *, used: tuple[int, int]) -> None:
    """Let a failed creation come good beside the next one: three nodes, then two, some in use."""
    first = dataclasses.replace(world.pools.pools[CLUSTER, name_of(world, 0)], node_count=3)
    fail(world, 0)
    by_sweep(world)
    world.pools.add(CLUSTER, first)
    world.cluster.pods.clear()
    for attempt, (nodes, busy) in enumerate(zip((3, 2), used, strict=True)):
        name = name_of(world, attempt)
        world.pools.move(CLUSTER, name, "RUNNING")
        world.pools.sizes[name] = nodes
        world.cluster.nodes[name] = [f"{name}-{at}" for at in range(nodes)]
        for node in world.cluster.nodes[name][:busy]:
            world.cluster.bind(name, kind="Job", chips=1, node=node)


@pytest.mark.parametrize(("used", "left"), [((3, 0), [3, 0]), ((1, 2), [1, 2])])
def test_of_two_pools_of_a_claim_the_nodes_that_are_not_needed_go(
    world: World, used: tuple[int, int], left: list[int]
) -> None:
    share_five_nodes(world, used=used)
    for _ in range(8):
        world.clock.advance(200)
        by_sweep(world)

    alive = world.pools.names(CLUSTER)
    assert [world.pools.sizes[name_of(world, at)] * (name_of(world, at) in alive) for at in range(2)] == left
