"""Slices of equal shape swap pools: whose pods are on a pool decides, not whose name it bears."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared.core.decide.needed_pools import PoolPlan, plan_pools
from shared.core.decide.pool_facts import Occupancy, find_queued_since, measure_occupancy
from shared.core.decide.pool_use import TAKERS_NAMED_MAX, decide_holder, decide_taken, find_takers

from shared.kinds.jobset import JOBSET
from shared.kinds.kind import Kind, SliceOfPod
from shared.kinds.table import KINDS
from shared.model import labels
from shared.model.decisions import Reason, Verdict
from shared.model.errors import SliceUnknown
from shared.model.names import build_pool_name
from shared.model.pools import PoolSnapshot
from shared.model.readings import BoundPod
from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView
from tests.builders import CLUSTER, NOW, a_claim, a_demand, a_foreign_pool, a_pool, expect_decision, settings

POOL_0, POOL_1, POOL_2 = ["n00", "n01"], ["n10", "n11"], ["n20", "n21"]
HOMES = {"a0": POOL_0, "a1": POOL_1, "a2": POOL_2}
"""The nodes of the pool of each slice."""


def find_slice(pod: PodView, workload: WorkloadView) -> SliceOfPod | None:
    slot = pod.template.labels["slot"]
    if slot == "unknown":
        raise SliceUnknown("no slot")
    group = next((each for each in workload.groups if slot.startswith(each.name)), None)
    return SliceOfPod(name=slot, group=group) if group else None


def has_slice(workload: WorkloadView, name: str, _pods: Sequence[PodView] | None) -> bool:
    return any(name.startswith(each.name) and int(name[1:]) < each.replicas for each in workload.groups)


ELASTIC: Kind = replace(
    JOBSET,
    find_slice=find_slice,
    has_slice=has_slice,
    is_leader=lambda _pod: True,
    find_owner_uid=lambda pod: pod.controller_uid,
)


def a_workload(replicas: int, more: int = 0) -> WorkloadView:
    groups = (SliceGroup(name="a", replicas=replicas, hosts=2), SliceGroup(name="b", replicas=more, hosts=2))
    return WorkloadView(kind="JobSet", namespace="default", name="w", uid="u1", groups=groups)


def a_pod(slot: str, node: str = "", *, chips: int = 4, **overrides: Any) -> PodView:
    template = PodTemplate(labels={"slot": slot}, container_chips=(chips,))
    name = f"{slot}-{node or 'waiting'}"
    plain = {"namespace": "default", "name": name, "uid": name, "template": template, "controller_uid": "u1"}
    return PodView(**{**plain, "node_name": node, **overrides})


def pods_on(slot: str, nodes: list[str], **overrides: Any) -> list[PodView]:
    return [a_pod(slot, node, **overrides) for node in nodes]


def pool_of(slot: str, attempt: int = 0, status: str = "RUNNING", **overrides: Any) -> PoolSnapshot:
    claim = a_claim(name="w", owner_uid="u1", slice_key=f"default/{slot}")
    pool_labels = {labels.ATTEMPT: str(attempt)}
    name = build_pool_name(claim, attempt)
    return a_pool(status, claim=claim, name=name, extra_labels=dict(pool_labels), fingerprint="1-x", **overrides)


def seen(pods: list[PodView], pools: Sequence[PoolSnapshot], *, replicas: int, more: int = 0) -> Occupancy:
    homes = {
        node: pool.name
        for pool in pools
        if pool.owner and not pool.owner.attempt
        for node in HOMES.get(pool.owner.slice_name, ())
    }
    return measure_occupancy(ELASTIC, a_workload(replicas, more), pods, homes)


def plan(
    pods: list[PodView], *pools: PoolSnapshot, replicas: int, taken: Sequence[str] = (), more: int = 0
) -> PoolPlan:
    found = seen(pods, pools, replicas=replicas, more=more)
    return plan_pools(CLUSTER, found, pools, settings(), taken=taken)


SWAPPED = [*pods_on("a0", POOL_1), *pods_on("a1", POOL_0)]
OWN = pool_of("a1").name


# --- one pool too many ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "replicas", "surplus"),
    [
        pytest.param(pods_on("a1", POOL_0), 1, True, id="its slice runs on another pool, nobody else is to come"),
        pytest.param(pods_on("a1", ["x0", "x1"]), 1, True, id="its slice runs on nodes of another workload"),
        pytest.param(pods_on("a1", POOL_1), 1, False, id="its slice runs on it"),
        pytest.param(SWAPPED, 2, False, id="another slice runs on it"),
        pytest.param(pods_on("a1", POOL_0), 3, False, id="a replica is still to come"),
        pytest.param([*pods_on("a1", POOL_0), a_pod("a0")], 1, False, id="a pod waits and may land on it"),
        pytest.param([*pods_on("a1", ["n00"]), a_pod("a1")], 1, False, id="a pod of its slice waits"),
        pytest.param(pods_on("a1", POOL_0[:1]), 1, False, id="a part of its slice runs elsewhere"),
        pytest.param([], 2, False, id="no pods at all"),
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
    pods: list[PodView], replicas: int, surplus: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = replace(ELASTIC, has_slice=lambda *_: True)
    monkeypatch.setattr(f"{__name__}.ELASTIC", named)

    assert (OWN in plan(pods, pool_of("a0"), pool_of("a1"), replicas=replicas).surplus) is surplus


def test_slices_of_another_group_do_not_count_for_those_to_come() -> None:
    pods = [*pods_on("a1", POOL_0), *pods_on("b0", ["n30", "n31"])]

    assert plan(pods, pool_of("a0"), pool_of("a1"), replicas=2, more=1).surplus == set()


def test_of_two_pools_of_one_slice_the_empty_one_is_surplus_and_a_lost_one_is_not_judged() -> None:
    pools = [pool_of("a0"), pool_of("a0", 1), pool_of("a0", 2, "STOPPING")]

    assert plan(pods_on("a0", POOL_0), *pools, replicas=1).surplus == {pools[1].name}


def test_while_pods_run_on_a_pool_that_is_ending_none_is_surplus() -> None:
    pools = [pool_of("a0", status="STOPPING"), pool_of("a0", 1)]

    assert plan(pods_on("a0", POOL_0), *pools, replicas=1).surplus == set()


# --- which pool serves which slice ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("on_pool", "reason"),
    [
        pytest.param([], None, id="empty"),
        pytest.param(pods_on("a1", POOL_0), Reason.POOL_IN_USE, id="another slice, whose own is free"),
        pytest.param(pods_on("a1", POOL_0[:1]), Reason.POOL_IN_USE, id="one host of another slice"),
        pytest.param(pods_on("a0", POOL_0[:1]), None, id="one host of its own"),
        pytest.param(pods_on("a0", POOL_0), Reason.SLICE_DOUBLED, id="all hosts of its own, and yet it waits"),
        pytest.param(pods_on("a0", POOL_0, deleting=True), None, id="its own ending pods"),
        pytest.param(pods_on("a1", POOL_0, deleting=True), None, id="another slice's ending pods"),
        pytest.param(pods_on("a1", POOL_1), None, id="another slice on its own pool"),
        pytest.param(pods_on("unknown", POOL_0), Reason.SLICE_DOUBLED, id="pods that nobody can tell fill it"),
        pytest.param(SWAPPED, Reason.SLICE_DOUBLED, id="another slice, and all hosts of its own run elsewhere"),
        pytest.param(SWAPPED[1:], Reason.POOL_IN_USE, id="another slice, and one host of its own runs elsewhere"),
        pytest.param([*pods_on("a1", POOL_0), *pods_on("a2", POOL_1)], Reason.POOL_ABSENT, id="both are in use"),
    ],
)
def test_the_first_slice_waits_although_its_pool_runs_and_holds(
    on_pool: list[PodView], reason: Reason | None
) -> None:
    asking, pools = a_pod("a0"), [pool_of("a0"), pool_of("a1")]
    found = seen([*on_pool, asking], pools, replicas=3)
    demand = a_demand()
    two_hosts = replace(demand, shape=replace(demand.shape, node_count=2))
    planned = plan([*on_pool, asking], *pools, replicas=3)

    decision = decide_holder(two_hosts, asking, found, planned, pool_name=pools[0].name)

    assert (decision.reason if decision else None) == reason
    assert (decision is not None and decision.verdict == Verdict.CREATE) == (planned.missing == {"a0": 1})


def test_a_pod_whose_slice_nobody_can_tell_asks_for_no_further_pool() -> None:
    asking, pools = a_pod("unknown"), [pool_of("a0")]
    found, planned = seen([*pods_on("a1", POOL_0), asking], pools, replicas=2), plan([asking], *pools, replicas=2)

    assert decide_holder(a_demand(), asking, found, planned, pool_name=pools[0].name) is None


@pytest.mark.parametrize(
    ("pods", "pools", "missing"),
    [
        pytest.param(
            [*pods_on("a0", POOL_1), a_pod("a1")], [pool_of("a1")], {"a1": 1}, id="the other one's pool has gone"
        ),
        pytest.param(
            [*pods_on("a0", POOL_1), a_pod("a1")],
            [pool_of("a0", status="ERROR"), pool_of("a1")],
            {"a1": 1},
            id="the other one's pool has failed",
        ),
        pytest.param(
            [*pods_on("a0", POOL_1), a_pod("a1")],
            [pool_of("a0", status="PROVISIONING"), pool_of("a1")],
            {},
            id="the other one's pool comes",
        ),
        pytest.param(
            [*pods_on("a0", POOL_1), a_pod("a1")],
            [pool_of("a1"), pool_of("a1", 1, "PROVISIONING")],
            {},
            id="its second pool comes",
        ),
        pytest.param(
            [*pods_on("a0", POOL_1), a_pod("a1")],
            [pool_of("a1"), pool_of("a1", 1, "ERROR")],
            {"a1": 1},
            id="its second pool has failed, and is made again",
        ),
        pytest.param(
            [*pods_on("a0", POOL_1), a_pod("a1", gates=("example.com/hold",))],
            [pool_of("a1")],
            {},
            id="a queue holds it",
        ),
        pytest.param([a_pod("a0"), a_pod("a1")], [pool_of("a1")], {}, id="its pool is free"),
        pytest.param(
            [*pods_on("a2", POOL_0), a_pod("a0"), a_pod("a1")],
            [pool_of("a0"), pool_of("a1")],
            {"a0": 1},
            id="the other one waits for its own pool",
        ),
        pytest.param(
            [a_pod("a0", "n10"), a_pod("a0"), a_pod("a1", "n11"), a_pod("a1", uid="w1")],
            [pool_of("a1")],
            {"a1": 1},
            id="two slices mix on one pool: one more for both",
        ),
    ],
)
def test_a_waiting_slice_misses_a_pool_when(
    pods: list[PodView], pools: list[PoolSnapshot], missing: dict[str, int]
) -> None:
    assert plan(pods, *pools, replicas=3).missing == missing


def test_where_another_slice_holds_the_pool_the_same_candidate_is_tried_again() -> None:
    mark = {labels.CANDIDATE: "1-of-3-abcdefgh"}
    held = replace(pool_of("a1"), labels=pool_of("a1").labels | mark)
    pods = [*pods_on("a0", POOL_1), a_pod("a1")]

    assert plan(pods, held, replicas=2).missing == {"a1": 3}


def test_a_free_pool_that_others_took_serves_no_slice() -> None:
    pods, pools = [*pods_on("a0", POOL_1), a_pod("a1")], [pool_of("a0"), pool_of("a1")]

    assert plan(pods, *pools, replicas=2).serving == {"a0": pools[1].name, "a1": pools[0].name}
    assert plan(pods, *pools, replicas=2, taken=[pools[0].name]).missing == {"a1": 1}


def test_a_free_pool_of_another_shape_serves_no_slice() -> None:
    pods = [*pods_on("a0", POOL_1), a_pod("a1")]
    other = replace(pool_of("a0"), labels=pool_of("a0").labels | {labels.FINGERPRINT: "1-y"})

    assert plan(pods, other, pool_of("a1"), replicas=2).missing == {"a1": 1}


@given(
    places=st.lists(st.sampled_from(["", *POOL_0, *POOL_1, *POOL_2, "x0"]), min_size=6, max_size=6),
    statuses=st.lists(
        st.sampled_from(["gone", "RUNNING", "PROVISIONING", "ERROR", "STOPPING"]), min_size=6, max_size=6
    ),
)
def test_in_every_situation(places: list[str], statuses: list[str]) -> None:
    """A pool serves one slice; none that serves or has pods is surplus.

    No more is missing than waits.
    """
    pods = [a_pod(f"a{at // 2}", node, uid=f"p{at}") for at, node in enumerate(places)]
    pools = [pool_of(f"a{at // 2}", at % 2, each) for at, each in enumerate(statuses) if each != "gone"]
    found = plan(pods, *pools, replicas=3)
    staying = {pool.name for pool in pools if pool.status != "STOPPING"}
    alive = {pool.name for pool in pools if pool.status not in ("ERROR", "STOPPING")}
    occupied = seen(pods, pools, replicas=3)

    assert len(set(found.serving.values())) == len(found.serving)
    assert set(found.serving.values()) <= alive
    assert found.surplus <= staying
    assert not any(occupied.list_on(name) for name in found.surplus)
    assert not found.surplus & set(found.serving.values())
    assert found.missing.keys() <= {f"a{at // 2}" for at, node in enumerate(places) if not node}
    assert len(found.missing.keys() | found.serving.keys()) <= 3


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


def test_a_swap_then_a_scale_down_then_a_scale_up_strands_no_pool_and_no_slice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{__name__}.ELASTIC", replace(ELASTIC, has_slice=lambda *_: True))
    left, pools = pods_on("a1", POOL_0), [pool_of("a0"), pool_of("a1")]
    assert plan(left, *pools, replicas=1).surplus == {pools[1].name}  # pool 0 is in use and stays

    back = a_pod("a0")
    assert plan([*left, back], pools[0], replicas=2).missing == {"a0": 1}


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
    found, one = (expect_decision(decide_taken(a_pool(), each, pools=[])) for each in (takers, takers[:1]))

    assert "(Pod default/lab-0, Pod default/lab-1, Pod default/lab-2 and 2 more)" in found.message
    assert "(Pod default/lab-0)" in one.message


def test_what_would_pin_its_slices_is_said_where_the_kind_has_something() -> None:
    for kind in KINDS:
        pool = a_pool(claim=a_claim(kind=kind.name))
        found = expect_decision(decide_taken(pool, [("Pod", "default", "lab")], pools=[]))
        assert (f"set on the {kind.name} " in found.message) == bool(kind.pin_taint)
