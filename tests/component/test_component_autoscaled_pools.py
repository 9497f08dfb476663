"""Pools that GKE's autoscaler fills: empty ones do not serve; a refusal is known in a sweep."""

from dataclasses import replace
from typing import Any

import pytest

from shared.capacity_lists import read_policies
from shared.core.ports import FillError
from shared.core.priorities import NodeSource
from tests.builders import CLUSTER, NOW, a_jobset, a_pod
from tests.component.empty_pools import POLICY, TOLD, begin, begin_refused, refuse, status
from tests.component.fake_queues import reserve_quota
from tests.component.looks import by_message, by_sweep
from tests.component.world import World, name_of

TWO = "[{}, {location: {zones: [us-east5-b]}}]"


@pytest.fixture(autouse=True)
def _listed(world: World) -> None:
    world.use(capacity_policies=read_policies(POLICY))
    world.cluster.add(a_pod(unschedulable_since=NOW - 20))


def sizes(world: World) -> list[tuple[int, int]]:
    """Return the nodes that each body asks for: at its creation, and from the autoscaler."""
    return [
        (body["initialNodeCount"], body.get("autoscaling", {}).get("maxNodeCount", 0))
        for body in world.pools.bodies
    ]


# --- what makes the nodes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listed", "source", "wanted"),
    [
        (TWO, {}, (0, 4)),
        ("[{}]", {}, (4, 0)),
        ("[{}]", {"on-demand": NodeSource.AUTOSCALER}, (0, 4)),
        (TWO, {"on-demand": NodeSource.CREATION}, (4, 0)),
        (
            "[{nodesFrom: creation}, {location: {zones: [us-east5-b]}}]",
            {"on-demand": NodeSource.AUTOSCALER},
            (4, 0),
        ),
        ("[{nodesFrom: autoscaler}]", {}, (0, 4)),
        ("[{reservations: {specific: [{name: r}]}}, {}]", {}, (4, 0)),
        ("[{reservations: {specific: [{name: r}]}}, {}]", {"reservation": NodeSource.AUTOSCALER}, (0, 4)),
        ("[{flexStart: {enabled: true}}]", {}, (0, 4)),
    ],
)
def test_the_nodes_come_from(
    world: World, listed: str, source: dict[str, NodeSource], wanted: tuple[int, int]
) -> None:
    world.use(capacity_policies=read_policies(f"[{{priorities: {listed}}}]"), nodes_from=source)
    by_message(world)

    assert sizes(world) == [wanted]


@pytest.mark.parametrize(("others", "wanted"), [(1, (0, 4)), (2, (4, 0))])
def test_above_a_number_of_autoscaled_pools_new_ones_come_with_their_nodes(
    world: World, others: int, wanted: tuple[int, int]
) -> None:
    world.use(capacity_policies=read_policies(POLICY), autoscaled_pools_max=2)
    by_message(world)
    for index in range(others):
        world.pools.add(
            CLUSTER, replace(world.pools.pools[CLUSTER, name_of(0)], name=f"theirs-{index}", labels={})
        )
    del world.pools.pools[CLUSTER, name_of(0)]
    world.pools.bodies.clear()
    by_message(world)

    assert sizes(world) == [wanted]


# --- an empty pool does not serve -----------------------------------------------------------------


def test_an_empty_pool_is_waited_for(world: World) -> None:
    begin(world)
    by_sweep(world)

    world.records.expect_in_order({"decision": "wait", "reason": "pool_in_progress", "pool": name_of(0)})
    assert "runs without nodes; GKE's autoscaler adds 4" in str(world.records.found)
    assert status(world, 0) == "RUNNING"


@pytest.mark.parametrize("state", ["RUNNING", "RUNNING_WITH_ERROR"])
@pytest.mark.parametrize("seconds", [90.0, 3000.0])
@pytest.mark.parametrize(
    "use",
    [
        {"capacity_policies": read_policies("[{priorities: [{nodesFrom: autoscaler}]}]")},
        {"nodes_from": {"on-demand": NodeSource.AUTOSCALER}},
    ],
    ids=["by the list", "by the setting"],
)
def test_with_one_way_alone_an_empty_pool_is_left_to_the_autoscaler_and_the_owner_is_told(
    world: World, use: dict[str, Any], seconds: float, state: str
) -> None:
    world.use(**use)
    begin_refused(world, seconds=seconds)
    world.pools.move(CLUSTER, name_of(0), state)
    by_sweep(world)

    assert status(world, 0) == state
    told = str(world.cluster.notices)
    assert "no capacity in us-east5-a" in told
    assert "GKE's autoscaler continues to try, because no list of capacity has another way" in told


# --- when it failed -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "state"),
    [(90.0, "RUNNING"), (90.0, "RUNNING_WITH_ERROR"), (3000.0, "RUNNING_WITH_ERROR")],
    ids=["it runs", "it has errors", "it has errors, for long"],
)
def test_a_refusal_of_the_group_brings_the_next_candidate_in_the_same_sweep(
    world: World, seconds: float, state: str
) -> None:
    """A pool with errors is not deleted as degraded: with its record the list would begin anew."""
    begin_refused(world, seconds=seconds)
    world.pools.move(CLUSTER, name_of(0), state)
    by_sweep(world)

    assert (status(world, 0), status(world, 1)) == ("STOPPING", "PROVISIONING")
    assert [body["locations"] for body in world.pools.bodies] == [["us-east5-a"], ["us-east5-b"]]
    head = "attempt 0 (candidate 1 of 2, on-demand in us-east5-a) failed: no capacity in us-east5-a"
    assert head in str(world.cluster.notices)
    world.records.expect_in_order({"decision": "create", "reason": "pool_failed", "failure": "stockout"})


@pytest.mark.parametrize(
    ("message", "after", "left"),
    [
        (TOLD, 70, True),
        (TOLD.replace("us-east5-a", "us-east5-b"), 70, False),
        ("Node scale up failed: GCE quota exceeded", 70, True),
        (TOLD, 30, False),
        (TOLD, -3600, False),
    ],
    ids=["of this zone", "of another zone", "without a zone", "about an earlier pool", "long ago"],
)
def test_what_the_autoscaler_told_the_pod_counts_if_it_is(
    world: World, message: str, after: float, left: bool
) -> None:
    begin(world)
    world.cluster.scale_ups[a_pod().uid] = [FillError(message, NOW + after)]
    by_sweep(world)

    assert status(world, 0) == ("STOPPING" if left else "RUNNING")


@pytest.mark.parametrize("machines", [{"made": 1}, {"coming": 4}])
def test_a_machine_on_its_way_keeps_the_pool(world: World, machines: dict[str, int]) -> None:
    begin(world)
    refuse(world, **machines)
    by_sweep(world)

    assert status(world, 0) == "RUNNING"
    world.records.expect_in_order({"decision": "wait", "reason": "pool_in_progress"})


# --- workloads without pods -----------------------------------------------------------------------


def test_kueues_check_makes_pools_with_their_nodes_and_replaces_an_autoscaled_one(world: World) -> None:
    begin(world)
    world.cluster.pods.clear()
    world.use(capacity_policies=read_policies(POLICY), kueue_admission_check=True)
    reserve_quota(world, a_jobset(suspended=True))
    by_sweep(world)
    assert status(world, 0) == "STOPPING"

    world.pools.move(CLUSTER, name_of(0), "gone")
    by_sweep(world)
    assert set(sizes(world)[1:]) == {(4, 0)}
    assert name_of(0) in [body["name"] for body in world.pools.bodies[1:]]
