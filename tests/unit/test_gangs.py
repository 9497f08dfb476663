"""A workload's slices at once: all demands or one refusal, the sum of the limits, and the time."""

import dataclasses
from typing import Any

import pytest
from shared.core.decide.attempts import AttemptDecision
from shared.core.decide.cluster_stops import Mode, Stop
from shared.core.decide.gangs import (
    Gang,
    Holding,
    decide_purchase,
    decide_round,
    judge_gang,
    measure_gang,
    plan_gang,
)
from shared.core.decide.limits import Usage, decide_limit

from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.workloads import SliceGroup
from shared.needs.capacity_texts import read_policies
from shared.needs.demand import Demand
from shared.needs.demands import decide_demand
from tests.builders import CLUSTER, NOW, a_claim, a_jobset, a_pod, a_pool, a_template, expect_decision, settings

SUSPENDED = a_jobset(replicas=3, suspended=True)


def plan(**overrides: Any) -> Gang:
    found = plan_gang(CLUSTER, SUSPENDED, settings(**overrides))
    assert not isinstance(found, Decision), found
    return found


def claim_of(index: int) -> Any:
    return a_claim(slice_key=f"default/train-workers-{index}")


def failed_pool(index: int, error: str) -> Any:
    return dataclasses.replace(pool_of(index, "ERROR"), error=error)


def pool_of(index: int, status: str = "RUNNING", *, age_seconds: float | None = 60.0) -> Any:
    return a_pool(status, claim=claim_of(index), age_seconds=age_seconds)


def test_the_demands_of_the_spec_are_those_of_the_pods_that_come_later() -> None:
    awake = dataclasses.replace(SUSPENDED, suspended=False)
    later = [decide_demand(CLUSTER, a_pod(index=index), awake, settings()) for index in range(3)]

    found = plan()

    assert [each.claim for each in found] == [each.claim for each in later if isinstance(each, Demand)]
    assert [each.fingerprint for each in found] == [each.fingerprint for each in later if isinstance(each, Demand)]
    assert len(found) == 3


def test_a_group_without_accelerators_is_left_out() -> None:
    head = SliceGroup(name="head", template=a_template(accelerator=None, topology=None, chips=0))
    workload = dataclasses.replace(SUSPENDED, groups=(*SUSPENDED.groups, head))

    found = plan_gang(CLUSTER, workload, settings())

    assert not isinstance(found, Decision)
    assert [each.claim.slice_name for each in found] == [f"train-workers-{index}" for index in range(3)]


FLEX = {labels.FLEX_START: "true"}
FLEX_LIST = read_policies("- priorities:\n  - {}\n  - flexStart: {enabled: true}\n")


@pytest.mark.parametrize(
    ("template", "overrides", "reason", "words"),
    [
        (a_template(topology="3x3"), {}, Reason.SHAPE_UNSUPPORTED, "3x3"),
        (a_template(selectors=FLEX), {}, Reason.CAPACITY_CONFLICT, "slice train-workers-0 may get flex-start"),
        (
            a_template(),
            {"capacity_policies": FLEX_LIST},
            Reason.CAPACITY_CONFLICT,
            "leave flex-start off its list",
        ),
        (
            a_template(accelerator=None, topology=None, chips=0),
            {},
            Reason.NOT_AN_ACCELERATOR_DEMAND,
            "no slice of",
        ),
        (
            a_template(annotations={labels.DISABLE_AUTOPROVISIONING: "true"}),
            {},
            Reason.DEMAND_OPTED_OUT,
            "slice train-workers-0: the pod's label or annotation",
        ),
        (a_template(selectors={labels.NODE_POOL: "mine"}), {}, Reason.DEMAND_BOUND_ELSEWHERE, "by its name"),
        (a_template(), {"kinds": ("Job",)}, Reason.KIND_NOT_SERVED, "JobSet"),
        (a_template(), {"allowed_namespaces": ("team-*",)}, Reason.REQUEST_NOT_ALLOWED, "team-*"),
    ],
)
def test_one_slice_that_is_not_served_refuses_all(
    template: Any, overrides: dict[str, Any], reason: Reason, words: str
) -> None:
    workload = a_jobset(replicas=3, suspended=True, template=template)

    found = expect_decision(plan_gang(CLUSTER, workload, settings(**overrides)))

    assert (found.verdict, found.reason) == (Verdict.REFUSE, reason)
    assert words in found.message


def test_a_spec_with_too_many_slices_is_refused() -> None:
    found = expect_decision(plan_gang(CLUSTER, a_jobset(replicas=10_001, suspended=True), settings()))

    assert "10000" in found.message


def test_what_has_no_pool_that_lives_is_missing() -> None:
    gang = plan()
    pools = [pool_of(0, "PROVISIONING"), pool_of(1, "ERROR")]

    assert measure_gang(gang, pools).missing == (gang[1], gang[2])
    assert measure_gang(gang, [*pools, pool_of(1), pool_of(2, "STOPPING")]).missing == (gang[2],)


