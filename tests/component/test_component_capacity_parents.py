"""A suspended RayJob waits for capacity: its RayCluster waits in its place, the RayJob goes on."""

import dataclasses
from typing import Any

import pytest

from cli.fleet.status import read_status
from shared.core import labels
from shared.core.errors import Denied, StaleView
from shared.core.identity.names import build_pool_name
from shared.core.messages import Event, EventType, ObjectName, Observed
from shared.core.workloads import Parent, WorkloadView
from tests.builders import CLUSTER, a_claim, an_over_event
from tests.component.test_component_capacity_first import run
from tests.component.world import Records, World
from tests.unit.rayclusters import UID, a_raycluster

ASKS = {labels.CAPACITY_FIRST: "true"}
PARENT = Parent(kind="RayJob", namespace="default", name="train", uid="uid-of-train")
RAYJOB = WorkloadView(
    kind="RayJob", namespace="default", name="train", uid=PARENT.uid, marks=ASKS, version="1", suspended=True
)
KINDS = ("RayJob", "RayCluster")
NAMES = [
    build_pool_name(a_claim(kind="RayCluster", name="llm", owner_uid=UID, slice_key=f"default/llm-tpu-{slot}"))
    for slot in range(2)
]


@pytest.fixture
def world(records: Records) -> World:
    """RayJob ``default/train`` is suspended and asks; it has no RayCluster."""
    made = World(records, capacity_first=True)
    made.cluster.empty()
    made.cluster.add(RAYJOB)
    made.cluster.parents[PARENT.uid] = PARENT
    return made


def make_raycluster(world: World) -> None:
    """Copy the RayJob's annotations to the suspended RayCluster, as KubeRay does after a resume."""
    marks = {**ASKS, **rayjob(world).marks}
    world.cluster.add(dataclasses.replace(a_raycluster(suspend=True), parent=PARENT, marks=marks, version="1"))


def hand_over(world: World) -> None:
    """Let the RayJob be resumed, and its RayCluster wait in its place."""
    world.sweep()
    make_raycluster(world)


def rayjob(world: World) -> WorkloadView:
    return world.cluster.workloads["RayJob", "default", "train"]


def raycluster(world: World) -> WorkloadView:
    return world.cluster.workloads["RayCluster", "default", "llm"]


def end(world: World) -> None:
    world.cluster.parents[PARENT.uid] = dataclasses.replace(PARENT, ended="Failed")


def an_event() -> Event:
    subject = ObjectName(kind="RayCluster", namespace="default", name="llm", uid=UID)
    return an_over_event(type=EventType.DEMAND, observed=Observed.CAPACITY_FIRST, subject=subject)


def test_the_rayjob_is_told_what_becomes_of_each_slice(world: World) -> None:
    hand_over(world)
    world.cluster.notices.clear()
    world.sweep()

    told = {kind: {each.message for each in world.cluster.notices if each.kind == kind} for kind in KINDS}
    assert sum("creating" in message for message in told["RayJob"]) >= len(NAMES)
    assert told["RayJob"] == told["RayCluster"]


def test_the_rayjob_is_resumed_once_and_its_raycluster_when_all_pools_run(world: World) -> None:
    world.sweep()
    assert not rayjob(world).suspended
    assert labels.CAPACITY_FIRST_HANDED in rayjob(world).marks
    assert world.notices() == [("RayJob", "WorkloadResumed", False)]
    assert world.pools.names(CLUSTER) == []

    make_raycluster(world)
    world.deliver(an_event())
    assert world.pools.names(CLUSTER) == NAMES
    assert raycluster(world).suspended
    run(world, *NAMES)
    world.sweep()
    assert not raycluster(world).suspended
    assert labels.CAPACITY_FIRST_RESUMED in raycluster(world).marks
    assert ("RayJob", "WorkloadResumed", False) in world.notices()[1:]

    versions = (rayjob(world).version, raycluster(world).version)
    world.sweep()
    world.deliver(an_event())
    assert versions == (rayjob(world).version, raycluster(world).version)
    assert world.pools.count("create") == 2


@pytest.mark.parametrize("resumed_by", ["us", "a person"])
def test_a_rayjob_that_was_resumed_once_and_is_suspended_later_stays_suspended(
    world: World, resumed_by: str
) -> None:
    world.cluster.add(dataclasses.replace(RAYJOB, suspended=resumed_by == "us"))
    world.sweep()
    world.cluster.add(dataclasses.replace(rayjob(world), suspended=True))
    world.sweep()
    assert rayjob(world).suspended


