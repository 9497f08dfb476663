"""A running workload of which a part has its pools is suspended by setting, and waits for all."""

from dataclasses import replace
from typing import Any

import pytest

from shared.core import labels
from shared.core.errors import Denied, Unavailable
from shared.core.kinds.jobset import EXCLUSIVE_TOPOLOGY, JOBSET_UID_ON_POD, NODE_SELECTOR_STRATEGY
from tests.builders import CLUSTER, NOW, a_go_pool, a_jobset, a_pod, a_pool
from tests.component.looks import Look
from tests.component.test_component_capacity_first import NAMES, jobset, run
from tests.component.test_component_own_refusals import by_label, by_namespace
from tests.component.test_component_slow_creations import refuse
from tests.component.world import World, name_of, slice_name


@pytest.fixture(autouse=True)
def _empty(world: World) -> None:
    world.cluster.pods.clear()


SETTINGS: dict[str, Any] = {"capacity_first": True, "release_partial_gang_seconds": 600}


def hold_a_part(world: World, *, pinned: bool = False, marks: dict[str, str] | None = None) -> None:
    """Let slice 0 run and slice 1 wait for capacity, of a JobSet that nobody suspended."""
    world.use(**SETTINGS)
    annotations = {EXCLUSIVE_TOPOLOGY: labels.NODE_POOL, NODE_SELECTOR_STRATEGY: "true"} if pinned else {}
    waiting = [a_pod(index=index, uid=f"uid-{index}", unschedulable_since=NOW - 20) for index in range(2)]
    world.cluster.add(a_jobset(version="1", annotations=annotations), *waiting)
    world.sweep()
    run(world, NAMES[0])
    refuse(world, NAMES[1])
    bound = a_pod(index=0, uid="uid-0", node_name=f"{NAMES[0]}-node")
    world.cluster.add(a_jobset(marks=marks or {}, version="2", annotations=annotations), bound)


def test_a_partial_gang_is_suspended_and_waits_for_all(world: World) -> None:
    hold_a_part(world)
    world.clock.advance(599)
    world.sweep()
    assert not jobset(world).suspended
    world.clock.advance(2)
    world.sweep()

    assert jobset(world).suspended
    assert jobset(world).marks[labels.CAPACITY_FIRST] == "true"
    assert any("1 of 2 slices have node pools" in each.message for each in world.cluster.notices)
    world.cluster.pods.clear()
    world.sweep()
    assert [name for method, name in world.pools.calls if method == "delete"] == [NAMES[0]]


@pytest.mark.parametrize(
    "marks",
    [{labels.QUEUE_NAME: "q"}, {labels.CAPACITY_FIRST: "false"}, {labels.DISABLE_AUTOPROVISIONING: "true"}],
)
def test_a_partial_gang_of_a_queue_or_of_one_who_does_not_want_it_stays(
    world: World, marks: dict[str, str]
) -> None:
    hold_a_part(world, marks=marks)
    world.clock.advance(5000)
    world.sweep()

    assert not jobset(world).suspended


@pytest.mark.parametrize("running", [1, 2])
def test_a_partial_gang_whose_slices_swapped_pools_is_judged_by_their_sum(world: World, running: int) -> None:
    """Slice 0 runs on the pool named for slice 1, and slice 1 may go to the other pool."""
    hold_a_part(world)
    run(world, *NAMES[2 - running :])
    world.cluster.add(a_pod(index=0, uid="uid-0", node_name=f"{NAMES[1]}-node"))
    if running == 1:
        world.pools.fail(CLUSTER, NAMES[0], "GCE_STOCKOUT")
        world.sweep()
    world.clock.advance(601)
    if running == 1:
        world.pools.fail(CLUSTER, slice_name(1, 1), "GCE_STOCKOUT", ended_at=world.clock.now())
    world.sweep()

    assert jobset(world).suspended == (running == 1)
    lines = [each.message for each in world.cluster.notices if "1 of 2 slices have node pools" in each.message]
    assert all("train-workers-1 has had none for 600 s" in each for each in lines)
    assert bool(lines) == (running == 1)


@pytest.mark.parametrize("lent", [False, True])
def test_a_pool_that_another_workload_uses_is_had_as_after_a_release(world: World, *, lent: bool) -> None:
    """Seed 7990495: no release gives it back, so the JobSet would be resumed at once."""
    hold_a_part(world)
    run(world, *NAMES)
    world.cluster.add(a_pod(index=0, uid="uid-0", node_name=f"{NAMES[1]}-node"))
    if lent:
        world.cluster.add(a_pod(uid="other", jobset="other", node_name=f"{NAMES[0]}-node"))
    else:
        world.pools.move(CLUSTER, NAMES[0], "gone")
    world.clock.advance(601)
    world.sweep()
    world.pools.fail(CLUSTER, slice_name(1, 1), "GCE_STOCKOUT", ended_at=world.clock.now())
    world.sweep()

    assert any("GCE_STOCKOUT" in each.message for each in world.cluster.notices)
    assert jobset(world).suspended != lent


