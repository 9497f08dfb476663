"""The deciders over whole tables: invariants, the committed policy, and broken deciders caught."""

import dataclasses
import difflib
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from shared.core.decide.collect import decide_collect, needs_cap
from shared.core.decide.demands import decide_succeeded
from shared.core.decide.limits import CountedPools, Usage
from shared.core.decide.pool_facts import OwnerState, PoolFacts, PoolPods, WaitingPods
from shared.core.decide.provision import decide_provision
from shared.core.decisions import (
    EVENT_REASONS,
    Decision,
    EventReason,
    Reason,
    Verdict,
    find_event_reason,
    is_warning,
)
from shared.core.identity.pools import STATUS_NUMBERS, PoolStatus, parse_status, sort_oldest_first
from tests.builders import NOW, a_claim, a_demand, a_foreign_pool, a_go_pool, a_pool, settings
from tests.unit.decision_enumeration import (
    BROKEN_AXES,
    COLLECT_AXES,
    PROVISION_AXES,
    CollectRule,
    ProvisionRule,
    Situation,
    collect_with,
    decide_everything_broken,
    decide_everything_to_collect,
    decide_everything_to_provision,
    enumerate_situations,
    judge_broken,
    judge_broken_with,
    judge_collect,
    judge_provision,
    provision_with,
)
from tests.unit.golden_tables import FOLDER, TABLES


@pytest.mark.parametrize(
    ("decide_everything", "judge", "more_than"),
    [
        (decide_everything_to_provision, judge_provision, 10_000),
        (decide_everything_to_collect, judge_collect, 30_000),
        (decide_everything_broken, judge_broken, 1_000),
    ],
    ids=["provision", "collect", "a pool with errors"],
)
def test_every_invariant_is_kept_in_every_situation(
    decide_everything: Callable[[], tuple[tuple[Situation, Decision], ...]],
    judge: Callable[[Situation, Decision], list[str]],
    more_than: int,
) -> None:
    broken = [(name, row) for row, decision in decide_everything() for name in judge(row, decision)]

    assert len(decide_everything()) > more_than
    assert broken[:5] == []


@pytest.mark.parametrize("name", sorted(TABLES))
def test_the_policy_is_the_committed_one(name: str) -> None:
    committed, now = (FOLDER / name).read_text().splitlines(), TABLES[name]().splitlines()
    difference = "\n".join(difflib.unified_diff(committed, now, "committed", "decided now", lineterm="", n=1))
    advice = "if the policy is meant to change, run: python -m tests.unit.golden_tables --write"

    assert difference == "", f"{name} differs; {advice}\n{difference}"


# --- the invariants bite: each of these deciders is wrong, and is caught for the right thing ---


def changed(decision: Decision, **change: Any) -> Decision:
    return dataclasses.replace(decision, **change)


def forgets_who_owns_it(_demand: Any, pool: Any, **rest: Any) -> Decision:
    other = None if pool is None else a_pool(pool.status, name=pool.name)
    return decide_provision(_demand, other, **rest)


def creates_again_while_stopping(demand: Any, pool: Any, **rest: Any) -> Decision:
    if pool is not None and pool.status == PoolStatus.STOPPING and pool.owner:
        return Decision(Verdict.CREATE, Reason.POOL_ABSENT, "at once")
    return decide_provision(demand, pool, **rest)


def ignores_modes(demand: Any, pool: Any, **rest: Any) -> Decision:
    return decide_provision(demand, pool, **{**rest, "settings": settings()})


def ignores_limits(demand: Any, pool: Any, **rest: Any) -> Decision:
    return decide_provision(demand, pool, **{**rest, "usage": None})


def trusts_a_failed_pool(demand: Any, pool: Any, **rest: Any) -> Decision:
    if pool is not None and pool.owner and pool.status == PoolStatus.ERROR:
        return Decision(Verdict.KEEP, Reason.POOL_SERVES, "exists and matches")
    return decide_provision(demand, pool, **rest)


def says_nothing(demand: Any, pool: Any, **rest: Any) -> Decision:
    return changed(decide_provision(demand, pool, **rest), message="")


