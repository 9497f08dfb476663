"""Kueue's check: pools for all slices of a workload, or for none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from shared.model import labels
from shared.model.decisions import Reason
from shared.model.errors import KindAbsent, Rejected
from shared.model.names import ObjectName
from shared.model.pools import PoolStatus
from shared.model.workloads import Check, CheckState, QueuedWorkload, WorkloadView
from tests.builders import CLUSTER, JOBSET_UID
from tests.engine.test_budget import FULL
from tests.engine.world import World, list_reasons

CHECK = Check(name="capacity", active=True)


class FakeQueues:
    """Kueue of one cluster, with our check in its queue."""

    def __init__(self, world: World) -> None:
        self.world, self.check = world, CHECK
        self.workloads: dict[str, QueuedWorkload] = {}
        self.marked: list[str] = []
        self.pauses: list[int | None] = []
        self.flavor_error: Exception | None = None
        self.absent = False

    def queue(self, name: str = "train", kind: str = "JobSet", **fields: Any) -> None:
        state = CheckState(name="capacity", state="Pending")
        uid = JOBSET_UID if name == "train" else f"uid-of-{name}"
        self.workloads[name] = QueuedWorkload(
            **{
                "namespace": "default",
                "name": f"w-{name}",
                "uid": f"w-{name}",
                "version": "1",
                "owner": ObjectName(kind=kind, namespace="default", name=name, uid=uid),
                "checks": (state,),
                "reserved_at": self.world.clock.time,
                "holds_quota": True,
                **fields,
            }
        )

    def state(self, name: str = "train") -> CheckState:
        return self.workloads[name].checks[0]

    def list_checks(self) -> Sequence[Check]:
        if self.absent:
            raise KindAbsent("the cluster does not know admissionchecks")
        return [self.check]

    def mark_active(self, check: Check) -> None:
        self.marked.append(check.name)

    def list_workloads(self) -> Sequence[QueuedWorkload]:
        return list(self.workloads.values())

    def list_owned(self, namespace: str, owner_uid: str) -> Sequence[QueuedWorkload]:
        return [each for each in self.workloads.values() if each.owner.uid == owner_uid]

    def view_owner(self, queued: QueuedWorkload) -> WorkloadView | None:
        if self.flavor_error:
            raise self.flavor_error
        return self.world.cluster.workloads[queued.owner.kind, queued.namespace, queued.owner.name]

    def write_state(self, queued: QueuedWorkload, state: CheckState, *, retry_seconds: int | None = None) -> None:
        losing = state.state in ("Retry", "Rejected")
        self.pauses.append(retry_seconds)
        self.workloads[queued.owner.name] = structs.replace(
            self.workloads[queued.owner.name], checks=(state,), holds_quota=queued.holds_quota and not losing
        )


def gang(*names: str, slices: int = 2, **options: Any) -> tuple[World, FakeQueues]:
    """Suspended JobSets with quota."""
    world = World(**options)
    queues = FakeQueues(world)
    for function in (world.provisioner, world.collector):
        function.queues[CLUSTER] = queues
    for name in names or ("train",):
        marks = {labels.CAPACITY_CHECK_SECONDS: "600"}
        world.set_jobset(name=name, replicas=slices, suspended=True, suspended_since=world.clock.time, marks=marks)
        queues.queue(name)
    return world, queues


def test_a_gang_gets_all_its_pools_before_its_pods_and_is_ready_when_all_run() -> None:
    world, queues = gang()
    assert list_reasons(world.provisioner.tick())[:2] == ["pool_absent", "pool_absent"]
    first, second = world.gke.pools
    world.come(first)
    world.provisioner.end(first, created=True)
    assert queues.state().state == "Pending"
    assert "2 of 2 node pools exist or come" in queues.state().message

    world.come(second)
    work = world.provisioner.end(second, created=True)

    assert queues.state().state == "Ready"
    assert list_reasons(work) == ["pool_created", "check_ready"]
    assert not world.collector.tick().outcomes


@pytest.mark.parametrize(("chips", "owners"), [(16, []), (48, ["train"] * 2)])
def test_under_a_limit_a_gang_gets_all_its_pools_or_none(chips: int, owners: list[str]) -> None:
    world, queues = gang("train", "second", limit_chips=chips)

    world.provisioner.tick()

    assert [pool.owner.name for pool in world.gke.pools.values() if pool.owner] == owners
    assert "limit_reached" in queues.state("second").message


def test_room_is_kept_for_what_a_gang_that_began_still_lacks() -> None:
    """GKE takes one operation at a time; meanwhile no other gang takes the rest of the room."""
    world, _ = gang("train", "second", limit_chips=48)
    world.gke.refusals = [FULL]
    world.provisioner.work()
    world.clock.time += 3
    world.provisioner.work()
    assert len(world.gke.pools) == 1
    (name,) = world.gke.pools
    world.come(name)
    world.clock.time += 3

    assert "pool_absent" not in list_reasons(world.provisioner.work("second"))
    assert "pool_absent" in list_reasons(world.provisioner.end(name, created=True))
    owners = {pool.owner.name for pool in world.gke.pools.values() if pool.owner}
    assert owners == {"train"}


def test_a_part_is_given_back_after_its_time_and_the_pools_go_at_once() -> None:
    world, queues = gang()
    world.provisioner.tick()
    first, second = world.gke.pools
    world.come(first)
    error = "[OUT_OF_CAPACITY]: the zone has no capacity"
    world.change(second, status=PoolStatus.ERROR, error=error)
    world.clock.time += 601
    world.provisioner.tick()
    assert (queues.state().state, queues.pauses[-1]) == ("Retry", 60)
    assert queues.state().message.endswith("; GKE says: [OUT_OF_CAPACITY]: the zone has no capacity")

    world.collector.tick()
    assert first in world.list_deleted()


@pytest.mark.parametrize(
    ("marks", "kept", "state"),
    [
        ({}, 1800, "Retry"),
        ({labels.CAPACITY_CHECK_SECONDS: "60"}, 60, "Retry"),
        *(
            ({labels.CAPACITY_CHECK_SECONDS: text}, 0, "Rejected")
            for text in ("59", "86401", "30m", "", "9" * 5000)
        ),
    ],
)
def test_a_part_is_held_for_as_long_as_the_workload_says(marks: dict[str, str], kept: int, state: str) -> None:
    world, queues = gang()
    world.set_jobset(replicas=2, suspended=True, suspended_since=world.clock.time, marks=marks)
    world.provisioner.tick()
    for name in list(world.gke.pools)[:1]:
        world.come(name)
    world.clock.time += max(0, kept - 1)
    world.provisioner.tick()
    assert (queues.state().state == "Pending") == bool(kept)

    world.clock.time += 1
    world.provisioner.tick()

    assert queues.state().state == state
    assert kept or queues.state().message.endswith("valid: 60 to 86400 seconds")


def test_an_evicted_workload_is_written_nothing_and_keeps_its_pools_for_the_grace() -> None:
    world, queues = gang()
    world.provisioner.tick()
    for name in list(world.gke.pools):
        world.come(name)
    queues.workloads["train"] = structs.replace(queues.workloads["train"], holds_quota=False)
    before = queues.state()

    world.provisioner.tick()
    world.collector.tick()
    assert queues.state() == before
    assert not world.list_deleted()
    world.clock.time += 301
    world.collector.tick()
    assert len(world.list_deleted()) == 2


@pytest.mark.parametrize(
    ("how", "state"), [("never", "Rejected"), ("elsewhere", "Retry"), ("topology", "Retry"), ("kind", "Retry")]
)
def test_what_can_never_be_served_is_rejected_and_what_is_not_ours_given_back(how: str, state: str) -> None:
    world, queues = gang(slices=1)
    key = ("JobSet", "default", "train")
    jobset = world.cluster.workloads[key]
    if how == "never":
        group = structs.replace(jobset.groups[0], template=structs.replace(jobset.groups[0].template, chips=3))
        world.cluster.workloads[key] = structs.replace(jobset, groups=(group,))
    elif how == "elsewhere":
        world.cluster.workloads[key] = structs.replace(jobset, managed_elsewhere=True)
    elif how == "topology":
        queues.flavor_error = Rejected(Reason.DEMAND_LEFT_TO_GKE, "a topology")
    else:
        queues.queue("train", kind="LeaderWorkerSet")

    world.provisioner.tick()

    assert queues.state().state == state
    assert queues.state().message
    assert not world.gke.pools


def test_nothing_is_written_while_a_stop_holds() -> None:
    world, queues = gang()
    world.cluster.labels["default"] = {labels.MODE: "no-create"}

    world.provisioner.tick()

    assert (queues.state(), world.gke.pools) == (CheckState(name="capacity", state="Pending"), {})


def test_a_check_is_marked_active_once() -> None:
    world, queues = gang()
    queues.check = structs.replace(CHECK, active=False)
    world.provisioner.tick()
    queues.check = CHECK
    world.provisioner.tick()

    assert queues.marked == ["capacity"]
