"""A running pool with too few nodes counts as failed after a time, if a list has other ways."""

from dataclasses import replace
from typing import Any

import pytest

from shared.capacity_lists import read_policies
from shared.core import labels
from shared.core.ports import FillError, Machines
from shared.core.priorities import NodeSource
from shared.core.workloads import NodeView
from tests.builders import CLUSTER, NOW, a_demand_event, a_jobset, a_pod
from tests.component.looks import Look, by_message, by_sweep
from tests.component.test_component_candidates import POLICY, STOCKOUT, zones
from tests.component.test_component_needed_pools import JobSetWorld
from tests.component.world import Records, World, name_of

WAIT = 3600
FLEXIBLE = "[{priorities: [{flexStart: {enabled: true}, location: {zones: [us-east5-a, us-east5-b]}}, {}]}]"
HOSTS = ["n1", "n2", "n3", "n4"]


@pytest.fixture(autouse=True)
def _listed(world: World) -> None:
    world.use(capacity_policies=read_policies(POLICY), nodes_from={"on-demand": NodeSource.CREATION})
    world.cluster.add(a_pod(unschedulable_since=NOW - 20))


def told(world: World, words: str) -> bool:
    return any(words in each.message for each in world.cluster.notices)


# --- nodes that are lost --------------------------------------------------------------------------


def run_with_nodes(world: World, *, nodes: list[str], waits: float = 700.0, node_age: float = 900.0) -> None:
    """Let the second candidate's pool run long with these nodes, and the leader wait so long."""
    by_message(world)
    world.clock.advance(50)
    world.pools.fail(CLUSTER, name_of(0), STOCKOUT)
    by_message(world)
    world.pools.move(CLUSTER, name_of(0), "gone")
    world.pools.move(CLUSTER, name_of(1), "RUNNING")
    world.pools.creations.clear()  # GKE no longer lists these operations
    world.clock.advance(1000)
    world.cluster.nodes[name_of(1)] = nodes
    now = world.clock.now()
    world.cluster.node_views = {each: NodeView(name=each, ready=True, created_at=now - node_age) for each in nodes}
    world.cluster.add(a_pod(created_at=NOW, unschedulable_since=now - waits))


@pytest.mark.parametrize(("nodes", "missing"), [([], 4), (["n1"], 3), (["n1", "n2", "n3"], 1)])
def test_a_pool_that_lost_nodes_for_long_goes_and_the_list_begins_anew(
    world: World, look: Look, nodes: list[str], missing: int
) -> None:
    run_with_nodes(world, nodes=nodes)
    look(world)

    assert world.pools.pools[CLUSTER, name_of(1)].status == "STOPPING"
    assert told(world, f"has lost {missing} of its 4 nodes")
    world.pools.move(CLUSTER, name_of(1), "gone")
    look(world)
    assert zones(world) == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("seen", "use"),
    [
        ({"nodes": HOSTS}, {}),
        ({"nodes": [], "waits": 590.0}, {}),
        ({"nodes": ["n1"], "node_age": 590.0}, {}),
        ({"nodes": []}, {"capacity_policies": ()}),
        ({"nodes": ["n1"]}, {"capacity_policies": ()}),
    ],
    ids=[*("all are there", "not for long", "GKE adds them again"), *("no list", "no list, some")],
)
def test_a_pool_with_too_few_nodes_stays_when(
    world: World, look: Look, seen: dict[str, Any], use: dict[str, Any]
) -> None:
    run_with_nodes(world, **seen)
    world.use(**{"capacity_policies": read_policies(POLICY), **use})
    look(world)

    assert world.pools.pools[CLUSTER, name_of(1)].status == "RUNNING"
    assert world.records.expect_in_order({"reason": "pod_unplaced"})


# --- flex-start without capacity ------------------------------------------------------------------


def wait_for_flex(world: World, *, attempt: int = 0, seconds: float = WAIT + 1) -> None:
    """Let a flex-start pool run without nodes for so long, and the leader wait as long."""
    world.pools.move(CLUSTER, name_of(attempt), "RUNNING")
    world.pools.creations.clear()
    world.cluster.nodes[name_of(attempt)] = []
    world.cluster.add(a_pod(created_at=NOW, unschedulable_since=world.clock.now()))
    world.clock.advance(seconds)


def use_flex(world: World, **overrides: Any) -> None:
    world.use(**{"capacity_policies": read_policies(FLEXIBLE), "flex_start_wait_seconds": WAIT, **overrides})