@pytest.mark.parametrize(
    ("rule", "caught"),
    [
        (forgets_who_owns_it, "foreign is refused"),
        (creates_again_while_stopping, "create only what is absent"),
        (ignores_modes, "create in active mode within limits"),
        (ignores_limits, "create in active mode within limits"),
        (trusts_a_failed_pool, "delete what cannot serve, and only that"),
        (says_nothing, "a decision is complete"),
    ],
)
def test_a_broken_provision_is_caught(rule: ProvisionRule, caught: str) -> None:
    rows = islice(enumerate_situations(PROVISION_AXES), 0, None, 11)

    assert any(caught in judge_provision(row, provision_with(rule, row)) for row in rows)


def reads_unknown_as_gone(facts: PoolFacts, **rest: Any) -> Decision:
    owner = OwnerState.GONE if facts.owner == OwnerState.UNKNOWN else facts.owner
    return decide_collect(dataclasses.replace(facts, owner=owner), **rest)


def ignores_pods(facts: PoolFacts, **rest: Any) -> Decision:
    return decide_collect(dataclasses.replace(facts, pods=PoolPods()), **rest)


def ignores_others(facts: PoolFacts, **rest: Any) -> Decision:
    pods = facts.pods and PoolPods(own=facts.pods.own)
    return decide_collect(dataclasses.replace(facts, pods=pods), **rest)


def deletes_a_foreign_pool(facts: PoolFacts, **rest: Any) -> Decision:
    pool = facts.pool if facts.pool.owner else a_pool(facts.pool.status)
    return decide_collect(dataclasses.replace(facts, pool=pool), **rest)


def believes_a_suspension_in_spite_of_pods(facts: PoolFacts, **rest: Any) -> Decision:
    pods = facts.pods and dataclasses.replace(facts.pods, staying=0)
    return decide_collect(dataclasses.replace(facts, pods=pods), **rest)


def has_no_grace(facts: PoolFacts, **rest: Any) -> Decision:
    return decide_collect(dataclasses.replace(facts, owner_since=0.0), **rest)


def deletes_in_any_mode(facts: PoolFacts, **rest: Any) -> Decision:
    return decide_collect(facts, **{**rest, "settings": settings()})


def takes_every_status_for_running(facts: PoolFacts, **rest: Any) -> Decision:
    return decide_collect(
        dataclasses.replace(facts, pool=dataclasses.replace(facts.pool, status=PoolStatus.RUNNING)), **rest
    )


def counts_the_grace_from_the_creation(facts: PoolFacts, **rest: Any) -> Decision:
    waiting = dataclasses.replace(facts.waiting, youngest_since=0.0)
    return decide_collect(dataclasses.replace(facts, waiting=waiting), **rest)


def ignores_nodes(facts: PoolFacts, **rest: Any) -> Decision:
    return decide_collect(dataclasses.replace(facts, ready_nodes=0), **rest)


def forgets_the_failure(facts: PoolFacts, **rest: Any) -> Decision:
    return decide_collect(dataclasses.replace(facts, superseded=True), **rest)


def keeps_what_holds_machines(facts: PoolFacts, **rest: Any) -> Decision:
    pool = dataclasses.replace(facts.pool, reserved=False)
    return decide_collect(dataclasses.replace(facts, pool=pool, nodes=0), **rest)


def deletes_without_demand(facts: PoolFacts, **rest: Any) -> Decision:
    waiting = facts.waiting if facts.waiting.leader_since else WaitingPods(leader_since=1.0)
    return decide_collect(dataclasses.replace(facts, waiting=waiting), **rest)


@pytest.mark.parametrize(
    ("rule", "caught"),
    [
        (ignores_pods, "never delete under pods"),
        (ignores_nodes, "never delete a pool whose nodes are all Ready"),
        (deletes_without_demand, "never delete what nothing waits for"),
        (forgets_the_failure, "the record of a failure stays until the next attempt"),
        (keeps_what_holds_machines, "a pool that was never made and holds machines goes at once"),
        (
            counts_the_grace_from_the_creation,
            "never delete within the grace since a pod of the workload was created",
        ),
    ],
)
def test_a_broken_rule_about_pools_with_errors_is_caught(rule: CollectRule, caught: str) -> None:
    rows = enumerate_situations(BROKEN_AXES)

    assert any(caught in judge_broken(row, judge_broken_with(rule, row)) for row in rows)


