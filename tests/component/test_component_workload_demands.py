"""One demand of a workload is answered for all of its slices, from one list of pools."""

from collections.abc import Mapping
from typing import Any

import pytest

from shared.core import labels
from shared.core.errors import Denied, Throttled, Unavailable
from tests.builders import CLUSTER, JOBSET_UID, a_pod, a_workload_demand
from tests.component.world import World

SLICES = 20


@pytest.fixture
def crowd(world: World) -> World:
    """JobSet ``default/train`` waits for 20 slices."""
    world.add_slices(SLICES)
    return world


@pytest.mark.parametrize("uid", ["", JOBSET_UID], ids=["a message need not know the UID", "it knows the UID"])
def test_each_slice_and_no_pod_that_leads_none_gets_its_pool_from_one_list(crowd: World, uid: str) -> None:
    follower = a_pod(name="host-1", uid="follower", pod_labels={labels.COMPLETION_INDEX: "1"})
    crowd.cluster.add(follower, a_pod(jobset="other", uid="of-other"))
    assert crowd.deliver(a_workload_demand(uid=uid)).status == 200

    assert len(crowd.pools.bodies) == SLICES
    assert crowd.pools.count("list") == 1
    assert len(crowd.pools.calls) == SLICES + 1
    assert [each["decision"] for each in crowd.records.found] == ["create"] * SLICES
    assert {each["claim"]["name"] for each in crowd.records.found} == {"train"}


@pytest.mark.parametrize(
    ("asked", "waits"),
    [({"uid": "earlier"}, True), ({}, False), ({"name": "gone"}, True)],
    ids=["an earlier workload of the name", "without waiting leaders", "gone"],
)
def test_a_message_about_what_does_not_wait_does_nothing(
    crowd: World, asked: dict[str, str], *, waits: bool
) -> None:
    if not waits:
        crowd.cluster.pods.clear()

    assert crowd.deliver(a_workload_demand(**asked)).status == 200
    assert crowd.says() == ("nothing", "demand_gone")
    assert crowd.pools.calls == []


@pytest.mark.parametrize("error", [Unavailable("away"), Denied("no container.clusters.update"), ValueError("bug")])
def test_an_error_of_one_slice_stops_no_other_and_brings_the_message_back(crowd: World, error: Exception) -> None:
    crowd.pools.fail_next("create", error)

    assert crowd.deliver(a_workload_demand()).status == (503 if isinstance(error, Unavailable) else 500)
    assert len(crowd.pools.bodies) == SLICES - 1
    assert sorted(each["decision"] for each in crowd.records.found) == ["create"] * (SLICES - 1) + ["none"]
    failed = next(each for each in crowd.records.found if each["decision"] == "none")
    assert failed["claim"]["slice"] == "train-workers-0"

    assert crowd.deliver(a_workload_demand()).status == 200
    assert len(crowd.pools.names(CLUSTER)) == SLICES


@pytest.mark.parametrize("pauses", [(30, 5), (5, 30)], ids=["the longer one first", "the shorter one first"])
def test_429s_of_gke_bring_the_message_back_after_the_longest_pause(crowd: World, pauses: tuple[int, int]) -> None:
    create, left = crowd.pools.create, list(pauses)

    def refuse_some(cluster: str, node_pool: Mapping[str, Any]) -> None:
        if left:
            raise Throttled("too many operations", retry_after_seconds=left.pop(0))
        create(cluster, node_pool)

    crowd.pools.create = refuse_some  # type: ignore[method-assign]

    answer = crowd.deliver(a_workload_demand())
    assert (answer.status, answer.retry_after_seconds, left) == (503, 30, [])