def test_what_is_not_whole_in_time_is_given_back_and_the_rayjob_is_told(world: World) -> None:
    hand_over(world)
    world.sweep()
    world.pools.move(CLUSTER, NAMES[0], "RUNNING")
    world.clock.advance(1800)
    world.sweep()

    assert raycluster(world).suspended
    assert [name for method, name in world.pools.calls if method == "delete"] == [NAMES[0]]
    told = {each.kind for each in world.cluster.notices if "1 of 2 slices got their node pools" in each.message}
    assert told == {"RayCluster", "RayJob"}


@pytest.mark.parametrize("gone", [True, False])
def test_a_raycluster_whose_rayjob_ended_is_not_resumed_and_gives_its_pools_back(world: World, gone: bool) -> None:
    hand_over(world)
    world.sweep()
    run(world, *NAMES)
    world.cluster.parents.clear() if gone else end(world)
    world.clock.advance(400)
    world.deliver(an_event())
    world.sweep()

    assert raycluster(world).suspended
    assert [name for method, name in world.pools.calls if method == "delete"] == NAMES
    assert [row.reason for row in read_status(world.ports).waiting] == ["demand_gone"]


def test_a_rayjob_that_cannot_be_read_stops_everything_about_its_raycluster(world: World) -> None:
    hand_over(world)
    world.cluster.fail_next("get_parent", Denied("get of rayjobs is forbidden"))
    world.deliver(an_event())
    assert world.pools.count("create") == 0
    assert [each.kind for each in world.cluster.notices if "get of rayjobs is forbidden" in each.message]

    world.deliver(an_event())
    run(world, *NAMES)
    world.clock.advance(400)
    world.cluster.fail_next("get_parent", Denied("get of rayjobs is forbidden"))
    world.collect(an_over_event("suspended", subject=an_event().subject))
    assert world.pools.count("delete") == 0


def test_without_the_right_to_change_it_the_rayjob_is_told_and_stays_suspended(world: World) -> None:
    world.cluster.fail_next("change_workload", Denied("patch of rayjobs is forbidden"))
    assert world.sweep()[0] == 500
    assert rayjob(world).suspended
    assert [each.kind for each in world.cluster.notices if "patch of rayjobs" in each.message] == ["RayJob"]
    world.sweep()
    assert not rayjob(world).suspended


def test_without_the_right_to_list_them_all_others_are_answered(world: World) -> None:
    make_raycluster(world)
    world.cluster.fail_next("list_asking_parents", Denied("list of rayjobs is forbidden"))
    assert world.sweep()[1]["errors"] == 0
    assert world.pools.names(CLUSTER) == NAMES
    assert rayjob(world).suspended
    world.records.expect_in_order({"message": "the parents that wait for capacity could not be listed"})


def test_a_change_in_between_is_kept(world: World) -> None:
    def edit() -> None:
        world.cluster.add(dataclasses.replace(RAYJOB, marks={}, version="99"))

    world.cluster.before_next("change_workload", edit)
    world.sweep()
    world.sweep()
    assert (rayjob(world).suspended, rayjob(world).version) == (True, "99")


def test_a_patch_that_lost_its_reply_is_done_once(world: World) -> None:
    world.cluster.fail_next("change_workload", StaleView("changed"), performed=True)
    world.sweep()
    world.sweep()
    assert (rayjob(world).suspended, rayjob(world).version) == (False, "2")


@pytest.mark.parametrize(
    ("label", "settings"),
    [
        ({labels.MODE: "report-only"}, {"capacity_first": True}),
        ({labels.MODE: "nonsense"}, {"capacity_first": True}),
        ({}, {"capacity_first": True, "mode": "report-only"}),
        ({}, {}),
    ],
    ids=["the emergency stop", "an unknown stop", "the mode", "the setting is off"],
)
def test_what_stops_us_leaves_it_suspended(world: World, label: dict[str, str], settings: dict[str, Any]) -> None:
    world.cluster.namespace_labels["tpu-provisioner"] = label
    world.use(**settings)
    world.sweep()
    assert rayjob(world).suspended


def test_what_does_not_fit_is_refused_and_status_shows_it_and_changes_nothing(world: World) -> None:
    world.cluster.add(dataclasses.replace(RAYJOB, unfit=("spec.clusterSelector names another", "no such field")))
    (row,) = read_status(world.ports).waiting
    assert (row.namespace, row.workload, row.decision, row.stuck) == ("default", "train", "refuse", True)
    assert "spec.clusterSelector names another (got 'true'); valid: no such field" in row.message
    world.sweep()
    assert rayjob(world).suspended
    assert world.notices() == [("RayJob", "NodePoolRefused", True)]


def test_status_shows_a_rayjob_that_waits_and_changes_nothing(world: World) -> None:
    (row,) = read_status(world.ports).waiting
    assert (row.workload, row.reason, row.stuck) == ("train", "workload_resumed", False)
    assert rayjob(world).suspended
