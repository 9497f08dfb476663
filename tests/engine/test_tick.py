"""One look at a cluster each minute: its keys, its time, and that it says nothing twice."""

import copy
from math import inf
from typing import Any

import pytest
from msgspec import structs

from shared.engine import reads
from shared.engine.wakes import BEGIN_SECONDS, LISTED_MIN
from shared.model.errors import Denied, Unavailable
from shared.model.workloads import WorkloadView
from shared.needs.wanted import Wanted, list_wanted
from tests.builders import IN_ONE_POOL, a_pod, a_template, settings
from tests.engine.world import World, list_reasons

EXCLUSIVE = a_template(topology_terms=IN_ONE_POOL)


def test_a_pod_that_waits_for_less_than_its_message_takes_is_left_out() -> None:
    world = World()
    world.wait(0, age=2.0)

    assert not world.provisioner.tick().outcomes
    world.clock.time += 4
    assert list_reasons(world.provisioner.tick()) == ["pool_absent"]


def test_what_is_refused_is_told_once_and_again_after_half_an_hour_or_to_a_message() -> None:
    world = World(limit_chips=1)
    world.wait(0)
    assert list_reasons(world.provisioner.tick()) == ["limit_reached"]

    assert not world.provisioner.tick().outcomes
    assert len(world.cluster.notices) == 1
    assert list_reasons(world.provisioner.work()) == ["limit_reached"]
    assert len(world.cluster.notices) == 1, "a message is logged, and its Event is written already"
    world.clock.time += 1801
    assert list_reasons(world.provisioner.tick()) == ["limit_reached"]

    world.set_jobset(uid="of the same name")
    world.wait(0)
    assert list_reasons(world.provisioner.tick()) == ["limit_reached"]
    world.memory.notices.update({place: (at, "other words") for place, (at, _) in world.memory.notices.items()})
    world.provisioner.work()
    assert len(world.cluster.notices) == 4, "other words are written at once"


def test_a_tick_reads_gkes_operations_once_and_only_while_a_pod_waits() -> None:
    world = World()
    world.run_all()
    world.take_calls()
    world.provisioner.tick()
    assert "list operations" not in world.take_calls()

    world.add("second", "third")
    world.clock.time += 600
    world.provisioner.tick()

    calls = world.take_calls()
    assert calls.count("list operations") == 1
    assert sum(call.startswith("create") for call in calls) == 2


def test_one_workload_that_cannot_be_read_stops_no_other() -> None:
    world = World()
    world.add("train", "second")
    world.fail("get JobSet train", Denied("no right"))

    done = world.provisioner.tick()

    assert [(about, type(error)) for about, error in done.errors] == [("JobSet default/train", Denied)]
    assert list_reasons(done) == ["pool_absent"]


def test_a_tick_goes_on_where_its_time_ended() -> None:
    world = World()
    names = [f"w{number}" for number in range(4)]
    world.add(*names)

    world.on("get JobSet*", world.pass_time(BEGIN_SECONDS / 2), times=inf)
    first = world.provisioner.tick()
    assert first.left > 0
    left = [key.name for key in world.memory.left]

    world.recover()
    world.take_calls()
    assert world.provisioner.tick().left == 0
    asked = [call.rpartition(" ")[2] for call in world.take_calls() if call.startswith("get JobSet")]
    assert list(dict.fromkeys(asked))[: len(left)] == left


def test_a_cluster_that_cannot_be_listed_is_one_error_and_forgets_what_was_spare() -> None:
    world = World()
    world.collector.memory.spare = frozenset({"p"})

    world.fail("*", Unavailable("no answer"))
    done = world.collector.tick()

    assert [type(error) for _, error in done.errors] == [Unavailable]
    assert not world.collector.memory.spare


def test_a_restart_between_two_ticks_delays_a_surplus_pool_by_one_tick() -> None:
    world = World(slices=2)
    world.run_all(slices=2)
    world.set_jobset(replicas=1)
    for name in [name for name in world.cluster.pods if name.startswith("train-1-")]:
        del world.cluster.pods[name]

    world.collector.tick()
    world.restart()
    world.collector.tick()
    assert not world.list_deleted()
    assert list_reasons(world.collector.tick()) == ["pool_surplus"]
    assert len(world.list_deleted()) == 1


