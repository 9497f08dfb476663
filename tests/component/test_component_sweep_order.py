"""A sweep answers before it deletes, and in another order each time."""

import pytest

from shared.core.errors import Throttled
from tests.builders import CLUSTER, NOW, a_claim, a_jobset, a_pod, a_pool
from tests.component.world import World, orphan


def test_a_429_on_a_delete_keeps_no_leader_from_its_pool(world: World) -> None:
    world.pools.add(CLUSTER, *(orphan(f"gone-{number}") for number in range(20)))
    for sweep in range(3):
        for _ in range(20):
            world.pools.fail_next("delete", Throttled("too many deletes"))
        leader = a_pod(jobset=f"job-{sweep}", uid=f"of-{sweep}", unschedulable_since=NOW - 60)
        world.cluster.add(a_jobset(name=f"job-{sweep}"), leader)
        world.sweep()

        assert world.pools.count("create") == sweep + 2
    assert world.pools.count("delete") == 3, "each sweep asks once, and then leaves deletes alone"


@pytest.mark.parametrize("refused", [False, True])
def test_leaders_are_answered_before_pools_are_deleted_and_a_429_on_a_create_keeps_no_pool(
    world: World, *, refused: bool
) -> None:
    world.pools.add(CLUSTER, *(orphan(f"gone-{number}") for number in range(20)))
    if refused:
        world.pools.fail_next("create", Throttled("too many creates"))
    world.sweep()

    changes = [method for method, _ in world.pools.calls if method in ("create", "delete")]
    assert changes == ["create", *["delete"] * 20]


def test_workloads_without_a_pool_come_first(world: World) -> None:
    """A leader whose pool serves costs reads of nodes and pods, and a sweep has little time."""
    for number in range(12):
        name = f"runs-{number}"
        claim = a_claim(name=name, owner_uid=f"uid-{number}", slice_key=f"default/{name}-workers-0")
        world.pools.add(CLUSTER, a_pool("PROVISIONING", claim=claim))
        world.cluster.add(a_jobset(name=name, uid=f"uid-{number}"), a_pod(jobset=name, uid=f"pod-{number}"))
    world.sweep()

    answered = [each["subject"] for each in world.records.found if "subject" in each]
    assert answered[0] == "Pod default/train-workers-0-0-abcde"


def test_each_sweep_has_another_order(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = set()
    for number in range(8):
        world.cluster.add(a_jobset(name=f"job-{number}"), a_pod(jobset=f"job-{number}", uid=f"of-{number}"))
    for _ in range(4):
        world.pools.pools.clear()
        world.pools.bodies.clear()
        world.pools.creations.clear()
        world.sweep()
        orders.add(tuple(each["name"] for each in world.pools.bodies))
        world.clock.advance(60)

    assert len(orders) > 1
    assert {frozenset(each) for each in orders} == {frozenset(next(iter(orders)))}