def never_deletes(facts: PoolFacts, **rest: Any) -> Decision:
    return changed(decide_collect(facts, **rest), verdict=Verdict.KEEP)


@pytest.mark.parametrize(
    ("rule", "caught"),
    [
        (reads_unknown_as_gone, "never delete for an unknown owner"),
        (ignores_pods, "never delete under own pods before they are drained"),
        (ignores_others, "never delete under others' pods"),
        (deletes_a_foreign_pool, "never delete what is foreign"),
        (believes_a_suspension_in_spite_of_pods, "never delete under pods that contradict the suspension"),
        (has_no_grace, "a suspended workload has its grace"),
        (deletes_in_any_mode, "never delete in report-only"),
        (takes_every_status_for_running, "never delete twice"),
        (never_deletes, "what is over and empty goes"),
    ],
)
def test_a_broken_collect_is_caught(rule: CollectRule, caught: str) -> None:
    rows = islice(enumerate_situations(COLLECT_AXES), 0, None, 11)

    assert any(caught in judge_collect(row, collect_with(rule, row)) for row in rows)


# --- single points that a table does not show well ---


def test_a_refusal_for_a_limit_says_what_how_much_and_which_setting() -> None:
    decision = decide_provision(
        a_demand(), None, now=NOW, settings=settings(limit_chips=20), usage=Usage(chips=8, slices=2)
    )

    assert (decision.verdict, decision.reason) == (Verdict.REFUSE, Reason.LIMIT_REACHED)
    assert (
        decision.message
        == "with this node pool there would be 24 chips in the cluster; the setting limit_chips is 20; end other "
        "workloads, ask for less, or let an operator raise the setting"
    )


def test_what_gke_said_of_a_failed_pool_reaches_its_owner() -> None:
    pool = a_pool("ERROR", error="Atomic resize failed with [GCE_STOCKOUT]")

    assert "GCE_STOCKOUT" in decide_provision(a_demand(), pool, now=NOW, settings=settings()).message
    live = PoolFacts(pool=pool, owner=OwnerState.LIVE, owner_found=True)
    assert "GCE_STOCKOUT" in decide_collect(live, now=NOW, settings=settings()).message


def test_usage_counts_our_pools_that_hold_or_will_hold_machines() -> None:
    def pool_of(name: str, status: str = "RUNNING", namespace: str = "default", **more: Any) -> Any:
        return a_pool(status, name=name, claim=a_claim(namespace=namespace), **more)

    pools = [
        pool_of("a"),
        pool_of("b", "PROVISIONING", "ml", node_count=1, machine_type="ct6e-standard-8t"),
        pool_of("c", "ERROR"),
        pool_of("d", "STOPPING"),
        pool_of("asked-about"),
        pool_of("e", machine_type="n2-standard-4"),
        a_go_pool(),
        a_foreign_pool(),
    ]
    demand = dataclasses.replace(a_demand(), claim=a_claim(namespace="ml"))
    usage = CountedPools(pools, {}).measure(demand, "asked-about")

    assert usage == Usage(chips=16 + 8 + 16 + 0 + 16, chips_in_namespace=8, slices=5)


@pytest.mark.parametrize(
    ("owner", "found", "capped"),
    [
        ("OVER", True, False),
        ("SUSPENDED", True, False),
        ("OVER", False, True),
        ("GONE", True, True),
        ("GONE", False, True),
        ("LIVE", True, True),
    ],
)
def test_only_the_own_word_of_an_owner_needs_no_cap(owner: str, *, found: bool, capped: bool) -> None:
    facts = PoolFacts(pool=a_pool(), owner=OwnerState[owner], owner_found=found)

    assert needs_cap(facts) == capped