def test_a_workload_of_a_kind_that_is_not_served_is_answered() -> None:
    world = World(kinds=("Job",))
    world.wait(0)

    assert list_reasons(world.provisioner.tick()) == ["kind_not_served"]
    assert not world.gke.pools


def test_pods_whose_workload_does_not_exist_are_answered_themselves() -> None:
    world = World()
    world.wait(0)
    world.cluster.workloads.clear()

    done = world.provisioner.tick()

    assert set(list_reasons(done)) == {"owner_kind_unknown"}
    assert {notice.subject.kind for notice in world.cluster.notices} == {"Pod"}
    assert not world.provisioner.tick().outcomes


def of_nobody(world: World, name: str, **fields: str) -> None:
    """A pod without the marks of any kind."""
    pod = a_pod(name=name, uid=name)
    template = structs.replace(pod.template, labels={}, annotations={})
    world.cluster.pods[name] = structs.replace(pod, template=template, **fields)
    bare = WorkloadView(kind="Pod", namespace="default", name=name, uid=name, templates={"": template})
    world.cluster.workloads["Pod", "default", name] = bare


def test_a_bare_pod_is_a_workload_of_its_own_and_one_whose_controller_nobody_serves_is_answered_once() -> None:
    world = World()
    of_nobody(world, "alone", controller_kind="")
    world.provisioner.tick()
    assert "get Pod alone" in world.take_calls()
    world.cluster.pods.clear()

    of_nobody(world, "mpi-0", controller_kind="MPIJob", controller_name="mpi")
    assert list_reasons(world.provisioner.tick()) == ["owner_kind_unknown"]
    assert not world.provisioner.tick().outcomes


@pytest.mark.parametrize("gone", [False, True])
def test_ticks_alone_delete_what_a_workload_left_whether_it_is_over_or_gone(gone: bool) -> None:
    world = World()
    (name,) = world.run_all()
    world.finish(replicas=1)
    if gone:
        world.cluster.workloads.clear()
    world.restart()

    world.collector.tick()

    assert world.list_deleted() == [name]


def test_each_tick_measures_the_cluster() -> None:
    world = World(slices=2)
    world.wait(0, 1)
    figures = world.provisioner.tick().figures
    assert figures == {"waiting_demands": 1, "oldest_wait_seconds": 35}

    first, _ = world.gke.pools
    world.come(first)
    assert world.collector.tick().figures == {"idle_chips": 16, "autoscaled_pools": 0}


def warm_world(**options: int) -> tuple[World, str]:
    """A JobSet that is over, whose pool stays for ten minutes if the setting says so."""
    world = World(**options)
    world.set_jobset(replicas=1, template=EXCLUSIVE)
    (name,) = world.run_all()
    world.finish(replicas=1, template=EXCLUSIVE)
    return world, name


def test_a_warm_pool_is_marked_closed_and_deleted_a_tick_later() -> None:
    world, name = warm_world(idle_seconds=600)
    world.collector.tick()
    assert {(node.idle_since, node.closed) for node in world.cluster.nodes.values()} == {(world.clock.time, False)}

    world.clock.time += 601
    world.collector.tick()
    assert all(node.closed for node in world.cluster.nodes.values())
    assert not world.list_deleted()
    world.clock.time += 661
    world.collector.tick()
    assert world.list_deleted() == [name]


def test_a_pool_that_was_not_made_to_stay_goes_at_once_whatever_the_setting_says_later() -> None:
    world, name = warm_world()
    world.collector.ports = structs.replace(world.collector.ports, settings=settings(idle_seconds=600))

    world.collector.tick()

    assert world.list_deleted() == [name]


@pytest.mark.parametrize("seconds", [0, 6])
@pytest.mark.parametrize("jobset", ["train", "other"])
def test_a_pod_that_runs_on_an_idle_pool_opens_it_however_long_a_tick_lists(jobset: str, seconds: float) -> None:
    world, name = warm_world(idle_seconds=600)
    world.collector.tick()
    world.set_jobset(name=jobset, replicas=1, template=EXCLUSIVE)
    world.wait(0, jobset=jobset)
    for host in range(4):
        world.change_pod(f"{jobset}-0-{host}", node_name=f"{name}-{host}", unschedulable=False)
    assert all(node.idle_since for node in world.cluster.nodes.values())
    world.on("list nodes", world.pass_time(seconds))

    world.provisioner.tick()

    assert {node.idle_since for node in world.cluster.nodes.values()} == {None}
    assert len(world.gke.pools) == 1


