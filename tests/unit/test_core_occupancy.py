"""Slices of equal shape swap pools: whose pods are on a pool decides, not whose name it bears."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.core.decisions import Reason, Verdict
from shared.core.errors import SliceUnknown
from shared.core.kinds.jobset import JOBSET
from shared.core.kinds.kind import Kind, SliceOfPod
from shared.core.kinds.table import KINDS
from shared.core.occupancy import (
    TAKERS_NAMED_MAX,
    Holder,
    Occupancy,
    decide_taken,
    find_holder,
    find_queued_since,
    find_takers,
    is_surplus,
    measure_occupancy,
)
from shared.core.ports import BoundPod
from shared.core.workloads import PodTemplate, PodView, SliceGroup, WorkloadView
from tests.builders import NOW, a_claim, a_foreign_pool, a_pool

POOL_0, POOL_1 = ["n00", "n01"], ["n10", "n11"]


def find_slice(pod: PodView, workload: WorkloadView) -> SliceOfPod | None:
    slot = pod.template.labels["slot"]
    if slot == "unknown":
        raise SliceUnknown("no slot")
    group = next((each for each in workload.groups if slot.startswith(each.name)), None)
    return SliceOfPod(name=slot, group=group) if group else None


ELASTIC: Kind = replace(
    JOBSET, name="Elastic", find_slice=find_slice, find_owner_uid=lambda pod: pod.controller_uid, pods_of=str
)


def a_workload(replicas: int, more: int = 0) -> WorkloadView:
    groups = (SliceGroup(name="a", replicas=replicas, hosts=2), SliceGroup(name="b", replicas=more, hosts=2))
    return WorkloadView(kind="Elastic", namespace="default", name="w", uid="u1", groups=groups)


def a_pod(slot: str, node: str = "", *, chips: int = 4, **overrides: Any) -> PodView:
    template = PodTemplate(labels={"slot": slot}, container_chips=(chips,))
    name = f"{slot}-{node or 'waiting'}"
    plain = {"namespace": "default", "name": name, "uid": name, "template": template, "controller_uid": "u1"}
    return PodView(**{**plain, "node_name": node, **overrides})


def pods_on(slot: str, nodes: list[str], **overrides: Any) -> list[PodView]:
    return [a_pod(slot, node, **overrides) for node in nodes]


def seen(pods: list[PodView], nodes: list[str], *, replicas: int, more: int = 0) -> Occupancy:
    return measure_occupancy(ELASTIC, a_workload(replicas, more), pods, nodes)


SWAPPED = [*pods_on("a0", POOL_1), *pods_on("a1", POOL_0)]


@pytest.mark.parametrize(
    ("pods", "replicas", "surplus"),
    [
        pytest.param(pods_on("a1", POOL_0), 1, True, id="its slice runs on another pool, nobody else is to come"),
        pytest.param(pods_on("a1", POOL_1), 1, False, id="its slice runs on it"),
        pytest.param(SWAPPED, 2, False, id="another slice runs on it"),
        pytest.param(pods_on("a1", POOL_0), 2, False, id="a replica is still to come"),
        pytest.param([*pods_on("a1", POOL_0), a_pod("a0")], 1, False, id="a pod waits and may land on it"),
        pytest.param([*pods_on("a1", ["n00"]), a_pod("a1")], 1, False, id="a pod of its slice waits"),
        pytest.param(pods_on("a0", POOL_0), 1, False, id="its slice has no pods: has_slice decides"),
        pytest.param([], 1, False, id="no pods at all"),
        pytest.param(
            [*pods_on("a1", POOL_0), *pods_on("unknown", ["n90"])],
            1,
            False,
            id="a pod whose slice nobody can tell",
        ),
        pytest.param(
            [*pods_on("a1", POOL_0), a_pod("a1", "n10", deleting=True)], 1, True, id="a pod that is ending"
        ),
        pytest.param(
            [*pods_on("a1", POOL_0), a_pod("a1", "n10", phase="Failed")], 1, True, id="a pod that is over"
        ),
        pytest.param(
            [*pods_on("a1", POOL_0), a_pod("a0", "n10", controller_uid="u0")], 1, True, id="an earlier one's pod"
        ),
        pytest.param([*pods_on("a1", POOL_0), a_pod("c", chips=0)], 1, True, id="a pod without chips waits"),
    ],
)
def test_a_pool_that_was_made_for_the_second_slice_is_surplus_when(
    pods: list[PodView], replicas: int, surplus: bool
) -> None:
    assert is_surplus(seen(pods, POOL_1, replicas=replicas), "a1") is surplus


def test_a_slice_that_has_only_some_of_its_hosts_elsewhere_may_still_come_to_its_own_pool() -> None:
    found = seen(pods_on("a1", POOL_0[:1]), POOL_1, replicas=1)
    groups = tuple(replace(group, hosts=2) for group in found.workload.groups)

    assert not is_surplus(replace(found, workload=replace(found.workload, groups=groups)), "a1")


def test_slices_of_another_group_do_not_count_for_those_to_come() -> None:
    pods = [*pods_on("a1", POOL_0), *pods_on("b0", ["n20", "n21"])]

    assert not is_surplus(seen(pods, POOL_1, replicas=2, more=1), "a1")


@pytest.mark.parametrize(
    ("on_pool", "holder"),
    [
        pytest.param([], Holder.NOBODY, id="empty"),
        pytest.param(pods_on("a1", POOL_0), Holder.OTHER_SLICE, id="another slice"),
        pytest.param(pods_on("a1", POOL_0[:1]), Holder.OTHER_SLICE, id="one host of another slice"),
        pytest.param(pods_on("a0", POOL_0[:1]), Holder.NOBODY, id="one host of its own"),
        pytest.param(pods_on("a0", POOL_0), Holder.SAME_SLICE, id="all hosts of its own, and yet it waits"),
        pytest.param(pods_on("a0", POOL_0, deleting=True), Holder.NOBODY, id="its own ending pods"),
        pytest.param(pods_on("a1", POOL_0, deleting=True), Holder.NOBODY, id="another slice's ending pods"),
        pytest.param(pods_on("a1", POOL_1), Holder.NOBODY, id="another slice on its own pool"),
        pytest.param(pods_on("unknown", POOL_0), Holder.SAME_SLICE, id="pods that nobody can tell fill it"),
        pytest.param(SWAPPED, Holder.SAME_SLICE, id="another slice, and all hosts of its own run elsewhere"),
        pytest.param(SWAPPED[1:], Holder.OTHER_SLICE, id="another slice, and one host of its own runs elsewhere"),
    ],
)
def test_the_pool_of_a_waiting_first_slice_is_held_by(on_pool: list[PodView], holder: Holder) -> None:
    asking = a_pod("a0")

    assert find_holder(seen([*on_pool, asking], POOL_0, replicas=2), asking, hosts=2) is holder


def test_a_pod_whose_slice_nobody_can_tell_asks_for_no_further_pool() -> None:
    asking = a_pod("unknown")

    assert find_holder(seen(pods_on("a1", POOL_0), POOL_0, replicas=2), asking, hosts=2) is Holder.NOBODY


@pytest.mark.parametrize(
    ("pods", "since"),
    [
        pytest.param([], None, id="no pods at all"),
        pytest.param([a_pod("a0"), a_pod("a0")], None, id="all are free"),
        pytest.param([a_pod("a0", queued_since=5.0), a_pod("a0", queued_since=7.0)], 7.0, id="all are held"),
        pytest.param([a_pod("a0", queued_since=5.0), a_pod("a0")], None, id="one is free"),
        pytest.param([a_pod("a0", queued_since=5.0), a_pod("a0", "n00")], None, id="one runs"),
        pytest.param([a_pod("a0", queued_since=5.0), a_pod("a0", "n00", deleting=True)], 5.0, id="one is ending"),
        pytest.param([a_pod("a0", queued_since=5.0), a_pod("a0", phase="Failed")], 5.0, id="one is over"),
        pytest.param([a_pod("a0", queued_since=5.0), a_pod("a0", chips=0)], 5.0, id="one asks for no chips"),
        pytest.param([a_pod("a0", queued_since=5.0), *pods_on("a1", POOL_1)], 5.0, id="another slice runs"),
        pytest.param([a_pod("a1", queued_since=5.0), *pods_on("a0", POOL_0)], None, id="another slice is held"),
        pytest.param([a_pod("unknown", queued_since=5.0)], None, id="whose slice nobody can tell"),
        pytest.param([a_pod("a0", queued_since=5.0, controller_uid="u0")], None, id="an earlier one's pod"),
    ],
)
def test_a_queue_holds_the_first_slice_since(pods: list[PodView], since: float | None) -> None:
    assert find_queued_since(ELASTIC, a_workload(2), "a0", pods) == since


def test_a_swap_then_a_scale_down_then_a_scale_up_strands_no_pool_and_no_slice() -> None:
    left = pods_on("a1", POOL_0)
    assert is_surplus(seen(left, POOL_1, replicas=1), "a1")  # pool 1 goes; pool 0 is in use and stays

    back = a_pod("a0")
    assert find_holder(seen([*left, back], POOL_0, replicas=2), back, hosts=2) is Holder.OTHER_SLICE


def a_bound(workload: str, kind: str = "Deployment", **overrides: Any) -> BoundPod:
    plain = {"namespace": "default", "name": f"{workload}-x", "kind": kind, "workload": workload, "chips": 4}
    return BoundPod(**{**plain, "deleting_since": None, **overrides})


@pytest.mark.parametrize(
    ("pod", "taker"),
    [
        pytest.param(a_bound("serving"), ("Deployment", "default", "serving"), id="another workload"),
        pytest.param(a_bound("train"), ("Deployment", "default", "train"), id="its name, another kind"),
        pytest.param(
            a_bound("train", "JobSet", namespace="b"), ("JobSet", "b", "train"), id="its name, elsewhere"
        ),
        pytest.param(a_bound("", "", name="lab"), ("Pod", "default", "lab"), id="of no kind"),
        pytest.param(a_bound("train", "JobSet"), None, id="its own"),
        pytest.param(a_bound("monitor", chips=0), None, id="without chips"),
        pytest.param(a_bound("serving", deleting_since=NOW - 30), None, id="ending"),
        pytest.param(
            a_bound("serving", deleting_since=NOW - 61), ("Deployment", "default", "serving"), id="not ending"
        ),
    ],
)
def test_a_pool_is_taken_by_accelerator_pods_of_others_that_stay(
    pod: BoundPod, taker: tuple[str, str, str] | None
) -> None:
    found = find_takers(a_pool(), [pod, pod], now=NOW, drain_seconds_max=60)

    assert found == ([taker] if taker else [])


def test_nothing_is_told_without_takers_and_none_is_waited_for_that_has_its_pool() -> None:
    takers = [("JobSet", "default", "other")]
    theirs = a_claim(name="other", slice_key="default/other-workers-0")

    assert decide_taken(a_pool(), [], pools=[]) is None
    for status in ("PROVISIONING", "RECONCILING"):
        assert decide_taken(a_pool(), takers, pools=[a_pool(status, claim=theirs), a_foreign_pool()]) is None
    for status in ("RUNNING", "ERROR", "STOPPING"):
        found = decide_taken(a_pool(), takers, pools=[a_pool(status, claim=theirs), a_foreign_pool()])
        assert found is not None
        assert (found.verdict, found.reason) == (Verdict.REFUSE, Reason.POOL_TAKEN)


def test_a_few_takers_are_named_and_the_rest_counted() -> None:
    takers = [("Pod", "default", f"lab-{at}") for at in range(TAKERS_NAMED_MAX + 2)]
    found, one = decide_taken(a_pool(), takers, pools=[]), decide_taken(a_pool(), takers[:1], pools=[])

    assert found is not None
    assert "(Pod default/lab-0, Pod default/lab-1, Pod default/lab-2 and 2 more)" in found.message
    assert one is not None
    assert "(Pod default/lab-0)" in one.message


def test_what_would_pin_its_slices_is_said_where_the_kind_has_something() -> None:
    for kind in KINDS:
        pool = a_pool(claim=a_claim(kind=kind.name))
        found = decide_taken(pool, [("Pod", "default", "lab")], pools=[])
        assert found is not None
        assert (f"on this {kind.name}, " in found.message) == bool(kind.pin_taint)