@pytest.mark.parametrize(
    ("overrides", "usage", "reason"),
    [
        ({}, None, None),
        ({"limit_chips": 48}, Usage(), None),
        ({"limit_chips": 47}, Usage(), Reason.LIMIT_REACHED),
        ({"limit_chips": 63}, Usage(chips=16), Reason.LIMIT_REACHED),
        ({"limit_chips_per_namespace": 47}, Usage(), Reason.LIMIT_REACHED),
        ({"limit_slices": 3}, Usage(), None),
        ({"limit_slices": 3}, Usage(slices=1), Reason.LIMIT_REACHED),
    ],
)
def test_all_are_bought_or_none(overrides: dict[str, Any], usage: Usage | None, reason: Reason | None) -> None:
    use, (first, *others) = settings(**overrides), plan()
    found = decide_purchase(plan(), {}, now=NOW, settings=use)
    found = found or decide_limit(dataclasses.replace(first, fellows=tuple(others)), use, usage)

    assert (found and (found.verdict, found.reason)) == (reason and (Verdict.REFUSE, reason))


def test_a_namespace_that_opts_out_and_labels_beyond_the_budget_refuse_all() -> None:
    pod_labels = {labels.DISABLE_AUTOPROVISIONING: "true"}
    opted_out = expect_decision(decide_purchase(plan(), pod_labels, now=NOW, settings=settings()))
    long = [dataclasses.replace(each, node_labels={f"key-{n}": "x" * 60 for n in range(30)}) for each in plan()]
    too_long = expect_decision(decide_purchase(long, {}, now=NOW, settings=settings()))

    assert opted_out.reason == Reason.DEMAND_OPTED_OUT
    assert too_long.reason == Reason.LABELS_OVER_BUDGET


SERVES = Decision(Verdict.KEEP, Reason.POOL_SERVES, "node pool a is running")
WAITS = Decision(Verdict.WAIT, Reason.POOL_IN_PROGRESS, "node pool b is PROVISIONING")
CREATES = Decision(Verdict.CREATE, Reason.POOL_ABSENT, "creating b")
PAUSES = Decision(Verdict.WAIT, Reason.STOCKOUT, "attempt 0 failed")
REFUSED = Decision(Verdict.REFUSE, Reason.REQUEST_INVALID, "GKE does not accept it")
REPLACES = Decision(Verdict.DELETE, Reason.POOL_DIFFERS, "node pool c has another shape")
LIMITED = Decision(Verdict.REFUSE, Reason.LIMIT_REACHED, "there would be 48 chips")
IN_REPORT = Decision(Verdict.KEEP, Reason.MODE_REPORT_ONLY, "would delete")


@pytest.mark.parametrize(
    ("decisions", "ready", "held", "slowest"),
    [
        ([SERVES, SERVES], True, True, SERVES),
        ([SERVES, WAITS, SERVES], False, True, WAITS),
        ([CREATES, WAITS], False, True, CREATES),
        ([CREATES, PAUSES, WAITS], False, True, PAUSES),
        ([PAUSES, REFUSED, SERVES], False, True, REFUSED),
        ([IN_REPORT, SERVES], False, True, IN_REPORT),
        ([LIMITED, SERVES], False, True, LIMITED),
        ([LIMITED, LIMITED], False, False, LIMITED),
        ([REPLACES, SERVES], False, True, REPLACES),
    ],
)
def test_a_gang_is_as_far_as_its_slowest_slice(
    decisions: list[Decision], ready: bool, held: bool, slowest: Decision
) -> None:
    slices = [
        (demand, AttemptDecision(attempt=0, decision=each))
        for demand, each in zip(plan(), decisions, strict=False)
    ]

    found = judge_gang(slices)

    assert (found.ready, found.held, found.ended) == (ready, held, False)
    assert (found.decision.verdict, found.decision.reason) == (slowest.verdict, slowest.reason)
    counted = f"{decisions.count(SERVES)} of {len(decisions)} slices"
    assert (counted in found.decision.message) == (not ready)


def hold(pools: list[Any], *, since: float = 0.0, **seen: Any) -> Holding:
    return dataclasses.replace(measure_gang(plan(), pools, since=since), **seen)


def has_held_for(holding: Holding, seconds: float) -> bool:
    """Return whether a part is held for so many seconds, and no more."""
    return holding.is_late(seconds, NOW) and not holding.is_late(seconds + 1, NOW)


def test_a_gang_is_held_since_its_oldest_pool_that_lives() -> None:
    pools = [pool_of(0, age_seconds=500), pool_of(1, "PROVISIONING", age_seconds=700), pool_of(2, "ERROR")]

    assert has_held_for(hold(pools), 700)
    assert has_held_for(hold(pools, lent=frozenset({pools[1].name})), 500)
    assert not hold([pool_of(0, "ERROR"), pool_of(1, "STOPPING")]).is_late(1, NOW)


