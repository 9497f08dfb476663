"""An idle pool makes room for a slice that a limit refuses: the oldest, one in a sweep."""

import dataclasses
from typing import Any

import pytest

from shared.core import labels
from shared.core.errors import Busy
from shared.core.kinds import jobset as jobset_keys
from shared.core.ports import SurplusMark
from tests.builders import CLUSTER, NOW, a_jobset, a_pod
from tests.component.fake_queues import reserve_quota
from tests.component.test_component_warm_pools import IDLE, add_idle, make_warm, status, sweep, use
from tests.component.world import NAME, World

GRACE = 300


@pytest.fixture
def world(world: World) -> World:
    return make_warm(world)


def add_waiting(world: World, *, replicas: int = 1) -> None:
    """Let another workload wait for as much as one idle pool has."""
    world.cluster.add(a_jobset(name="next", uid="next", replicas=replicas, created_at=NOW - 900))
    for at in range(replicas):
        pod_labels = {jobset_keys.JOBSET_UID_ON_POD: "next"}
        pod = a_pod(jobset="next", index=at, pod_labels=pod_labels, unschedulable_since=NOW - 600)
        world.cluster.add(dataclasses.replace(pod, uid=f"next-{at}", created_at=NOW - 700))


def test_an_idle_pool_counts_against_the_limit_and_makes_room_for_a_slice_that_waits(world: World) -> None:
    world.use(idle_seconds=IDLE, limit_chips=16)
    sweep(world)
    add_waiting(world)
    sweep(world, after=GRACE - 1)
    assert status(world) == "RUNNING", "it may be in the gap of a restart"
    sweep(world, after=1)

    assert status(world) == "STOPPING"
    assert world.pools.count("create") == 0
    (deleted,) = (each for each in world.records.found if each.get("reason") == "pool_displaced")
    assert (deleted["decision"], deleted["pool"]) == ("delete", NAME)
    assert "JobSet default/next, slice next-workers-0" in deleted["message"]
    told = [each.message for each in world.cluster.notices if each.kind == "Pod"]
    assert NAME in told[-1]

    sweep(world)
    assert world.pools.count("create") == 1


def test_idle_pools_make_room_for_a_workload_that_waits_for_all_of_its_slices(world: World) -> None:
    world.use(idle_seconds=IDLE, limit_chips=32, kueue_admission_check=True)
    sweep(world)
    (younger,) = add_idle(world, 1)
    sweep(world, after=1)
    gang = a_jobset(name="next", uid="next", replicas=2, suspended=True)
    world.cluster.add(dataclasses.replace(gang, suspended_since=NOW - 3600))
    queues = reserve_quota(world, gang)
    sweep(world, after=GRACE)

    assert (status(world), status(world, younger)) == ("STOPPING", "RUNNING")
    (told,) = (each for each in world.cluster.notices if each.name == "next" and NAME in each.message)
    assert "to make room for this workload" in told.message
    world.pools.move(CLUSTER, NAME, "gone")
    for _ in range(2):
        queues.reserve(gang, at=world.clock.now())
        sweep(world)
    assert status(world, younger) == "STOPPING"
    world.pools.move(CLUSTER, younger, "gone")
    queues.reserve(gang, at=world.clock.now())
    sweep(world)
    assert world.pools.count("create") == 2


def test_those_that_are_idle_for_longest_go_first_and_one_in_a_sweep(world: World) -> None:
    world.use(idle_seconds=IDLE, limit_chips=48)
    sweep(world)
    younger, youngest = add_idle(world, 1, 2)
    sweep(world)
    world.cluster.marks["n2-0"] = SurplusMark(world.clock.now() + 30, closed=False)
    add_waiting(world, replicas=2)
    sweep(world, after=GRACE + 60)
    assert (status(world), status(world, younger), status(world, youngest)) == ("STOPPING", "RUNNING", "RUNNING")
    world.pools.move(CLUSTER, NAME, "gone")
    sweep(world)
    sweep(world)

    assert (status(world, younger), status(world, youngest)) == ("STOPPING", "RUNNING")


def test_a_pool_that_is_empty_in_the_gap_of_a_restart_makes_no_room(world: World) -> None:
    """Another workload uses it, and its pods are on their way when the sweep looks."""
    world.use(idle_seconds=IDLE, limit_chips=16)
    use(world)
    sweep(world)
    add_waiting(world)
    for _ in range(3):
        world.cluster.bound.clear()
        sweep(world)
        use(world)
        sweep(world, after=10 * GRACE)

    assert (status(world), world.cluster.marks) == ("RUNNING", {})


def wait_beside_two(world: World) -> str:
    """Let two pools be idle, and a workload wait for the room of one; return the younger."""
    world.use(idle_seconds=IDLE, limit_chips=32)
    sweep(world)
    (younger,) = add_idle(world, 1)
    sweep(world)
    add_waiting(world)
    return younger


def test_an_idle_pool_that_cannot_be_deleted_does_not_keep_the_others_from_making_room(world: World) -> None:
    younger = wait_beside_two(world)
    world.pools.fail_next("delete", Busy("another operation"))
    sweep(world, after=GRACE)

    assert (status(world), status(world, younger)) == ("RUNNING", "STOPPING")


def test_an_idle_pool_whose_nodes_cannot_be_read_again_does_not_keep_the_others_from_making_room(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    younger = wait_beside_two(world)
    plain, reads = world.cluster.list_surplus_marks, list[str]()

    def read(name: str) -> Any:
        reads.append(name)
        if name == NAME and reads.count(name) > 1:
            raise OverflowError("inf")
        return plain(name)

    monkeypatch.setattr(world.cluster, "list_surplus_marks", read)
    sweep(world, after=GRACE)

    assert (status(world), status(world, younger)) == ("RUNNING", "STOPPING")
    (found,) = world.records.expect_in_order({"reason": "internal_error"})
    assert found["message"] == f"node pool {NAME}: OverflowError: inf"


@pytest.mark.parametrize(
    ("namespace", "marks"),
    [("default", {labels.DISABLE_AUTOPROVISIONING: "true"}), ("tpu-provisioner", {labels.MODE: "no-create"})],
)
def test_a_pool_makes_no_room_for_a_slice_that_may_get_none(
    world: World, namespace: str, marks: dict[str, str]
) -> None:
    world.use(idle_seconds=IDLE, limit_chips=16)
    sweep(world)
    add_waiting(world)
    world.cluster.namespace_labels[namespace] = marks
    sweep(world, after=GRACE)

    assert status(world) == "RUNNING"


@pytest.mark.parametrize(("chips", "used"), [(16, True), (8, False)], ids=["it is used", "it would not help"])
def test_a_pool_makes_no_room_when(world: World, chips: int, *, used: bool) -> None:
    world.use(idle_seconds=IDLE, limit_chips=chips)
    if used:
        use(world, workload="third")
    sweep(world)
    add_waiting(world)
    sweep(world, after=GRACE)

    assert status(world) == "RUNNING"
