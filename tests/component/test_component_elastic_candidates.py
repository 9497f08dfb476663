"""An elastic pool with a list of capacity: a failed creation moves along it, and one pool stays."""

import dataclasses

import pytest

from shared.capacity_lists import read_policies
from shared.core import labels
from shared.core.decide.attempts import find_pause
from shared.core.decide.demands import decide_demand
from shared.core.errors import NoCapacity
from shared.core.identity.names import SliceClaim, build_pool_name
from tests.builders import CLUSTER, NOW, expect_demand
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


def test_a_pool_of_that_name_that_was_made_anew_since_the_list_does_not_grow(world: World) -> None:
    """What was measured are the instance groups of the earlier one, which may be gone."""
    world.pools.move(CLUSTER, name_of(world, 0), "RUNNING")
    world.cluster.add(a_gpu_job(parallelism=5, completions=9))
    pool = world.pools.pools[CLUSTER, name_of(world, 0)]
    anew = dataclasses.replace(pool, labels={**pool.labels, labels.CREATED_AT: str(int(NOW) + 9)})
    world.pools.before_next("measure", lambda: world.pools.add(CLUSTER, anew))

    assert world.deliver(a_demand(POD)).status == 503
    assert world.pools.sizes == {}


def test_pods_that_come_later_find_the_pool_of_a_later_candidate(world: World) -> None:
    """The first name is free again: a pod that creates before it looks would make a second pool."""
    fail(world, 0)
    by_message(world)
    world.pools.move(CLUSTER, name_of(world, 0), "gone")
    young = a_waiting_pod("train-b")
    world.cluster.add(young)
    assert world.deliver(a_demand(young)).status == 200

    assert world.says() == ("wait", "pool_in_progress")
    assert world.pools.names(CLUSTER) == [name_of(world, 1)]


def test_messages_of_all_pods_about_one_failure_make_one_pool(world: World) -> None:
    fail(world, 0)
    for each in "bcd":
        pod = a_waiting_pod(f"train-{each}")
        world.cluster.add(pod)
        assert world.deliver(a_demand(pod)).status in (200, 503)

    assert zones(world) == ["a", "b"]


def test_a_candidate_that_gke_refuses_at_once_is_followed_in_the_same_turn(world: World, look: Look) -> None:
    fail(world, 0)
    world.pools.fail_next("create", NoCapacity("quota"))
    look(world)

    assert zones(world) == ["a", "c"]


def test_a_refusal_for_a_pool_that_is_there_makes_no_second_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 3603 of commit e6b23e6: GKE's list predates the creation, and its quota is used up."""
    monkeypatch.setattr(world.pools, "list", lambda _cluster: [])
    world.pools.fail_next("create", NoCapacity("quota"))

    assert world.deliver(a_demand(POD)).status == 503
    assert zones(world) == ["a"]


def test_without_a_list_the_one_name_is_used_again(world: World, look: Look) -> None:
    first = name_of(world, 0)
    world.pools.move(CLUSTER, first, "gone")
    world.pools.creations.clear()
    world.use()
    by_message(world)
    world.clock.advance(50)
    world.pools.fail(CLUSTER, first, STOCKOUT)
    look(world)
    assert world.pools.pools[CLUSTER, first].status == "STOPPING"
    world.pools.move(CLUSTER, first, "gone")
    look(world)

    assert {body["name"] for body in world.pools.bodies} == {first}