def have_many(world: World) -> list[str]:
    """Let as many JobSets run as a tick lists, each with its pool."""
    names = [f"w{number}" for number in range(LISTED_MIN)]
    world.add(*names)
    world.provisioner.tick()
    for name in names:
        (pool,) = [each.name for each in world.gke.pools.values() if each.owner and each.owner.name == name]
        world.run(0, pool, jobset=name)
    world.take_calls()
    return names


@pytest.mark.parametrize("error", [None, Denied("no right")])
def test_many_workloads_of_a_kind_are_listed_and_read_one_by_one_only_without_a_list(
    error: Exception | None,
) -> None:
    world = World()
    names = have_many(world)
    if error:
        world.fail("list JobSets", error)

    done = world.collector.tick()

    calls = world.take_calls()
    assert calls.count("list JobSets") == 1
    assert {call for call in calls if call.startswith("get JobSet")} == (
        {f"get JobSet {name}" for name in names} if error else set()
    )
    assert [type(each) for _, each in done.errors] == ([Denied] if error else [])
    assert not world.list_deleted()


def test_a_workload_that_a_list_does_not_show_is_read_by_its_name() -> None:
    world = World()
    names = have_many(world)
    del world.cluster.workloads["JobSet", "default", names[0]]
    world.cluster.pods = {name: pod for name, pod in world.cluster.pods.items() if not name.startswith("w0-")}

    world.collector.tick()

    assert f"get JobSet {names[0]}" in world.take_calls()
    owners = [world.gke.pools[deleted].owner for deleted in world.list_deleted()]
    assert [owner.name for owner in owners if owner] == names[:1]


def count_findings(world: World, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return for how many workloads a tick of `collect` finds out anew what they want."""
    asked: list[str] = []

    def find(cluster: str, workload: WorkloadView, *rest: Any) -> Wanted:
        asked.append(workload.name)
        return list_wanted(cluster, workload, *rest)

    monkeypatch.setattr(reads, "list_wanted", find)
    assert not world.collector.tick().errors
    return len(asked)


def test_what_a_workload_wants_is_found_out_once_while_it_stays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(slices=2)
    world.run_all(slices=2)
    assert count_findings(world, monkeypatch) == 1
    world.cluster.pods = {name: copy.deepcopy(pod) for name, pod in world.cluster.pods.items()}
    assert count_findings(world, monkeypatch) == 0

    world.change_pod("train-0-0", deleting=True)
    assert count_findings(world, monkeypatch) == 1
    world.set_jobset(replicas=1)
    assert count_findings(world, monkeypatch) == 1
    world.cluster.nodes.clear()
    assert count_findings(world, monkeypatch) == 1
    assert count_findings(world, monkeypatch) == 0


def test_what_a_workload_wanted_is_forgotten_with_its_pools() -> None:
    world = World()
    world.run_all()
    world.collector.tick()
    assert world.collector.memory.wanted

    world.gke.pools.clear()
    world.collector.tick()

    assert not world.collector.memory.wanted


def test_a_tick_reads_the_disks_of_a_workload_only_while_a_pod_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.run_all()
    key = ("JobSet", "default", "train")
    (group,) = world.cluster.workloads[key].groups
    template = structs.replace(group.template, volume_claims=("data",))
    changed = structs.replace(group, template=template)
    world.cluster.workloads[key] = structs.replace(world.cluster.workloads[key], groups=(changed,))
    asked: list[str] = []
    monkeypatch.setattr(world.cluster, "find_disk", lambda _namespace, claim: asked.append(claim))

    world.collector.tick()
    assert not asked
    world.change_pod("train-0-0", node_name="", unschedulable=True)
    world.collector.tick()
    assert asked == ["data"]


def test_a_slice_that_is_placed_while_the_lists_are_read_is_not_told_to_be_mixed() -> None:
    world = World()
    (pool,) = world.buy(0)

    world.on("list all pods", lambda: world.run(0, pool))

    assert not list_reasons(world.collector.tick())


def test_a_slice_that_runs_on_a_pool_of_others_is_not_told_to_be_mixed() -> None:
    world = World(slices=2)
    first, second = world.buy(0, 1)
    world.gke.pools["static"] = structs.replace(world.gke.pools[second], name="static", labels={})
    del world.gke.pools[second]
    world.run(0, first)
    world.run(1, "static")

    assert not list_reasons(world.collector.tick())
