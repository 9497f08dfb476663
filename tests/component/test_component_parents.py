"""A parent keeps a workload after its own end: both and `status` show it, and nothing is done."""

import dataclasses

import pytest

from cli.fleet.status import read_status
from shared.core.errors import Denied
from shared.core.identity.names import SliceClaim, build_pool_name
from shared.core.messages import Event, EventType, ObjectName, Observed
from shared.core.workloads import Parent
from tests.builders import CLUSTER, a_claim, a_pool
from tests.component.world import Records, World
from tests.unit.rayclusters import UID, a_raycluster

PARENT = Parent(kind="RayJob", namespace="default", name="train", uid="uid-of-train")
KEEPS = "RayJob default/train is Complete and keeps its RayCluster"


def claim_of(slot: int) -> SliceClaim:
    return a_claim(kind="RayCluster", name="llm", owner_uid=UID, slice_key=f"default/llm-tpu-{slot}")


@pytest.fixture
def world(records: Records) -> World:
    """RayCluster ``default/llm`` of a RayJob, with two pools."""
    made = World(records)
    made.cluster.empty()
    made.cluster.add(dataclasses.replace(a_raycluster(), parent=PARENT))
    made.pools.add(CLUSTER, a_pool(claim=claim_of(0)), a_pool(claim=claim_of(1)))
    return made


def end_parent(world: World) -> None:
    world.cluster.parents[PARENT.uid] = dataclasses.replace(PARENT, keeps=KEEPS)


def test_a_sweep_says_it_once_on_the_workload_and_on_its_parent(world: World) -> None:
    end_parent(world)

    world.sweep()

    assert world.notices() == [("RayCluster", "NodePoolKept", False), ("RayJob", "NodePoolKept", False)]
    assert {each.message for each in world.cluster.notices} == {f"{KEEPS} [parent_over]"}
    assert set(world.cluster.notices.values()) == {1}
    assert world.pools.calls == [("list", "")]


def test_a_message_about_the_workload_says_it_too(world: World) -> None:
    end_parent(world)
    subject = ObjectName(kind="RayCluster", namespace="default", name="llm", uid=UID)

    world.collect(Event(type=EventType.WORKLOAD_OVER, cluster=CLUSTER, subject=subject, observed=Observed.SCALED))

    assert world.says() == ("keep", "parent_over")
    assert ("RayJob", "NodePoolKept", False) in world.notices()


def test_status_shows_it_as_something_for_a_person(world: World) -> None:
    end_parent(world)

    status = read_status(world.ports)

    assert [str(each) for each in status.troubles] == [f"default/llm: {KEEPS} [parent_over]"] * 2
    assert world.notices() == []


@pytest.mark.parametrize("gone", [True, False])
def test_a_parent_that_goes_on_or_is_gone_is_not_spoken_of(world: World, gone: bool) -> None:
    if not gone:
        world.cluster.parents[PARENT.uid] = PARENT

    world.sweep()

    assert world.notices() == []
    assert {row.reason for row in read_status(world.ports).pools} == {"owner_live"}


def test_a_parent_that_may_not_be_read_stops_nothing(world: World) -> None:
    world.pools.add(CLUSTER, a_pool("ERROR", claim=claim_of(2)))
    world.cluster.fail_next("get_parent", Denied("rayjobs is forbidden"))

    assert world.sweep()[1]["errors"] == 0
    assert ("get", build_pool_name(claim_of(2))) in world.pools.calls
    world.records.expect_in_order({"message": "the parent of a workload could not be read"})


def test_the_parent_of_a_workload_is_read_once_per_sweep(world: World) -> None:
    end_parent(world)
    world.cluster.before_next("get_parent", world.cluster.parents.clear, skip=1)

    world.sweep()

    assert {each.message for each in world.cluster.notices} == {f"{KEEPS} [parent_over]"}
    assert world.cluster.parents, "it was read a second time"
