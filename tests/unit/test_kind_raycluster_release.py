"""When a slot of a Ray worker group is given back: never for the mere absence of pods."""

from typing import Any

import pytest

from shared.kinds.raycluster import CLUSTER, RAYCLUSTER
from shared.model.workloads import PodView
from tests.unit.rayclusters import EARLIER_UID, a_group, a_raycluster, a_worker, indexed, name_of, webhooked


def pods_in(*slots: int, **overrides: Any) -> list[PodView]:
    return [
        a_worker(name=f"llm-tpu-worker-{slot}{host}", pod_labels=indexed(slot, host), **overrides)
        for slot in slots
        for host in (0, 1)
    ]


@pytest.mark.parametrize(
    ("replicas", "pods", "kept"),
    [
        pytest.param(2, pods_in(0, 1), {0, 1}, id="all there"),
        pytest.param(1, pods_in(0), {0}, id="scaled from two to one"),
        pytest.param(1, pods_in(1), {1}, id="scaled from two to one, and the lower one left"),
        pytest.param(1, [*pods_in(1), *pods_in(0, deleting=True)], {1}, id="the one that left is ending"),
        pytest.param(1, [*pods_in(1), *pods_in(0, phase="Failed")], {1}, id="the one that left has failed"),
        pytest.param(1, pods_in(1)[1:], {1}, id="one host of a slot keeps it"),
        pytest.param(1, [a_worker()], {0, 1, 2}, id="hosts that say nothing of their replica release nothing"),
        pytest.param(1, pods_in(0, 1), {0, 1}, id="the one to leave is not chosen yet"),
        pytest.param(2, pods_in(0), {0, 1, 2}, id="one is being replaced, nobody knows yet under which index"),
        pytest.param(2, [*pods_in(0), *pods_in(1, deleting=True)], {0, 1, 2}, id="one is being recreated"),
        pytest.param(2, [], {0, 1, 2}, id="all are being recreated (upgradeStrategy Recreate)"),
        pytest.param(0, [], set(), id="scaled to nothing"),
        pytest.param(0, pods_in(1), {1}, id="scaled to nothing, pods still there"),
        pytest.param(2, pods_in(0, 1, controller_uid=EARLIER_UID), {0, 1, 2}, id="pods of an earlier cluster"),
    ],
)
def test_a_slot_is_released_when_it_is_empty_and_no_replica_is_to_come(
    replicas: int, pods: list[PodView], kept: set[int]
) -> None:
    workload = a_raycluster(a_group(replicas=replicas))

    assert {slot for slot in range(3) if RAYCLUSTER.has_slice(workload, f"llm-tpu-{slot}", pods)} == kept


def test_pods_of_another_group_keep_no_slot() -> None:
    workload = a_raycluster(a_group(replicas=1), a_group("more"))
    others = [a_worker(group="more", pod_labels=indexed(1))]

    assert not RAYCLUSTER.has_slice(workload, "llm-tpu-1", [*pods_in(0), *others])


@pytest.mark.parametrize("name", ["llm-old-0", "other-tpu-0", "llm-tpu", "llm", "", "llm-tpu-more-0"])
def test_a_name_that_no_group_of_the_spec_makes_is_released(name: str) -> None:
    assert not RAYCLUSTER.has_slice(a_raycluster(), name, pods_in(0))


def test_a_group_whose_name_begins_like_another_s_has_its_own_slots() -> None:
    workload = a_raycluster(a_group(replicas=0), a_group("tpu-big", replicas=1))

    assert RAYCLUSTER.has_slice(workload, "llm-tpu-big-0", [])
    assert not RAYCLUSTER.has_slice(workload, "llm-tpu-0", [])


def test_the_second_set_of_an_upgraded_operator_takes_the_slots_of_the_first() -> None:
    workload = a_raycluster(a_group(replicas=1))
    old = a_worker(name="llm-tpu-worker-old", pod_labels=webhooked(0), affinity=True)
    new = a_worker(name="llm-tpu-worker-new", pod_labels=indexed(0), affinity=True)

    assert name_of(old, workload) == name_of(new, workload) == "llm-tpu-0"


def test_its_pods_are_selected_by_the_server() -> None:
    assert RAYCLUSTER.pods_of is not None
    assert RAYCLUSTER.pods_of(a_raycluster()) == f"{CLUSTER}=llm"
    assert RAYCLUSTER.pod_selector == CLUSTER  # the head too, to be told why it gets nothing