def test_flex_start_that_gets_no_nodes_in_time_is_followed_by_the_next_candidate(world: World) -> None:
    use_flex(world)
    by_message(world)
    for attempt in range(2):
        wait_for_flex(world, attempt=attempt)
        by_sweep(world)
        assert world.pools.pools[CLUSTER, name_of(attempt)].status == "STOPPING"
        world.pools.move(CLUSTER, name_of(attempt), "gone")

    assert zones(world) == ["a", "b", "b"]
    assert [bool(body["config"].get("flexStart")) for body in world.pools.bodies] == [True, True, False]
    assert told(
        world,
        "attempt 0 (candidate 1 of 3, flex-start in us-east5-a) failed: no capacity in us-east5-a (no nodes for "
        "3600 s); attempt 1: creating 4 x ct6e-standard-4t, 4x4, candidate 2 of 3, flex-start in us-east5-b",
    )


def test_without_a_list_it_is_told_and_the_pool_goes_on_waiting(world: World) -> None:
    world.use(flex_start_wait_seconds=WAIT)
    flexible = a_pod(shape={"selectors": {labels.FLEX_START: "true"}})
    world.cluster.add(flexible, a_jobset(template=flexible.template))
    by_message(world)
    wait_for_flex(world)
    world.cluster.add(
        a_pod(template=flexible.template, created_at=NOW, unschedulable_since=world.clock.now() - WAIT - 1)
    )
    by_sweep(world)

    assert world.pools.pools[CLUSTER, name_of(0)].status == "RUNNING"
    assert told(
        world,
        "gets no nodes: none for more than 3600 s; GKE's autoscaler continues to try, because no list of "
        "capacity has another way",
    )


def test_a_slice_that_waits_for_long_is_told_that_the_pool_for_it_lacks_nodes(records: Records) -> None:
    """Seed 8497263: a pool of unknown age is not left, so its owner must know what it lacks."""
    jobsets = JobSetWorld(records)
    jobsets.cluster.nodes[jobsets.add_pool(0)] = []
    jobsets.run(0, jobsets.add_pool(1))

    jobsets.deliver(a_demand_event(jobsets.wait(1, seconds=700)))

    assert jobsets.says() == ("wait", "pod_unplaced")
    assert "0 of 4 nodes exist" in str(jobsets.cluster.notices)


def make_pods(world: World, index: int, *, since: float) -> None:
    """Make the pods of the slice anew. The one with this index finds no host."""
    waiting = a_pod(created_at=since, unschedulable_since=since)
    if index:
        world.cluster.add(a_pod(created_at=since, node_name="n1", phase="Running"))
        marked = replace(waiting.template, labels={**waiting.template.labels, labels.COMPLETION_INDEX: str(index)})
        waiting = replace(waiting, name=f"train-workers-0-{index}", uid=f"pod {index}", template=marked)
    world.cluster.add(waiting)


def let_pods_give_up(
    world: World, *, index: int, errors: list[float], minutes: int = 20, status: str = "RUNNING", **machines: int
) -> None:
    """Take a host of the pool away, and make the pods anew each four minutes.

    The errors are those that GKE reports of the machine, in seconds after the loss.
    """
    run_with_nodes(world, nodes=["n1", "n2", "n3"], waits=10.0)
    lost_at = world.clock.now()
    world.pools.move(CLUSTER, name_of(1), status)
    world.pools.calls.clear()
    for minute in range(minutes):
        world.clock.advance(60)
        now = world.clock.now()
        make_pods(world, index, since=lost_at + minute // 4 * 240)
        found = tuple(FillError(STOCKOUT, lost_at + each) for each in errors if lost_at + each <= now)
        world.pools.machines[name_of(1)] = Machines(**{"made": 3, **machines}, errors=found)
        world.sweep()


@pytest.mark.parametrize("status", ["RUNNING", "RUNNING_WITH_ERROR"])
def test_pods_that_are_made_anew_do_not_keep_a_pool_that_lost_a_host(world: World, status: str) -> None:
    """JAX gives up after five minutes: no pod of the slice waits for as long as a pool has to."""
    let_pods_give_up(world, index=3, errors=[30.0, 300.0, 900.0], status=status)

    assert world.pools.pools[CLUSTER, name_of(1)].status == "STOPPING"
    assert told(world, "has lost 1 of its 4 nodes")


@pytest.mark.parametrize("index", [0, 3])
def test_without_a_list_a_lost_host_is_told_at_once_and_costs_no_call_of_google(world: World, index: int) -> None:
    let_pods_give_up(world, index=index, errors=[30.0], minutes=0)
    world.use(capacity_policies=())
    world.clock.advance(60)
    make_pods(world, index, since=world.clock.now() - 20)
    world.sweep()

    assert told(world, "3 of 4 nodes exist")
    assert world.pools.count("read_machines") == 0