@pytest.mark.parametrize(
    ("age_seconds", "since", "came", "held_seconds"),
    [
        (500, NOW - 500, {}, 500),
        (500, NOW - 400, {}, 0),
        (2100, NOW - 400, {}, 0),
        (2300, NOW - 400, {}, 200),
        (9000, NOW - 400, {}, 400),
        (500, NOW - 400, {0: NOW - 450}, 400),
        (500, NOW - 400, {0: NOW - 100}, 100),
        (2300, NOW - 400, {0: NOW - 100}, 200),
        (None, NOW - 400, {}, 400),  # a person removed the label of its age: seed 8525689
        (500, NOW - 400, None, 400),  # before the nodes are read: what is not late then is not late
    ],
)
def test_a_pool_of_an_earlier_round_is_held_since_its_nodes_came_or_gke_ended_its_tries(
    age_seconds: float | None, since: float, came: dict[int, float] | None, held_seconds: float
) -> None:
    pool = pool_of(0, age_seconds=age_seconds)
    read = None if came is None else {pool_of(index).name: at for index, at in came.items()}

    assert has_held_for(hold([pool], since=since, came=read), held_seconds)


@pytest.mark.parametrize(
    ("statuses", "age_seconds", "waits"),
    [
        (["PROVISIONING"], 600, True),
        (["PROVISIONING"], 60, False),
        (["RUNNING"], 600, False),
        (["PROVISIONING", "RUNNING", "RUNNING"], 600, False),
        (["PROVISIONING", "RUNNING", "ERROR"], 600, True),
    ],
)
def test_a_pool_that_gke_creates_since_an_earlier_round_comes_before_others_are_bought(
    statuses: list[str], age_seconds: float, waits: bool
) -> None:
    pools = [pool_of(index, status, age_seconds=age_seconds) for index, status in enumerate(statuses)]

    found = decide_round(hold(pools, since=NOW - 100), 1000, now=NOW)

    assert (found.verdict if found else None) == (Verdict.WAIT if waits else None)
    if found:
        assert "nothing is created for the other slices meanwhile" in found.message


@pytest.mark.parametrize(
    ("statuses", "held_seconds", "late"),
    [
        (["RUNNING", "PROVISIONING"], 599, False),
        (["RUNNING", "PROVISIONING"], 600, True),
        (["RUNNING", "RUNNING", "ERROR"], 600, True),
        (["RUNNING", "RUNNING", "RUNNING"], 10_000, False),
        (["ERROR", "ERROR", "ERROR"], 10_000, False),
        ([], 10_000, False),
    ],
)
def test_a_part_is_held_for_so_long_and_no_longer(statuses: list[str], held_seconds: float, late: bool) -> None:
    pools = [pool_of(index, status, age_seconds=held_seconds) for index, status in enumerate(statuses)]

    found = decide_round(hold(pools), 600, now=NOW)

    assert (found is not None) == late
    if found:
        assert found.reason == Reason.GANG_INCOMPLETE
        assert f"{statuses.count('RUNNING')} of 3 slices" in found.message


@pytest.mark.parametrize(
    ("lacks", "refused", "late"),
    [
        ([], (), False),
        ([], ("train-workers-1",), True),
        ([pool_of(1, "PROVISIONING", age_seconds=5)], (), True),
        ([failed_pool(1, "GCE_STOCKOUT")], (), True),
        ([failed_pool(1, "no such words")], (), True),
        ([failed_pool(1, "Permissions error: missing required permissions")], (), False),
    ],
)
def test_a_round_ends_late_only_if_gke_has_had_the_time(
    lacks: list[Any], refused: tuple[str, ...], late: bool
) -> None:
    """No other pools are given back for one that was not asked for, or that lacks a right."""
    gang = plan()[:2]

    holding = measure_gang(gang, [pool_of(0, age_seconds=601), *lacks])
    asked = holding.asked.union(refused)
    found = decide_round(dataclasses.replace(holding, asked=asked), 600, now=NOW)

    assert (found is not None) == late


def test_our_own_refusal_ends_no_round_that_is_late() -> None:
    late = hold([pool_of(0, age_seconds=601), pool_of(1, "PROVISIONING")])

    assert decide_round(late, 600, refused=LIMITED, now=NOW) == LIMITED


def test_the_emergency_stop_refuses_all() -> None:
    stop = Stop(mode=Mode.NO_CREATE, reason=Reason.MODE_NO_CREATE, cause="the label")

    found = expect_decision(decide_purchase(plan(), {}, stop=stop, now=NOW, settings=settings()))

    assert (found.verdict, found.reason) == (Verdict.REFUSE, Reason.MODE_NO_CREATE)
