"""What takes away rests on two plans that agree, a young look, and words that prove absence."""

from collections.abc import Callable

import pytest
from msgspec import structs

from shared.model.errors import KindAbsent, OutOfTime
from shared.model.pools import PoolStatus
from tests.builders import JOBSET_UID
from tests.engine.world import World, list_reasons
from tests.rows import rows


def over() -> tuple[World, str]:
    """A JobSet that has completed, with one pool."""
    world = World()
    (name,) = world.run_all()
    world.finish(replicas=1)
    world.take_calls()
    return world, name


def test_a_delete_makes_few_reads_and_reads_the_pods_last() -> None:
    world, name = over()
    world.collector.tick()

    calls = world.take_calls()
    of_the_tick = [f"get namespace {name}" for name in ("tpu-provisioner", "default", "kube-system")]
    ours = calls[calls.index("list nodes") + 1 :]  # the last list that the tick shares
    for call in of_the_tick:
        ours.remove(call)
    assert ours[-3].startswith("list pods on "), ours
    assert ours[-2:] == [f"delete {name}", "write Event"]
    hosts = sum(call.startswith("list pods on ") for call in ours)
    assert hosts == 4
    assert len(ours) - 2 - (hosts - 1) <= 8, ours


def test_where_all_pools_of_a_workload_go_one_list_serves_the_second_look() -> None:
    world = World(slices=3)
    world.run_all(slices=3)
    world.finish(replicas=3)
    world.take_calls()
    assert len(world.collect().done) == 3

    calls = world.take_calls()
    assert [each for each in calls if each.startswith("get train-")] == []
    assert calls.count("list pools") == 2


def test_a_pod_that_comes_after_the_first_look_keeps_all_pools() -> None:
    world = World(slices=2)
    first, _ = world.run_all(slices=2)
    pod = structs.replace(world.cluster.pods["train-0-0"], uid="late", node_name=f"{first}-0")
    world.finish(replicas=2)

    # The second look has read the pods of the workload, and not yet those on the nodes.
    world.on(f"list pods on {first}-0", lambda: world.cluster.pods.update(late=pod), nth=2)
    assert first not in {each.pool for each in world.collect().done}


def test_where_a_pool_stays_the_second_look_gets_each_by_its_name() -> None:
    world = World(slices=3)
    names = world.run_all(slices=3)
    world.set_jobset(replicas=1)
    world.cluster.pods = {name: pod for name, pod in world.cluster.pods.items() if "-0-" in name}
    world.take_calls()
    for _ in range(2):  # of a live owner, two ticks have to agree
        world.collector.tick()
        world.clock.time += 120

    assert {f"get {name}" for name in names} <= set(world.take_calls())


BETWEEN: dict[str, tuple[str, int, Callable[[World, str], object]]] = {
    "the workload lives again": ("get JobSet train", 2, lambda world, _: world.set_jobset(replicas=1)),
    "the pool is another's": ("get train-*", 1, lambda world, name: world.change(name, labels={"team": "a"})),
    "it is another deployment's": ("get train-*", 1, lambda world, name: world.change(name, deployment="b")),
    "a stop": ("list nodes", 1, lambda world, _: world.stop("default", "report-only")),
}


@rows("calls nth change", BETWEEN)
def test_what_comes_between_the_two_looks_keeps_the_pool(
    calls: str, nth: int, change: Callable[[World, str], object]
) -> None:
    world, name = over()

    world.on(calls, lambda: change(world, name), nth=nth)
    assert not world.collect().done
    assert not world.list_deleted()


@pytest.mark.parametrize(("slow_looks", "deleted"), [(1, True), (2, True), (9, False)])
def test_a_look_that_took_too_long_is_made_again_and_told_after_the_third(slow_looks: int, deleted: bool) -> None:
    world, name = over()

    world.on(f"list pods on {name}-0", world.pass_time(11.0), nth=2, times=slow_looks)
    work = world.collector.work(uid=JOBSET_UID)

    assert bool(world.list_deleted()) == deleted
    assert list_reasons(work) == ["workload_over" if deleted else "view_stale"]


def test_a_pod_of_another_workload_holds_the_pool_that_it_runs_on() -> None:
    world, name = over()
    world.set_jobset(name="other", uid="uid-of-other", replicas=1)
    world.wait(0, jobset="other")
    world.run(0, name, jobset="other")

    work = world.collector.work(uid=JOBSET_UID)

    assert (world.list_deleted(), work.errors) == ([], [])


def test_the_age_of_a_second_look_is_that_of_its_pods_reads() -> None:
    world, name = over()

    world.on(f"get {name}", world.pass_time(11.0), times=9)
    work = world.collector.work(uid=JOBSET_UID)

    assert list_reasons(work) == ["workload_over"]
    assert world.take_calls().count(f"get {name}") == 1, "slow reads before those of the pods count for nothing"


def test_a_pool_of_an_earlier_workload_of_the_same_name_serves_no_later_one() -> None:
    world = World()
    (old,) = world.run_all()
    world.cluster.pods.clear()
    world.set_jobset(uid="another")
    world.buy(0)

    assert {pool.owner.uid for pool in world.gke.pools.values() if pool.owner} == {JOBSET_UID, "another"}
    assert world.gke.pools[old].status == PoolStatus.RUNNING


def test_a_create_rests_on_a_young_look_too() -> None:
    world = World()

    world.on("list pods", world.pass_time(11.0))
    world.buy(0)

    assert len(world.gke.pools) == 1
    assert world.take_calls().count("list pods") == 2


def test_an_absence_that_is_not_the_workload_s_own_proves_nothing() -> None:
    world, _ = over()
    world.cluster.workloads.clear()
    world.fail("get JobSet train", KindAbsent("the cluster does not know jobsets"))

    assert not world.collect().plan.takes


def test_a_replaced_workload_loses_only_the_pools_of_the_one_that_is_gone() -> None:
    world, name = over()
    world.set_jobset(replicas=1, uid="another")

    world.collector.work(uid="another")
    assert not world.list_deleted()
    world.collector.work(uid=JOBSET_UID)
    assert world.list_deleted() == [name]


def test_one_fresh_look_serves_at_most_sixteen_pools() -> None:
    world = World(slices=20)
    world.run_all(slices=20)
    world.finish(replicas=20)
    world.take_calls()

    world.collector.work(uid=JOBSET_UID)

    assert len(world.list_deleted()) == 20
    assert world.take_calls().count("get JobSet train") == 3


def test_no_act_begins_after_the_time_of_its_delivery() -> None:
    world, name = over()

    world.on(f"get {name}", world.pass_time(51.0))  # so the reads of its pods are young
    work = world.collector.work(uid=JOBSET_UID)

    assert ([type(error) for error in work.errors], world.list_deleted()) == ([OutOfTime], [])


@pytest.mark.parametrize("seconds", [599, 601])
def test_a_pod_that_does_not_end_is_waited_for_ten_minutes_past_its_grace(seconds: int) -> None:
    world = World()
    (name,) = world.run_all()
    world.set_jobset(replicas=1, terminal="Completed")
    for pod in world.cluster.pods:
        world.change_pod(pod, deleting=True, deleting_since=world.clock.time)
    world.clock.time += seconds

    world.collector.work(uid=JOBSET_UID)

    assert world.list_deleted() == ([name] if seconds > 600 else [])
