"""One look at a cluster each minute: its keys, its time, and that it says nothing twice."""

import copy
from math import inf
from typing import Any

import pytest
from msgspec import structs

from shared.engine import reads
from shared.engine.wakes import BEGIN_SECONDS, LISTED_MIN
from shared.model.errors import Denied
from shared.model.workloads import WorkloadView
from shared.needs.wanted import Wanted, list_wanted
from tests.engine.world import World


def test_a_tick_goes_on_where_its_time_ended() -> None:
    world = World()
    names = [f"w{number}" for number in range(4)]
    world.add(*names)

    world.on("get JobSet*", lambda: world.clock.pause(BEGIN_SECONDS / 2), times=inf)
    first = world.provisioner.tick()
    assert first.left > 0
    left = [key.name for key in world.memory.left]

    world.recover()
    world.take_calls()
    assert world.provisioner.tick().left == 0
    asked = [call.rpartition(" ")[2] for call in world.take_calls() if call.startswith("get JobSet")]
    assert list(dict.fromkeys(asked))[: len(left)] == left


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
    world.run_all()
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
    runs = structs.replace(world.cluster.pods["train-0-1"].template, volume_claims=("of a pod that runs",))
    world.change_pod("train-0-1", template=runs)
    world.collector.tick()
    assert asked == ["data"]