@pytest.mark.parametrize(
    ("owner", "over", "staying", "message"),
    [
        ("GONE", True, 0, f"deleting node pool {a_pool().name}: its workload is gone"),
        (
            "GONE",
            False,
            0,
            f"deleting node pool {a_pool().name}: its workload is still there and no longer asks for this pool",
        ),
        ("OVER", True, 0, f"deleting node pool {a_pool().name}: its workload is over"),
        ("GONE", True, 2, f"2 pods of a workload of the same name run on {a_pool().name}"),
        ("GONE", False, 2, f"2 pods of its workload run on {a_pool().name}"),
        ("SURPLUS", False, 2, f"2 pods of its workload run on {a_pool().name}"),
    ],
)
def test_a_slice_that_was_scaled_away_is_told_from_a_workload_that_is_gone(
    owner: str, *, over: bool, staying: int, message: str
) -> None:
    pods = PoolPods(own=staying, staying=staying)
    facts = PoolFacts(pool=a_pool(), owner=OwnerState[owner], workload_over=over, pods=pods)

    assert decide_collect(facts, now=NOW, settings=settings()).message == message


def test_a_status_is_read_by_name_and_by_number_and_anything_else_is_unknown() -> None:
    assert [parse_status(number) for number in range(7)] == list(STATUS_NUMBERS)
    assert {parse_status(str(status)) for status in PoolStatus} == set(PoolStatus)
    assert {parse_status(value) for value in ("", None, "PAUSED", 7, -1)} == {PoolStatus.UNKNOWN}


def test_a_pool_that_does_not_say_its_age_has_none_and_one_from_the_future_is_new() -> None:
    assert a_pool(age_seconds=None).age_seconds(NOW) is None
    assert a_foreign_pool().age_seconds(NOW) is None
    assert a_pool(age_seconds=-100).age_seconds(NOW) == 0


def test_the_oldest_pool_is_first_and_one_that_does_not_say_its_age_before_it() -> None:
    pools = [a_pool(name=str(age), age_seconds=age) for age in (1.0, None, 9000.0)]

    assert [pool.name for pool in sort_oldest_first(pools)] == ["None", "9000.0", "1.0"]


@pytest.mark.parametrize("status", ["PROVISIONING", "RUNNING_WITH_ERROR"])
def test_no_rule_about_age_applies_to_an_unknown_age_and_no_message_says_that_it_is_infinite(status: str) -> None:
    facts = PoolFacts(pool=a_go_pool(status=status), owner=OwnerState.LIVE, pods=PoolPods())
    decision = decide_collect(facts, now=NOW, settings=settings())

    assert decision.verdict != Verdict.DELETE
    assert "inf" not in decision.message.split()


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("reason", list(Reason))
def test_every_decision_has_its_kubernetes_event_or_none(verdict: Verdict, reason: Reason) -> None:
    decision = Decision(verdict, reason, "words")
    event = find_event_reason(decision)
    failed = reason in (
        Reason.POOL_FAILED,
        Reason.POOL_STUCK,
        Reason.QUOTA_EXCEEDED,
        Reason.REQUEST_INVALID,
        Reason.STOCKOUT,
        Reason.RESERVATION_UNFIT,
        Reason.ADDRESSES_EXHAUSTED,
        Reason.ZONE_UNFIT,
        Reason.POLICY_VIOLATED,
    )

    of_its_own = {
        Reason.POOL_CREATED: EventReason.CREATION_SUCCEEDED,
        Reason.WORKLOAD_RESUMED: EventReason.RESUMED,
    }
    told = of_its_own.get(reason, EVENT_REASONS.get(verdict))
    assert event == (EventReason.CREATION_FAILED if failed else told)
    assert (event is None) == (verdict == Verdict.NOTHING and not failed and reason not in of_its_own)
    assert is_warning(decision) == (failed or verdict == Verdict.REFUSE)


@pytest.mark.parametrize("status", list(PoolStatus))
def test_only_a_pool_of_ours_that_was_made_is_told_of(status: PoolStatus) -> None:
    decision = decide_succeeded(a_pool(status))

    assert (decision is not None) == (status in (PoolStatus.RUNNING, PoolStatus.RECONCILING))
    assert decide_succeeded(a_foreign_pool(status=status)) is None
    assert decide_succeeded(None) is None


def test_the_go_provisioner_s_event_reasons_are_kept() -> None:
    assert {str(each) for each in EventReason} >= {
        "NodePoolCreationStarted",
        "NodePoolCreationSucceeded",
        "NodePoolCreationFailed",
        "NodePoolDeletionStarted",
    }