@pytest.mark.parametrize(("spread", "pinned"), [(False, False), (True, False), (False, True)])
def test_a_pool_that_no_other_slice_can_use_is_not_to_spare(world: World, *, spread: bool, pinned: bool) -> None:
    """Two pools of slice 0 run. Its hosts are on both, or it is pinned to its own pools."""
    hold_a_part(world, pinned=pinned)
    first, second = NAMES[0], name_of(1)
    world.pools.add(CLUSTER, a_pool(name=second, extra_labels={labels.ATTEMPT: "1"}))
    run(world, first, second)
    node = f"{second if spread else first}-node"
    host = {labels.COMPLETION_INDEX: "1"}
    world.cluster.add(a_pod(index=0, uid="uid-0-1", name="train-workers-0-1-x", pod_labels=host, node_name=node))
    world.clock.advance(601)
    world.sweep()

    assert jobset(world).suspended == (spread or pinned)


def test_a_pool_on_which_the_slice_cannot_run_does_not_serve_it(world: World) -> None:
    """Seed 3003515: the Go provisioner made a pool of that name, which has no label of the pin."""
    others = a_go_pool()
    labelled = {**others.labels, labels.PARENT_NAME: "train-workers-1"}
    world.pools.add(CLUSTER, replace(others, labels=labelled))
    hold_a_part(world, pinned=True)
    run(world, NAMES[0], others.name)

    world.clock.advance(601)
    world.sweep()

    assert jobset(world).suspended


def lose_a_pool(world: World) -> None:
    """A slice has just lost its pool."""
    world.cluster.add(a_pod(index=1, uid="uid-1", unschedulable_since=world.clock.now() - 100))


def report_no_lack(world: World) -> None:
    """A creation is slow, and GKE reports no lack."""
    world.pools.machines.clear()


@pytest.mark.parametrize("happens", [lose_a_pool, report_no_lack])
def test_a_slice_that_does_not_lack_its_pool_for_long_ends_no_other(world: World, happens: Look) -> None:
    hold_a_part(world)
    world.clock.advance(1200)
    happens(world)
    world.sweep()

    assert not jobset(world).suspended


def test_an_autoscaled_pool_without_nodes_is_no_pool_that_a_slice_has(world: World) -> None:
    hold_a_part(world)
    world.pools.move(CLUSTER, NAMES[1], "RUNNING")
    world.pools.add(CLUSTER, replace(world.pools.pools[CLUSTER, NAMES[1]], autoscaled=True))
    world.clock.advance(601)
    world.sweep()

    assert jobset(world).suspended
    assert any("1 of 2 slices have node pools" in each.message for each in world.cluster.notices)


def lower_a_limit(world: World) -> None:
    world.use(**SETTINGS, limit_chips=16)


def meet_an_error(world: World) -> None:
    world.pools.fail_next("create", Unavailable("503"))


def lack_a_right(world: World) -> None:
    world.pools.fail_next("create", Denied("a right is missing"))


def stop_by_setting(world: World) -> None:
    world.use(**SETTINGS, mode="no-create")


OURS = (lower_a_limit, stop_by_setting, by_label, by_namespace)
OF_GKE = (meet_an_error, lack_a_right)


@pytest.mark.parametrize(
    ("refuse_it", "lack"),
    [*((each, "no capacity") for each in OURS), *((each, "no pool") for each in (*OURS, *OF_GKE))],
)
def test_what_we_refuse_ourselves_or_an_error_releases_nothing(world: World, refuse_it: Look, lack: str) -> None:
    hold_a_part(world)
    if lack == "no pool":
        world.pools.move(CLUSTER, NAMES[1], "gone")
        world.pools.creations.clear()
    for _ in range(20):
        world.clock.advance(60)
        refuse_it(world)
        world.sweep()

    assert not jobset(world).suspended
    assert world.pools.count("delete") == 0


def test_one_sweep_releases_one_workload_and_the_next_one_another(world: World) -> None:
    hold_a_part(world)
    other: dict[str, Any] = {"jobset": "other", "pod_labels": {JOBSET_UID_ON_POD: "uid-of-other"}}
    world.cluster.add(a_jobset(name="other", uid="uid-of-other", version="1"))
    for index in range(2):
        world.cluster.add(a_pod(index=index, uid=f"other-{index}", unschedulable_since=NOW - 20, **other))
    world.sweep()
    first, second = [name for name in world.pools.names(CLUSTER) if name not in NAMES]
    run(world, first)
    refuse(world, second)
    world.cluster.add(a_pod(index=0, uid="other-0", node_name=f"{first}-node", **other))
    world.clock.advance(700)

    world.sweep()
    assert [each.suspended for each in world.cluster.workloads.values()].count(True) == 1
    world.sweep()
    assert [each.suspended for each in world.cluster.workloads.values()].count(True) == 2
