"""The deciders over whole tables: invariants, the committed policy, and broken deciders caught."""

import difflib
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from shared.core.decide.attempts import AttemptDecision, decide_next_attempt
from shared.core.decide.collect import decide_collect, needs_cap
from shared.core.decide.limits import CountedPools, Usage
from shared.core.decide.pool_facts import OwnerState, PoolFacts, PoolPods, WaitingPods
from shared.core.decide.provision import decide_provision

from shared.model.decisions import (
    EVENT_REASONS,
    Decision,
    EventReason,
    Reason,
    Verdict,
    find_event_reason,
    is_warning,
)
from shared.model.pools import STATUS_NUMBERS, PoolSnapshot, PoolStatus, parse_status, sort_oldest_first
from shared.needs.demands import decide_succeeded
from tests.builders import NOW, a_claim, a_demand, a_foreign_pool, a_go_pool, a_pool, settings
from tests.unit.decision_enumeration import ATTEMPTS, BROKEN, COLLECT, PROVISION
from tests.unit.decision_table import DecisionTable, Rule
from tests.unit.golden_tables import FOLDER, TABLES, render


@pytest.mark.parametrize("name", TABLES)
def test_every_invariant_is_kept_in_every_situation(name: str) -> None:
    table = TABLES[name]
    broken = [(what, row) for row, answer in table.everything for what in table.judge(row, answer)]

    assert len(table.everything) > table.more_than
    assert broken[:5] == []


@pytest.mark.parametrize("name", sorted(TABLES))
def test_the_policy_is_the_committed_one(name: str) -> None:
    committed, now = (FOLDER / name).read_text().splitlines(), render(TABLES[name]).splitlines()
    difference = "\n".join(difflib.unified_diff(committed, now, "committed", "decided now", lineterm="", n=1))
    advice = "if the policy is meant to change, run: python -m tests.unit.golden_tables --write"

    assert difference == "", f"{name} differs; {advice}\n{difference}"


# --- the invariants bite: each of these deciders is wrong, and is caught for the right thing ---


def provision_with(**given: Any) -> Rule:
    """The rule of provisioning, which is always given the same."""
    return lambda demand, pool, **rest: decide_provision(demand, pool, **rest | given)


def answer_about_ours(status: PoolStatus, answer: Decision) -> Rule:
    """The rule of provisioning, with another answer about our pools of one status."""

    def rule(demand: Any, pool: PoolSnapshot | None, **rest: Any) -> Decision:
        wrong = pool is not None and pool.owner and pool.status == status
        return answer if wrong else decide_provision(demand, pool, **rest)

    return rule


def collect_about(change: Callable[[PoolFacts], dict[str, Any]]) -> Rule:
    """The rule of collecting, which takes each pool's facts for others."""
    return lambda facts, **rest: decide_collect(replace(facts, **change(facts)), **rest)


def then(rule: Rule, **change: Any) -> Rule:
    """A rule whose answers are changed afterwards."""
    return lambda *given, **rest: replace(rule(*given, **rest), **change)


def creates_at_once(demand: Any, create: Any, failed: Any, **rest: Any) -> AttemptDecision:
    found = decide_next_attempt(demand, create, failed, **rest)
    return found if found.decision.verdict != Verdict.WAIT else AttemptDecision(attempt=1, decision=create)


def repeats_the_name(demand: Any, create: Any, failed: Any, **rest: Any) -> AttemptDecision:
    return replace(decide_next_attempt(demand, create, failed, **rest), attempt=failed.attempt)


AGAIN = Decision(Verdict.CREATE, Reason.POOL_ABSENT, "at once")
SERVES = Decision(Verdict.KEEP, Reason.POOL_SERVES, "exists and matches")
IGNORES_PODS = collect_about(lambda _: {"pods": PoolPods()})


@pytest.mark.parametrize(
    ("table", "rule", "caught"),
    [
        pytest.param(
            PROVISION,
            lambda demand, pool, **rest: decide_provision(
                demand, pool and a_pool(pool.status, name=pool.name), **rest
            ),
            "foreign is refused",
            id="forgets who owns it",
        ),
        pytest.param(
            PROVISION,
            answer_about_ours(PoolStatus.STOPPING, AGAIN),
            "create only what is absent",
            id="creates again while stopping",
        ),
        pytest.param(PROVISION, provision_with(usage=None), "create within limits", id="ignores limits"),
        pytest.param(
            PROVISION,
            answer_about_ours(PoolStatus.ERROR, SERVES),
            "delete what cannot serve, and only that",
            id="trusts a failed pool",
        ),
        pytest.param(PROVISION, then(decide_provision, message=""), "a decision is complete", id="says nothing"),
        pytest.param(BROKEN, IGNORES_PODS, "never delete under pods", id="ignores pods of a pool with errors"),
        pytest.param(
            BROKEN,
            collect_about(lambda _: {"ready_nodes": 0}),
            "never delete a pool whose nodes are all Ready",
            id="ignores nodes",
        ),
        pytest.param(
            BROKEN,
            collect_about(
                lambda facts: {} if facts.waiting.leader_since else {"waiting": WaitingPods(leader_since=1.0)}
            ),
            "never delete what nothing waits for",
            id="deletes without demand",
        ),
        pytest.param(
            BROKEN,
            collect_about(lambda _: {"superseded": True}),
            "the record of a failure stays until the next attempt",
            id="forgets the failure",
        ),
        pytest.param(
            BROKEN,
            collect_about(lambda facts: {"pool": replace(facts.pool, reserved=False), "nodes": 0}),
            "a pool that was never made and holds machines goes at once",
            id="keeps what holds machines",
        ),
        pytest.param(
            BROKEN,
            collect_about(lambda facts: {"waiting": replace(facts.waiting, youngest_since=0.0)}),
            "never delete within the grace since a pod of the workload was created",
            id="counts the grace from the creation",
        ),
        pytest.param(
            COLLECT,
            collect_about(lambda facts: {"owner": OwnerState.GONE} if facts.owner == OwnerState.UNKNOWN else {}),
            "never delete for an unknown owner",
            id="reads unknown as gone",
        ),
        pytest.param(
            COLLECT, IGNORES_PODS, "never delete under own pods before they are drained", id="ignores pods"
        ),
        pytest.param(
            COLLECT,
            collect_about(lambda facts: {"pods": facts.pods and PoolPods(own=facts.pods.own)}),
            "never delete under others' pods",
            id="ignores others",
        ),
        pytest.param(
            COLLECT,
            collect_about(lambda facts: {} if facts.pool.owner else {"pool": a_pool(facts.pool.status)}),
            "never delete what is foreign",
            id="deletes a foreign pool",
        ),
        pytest.param(
            COLLECT,
            collect_about(lambda facts: {"pods": facts.pods and replace(facts.pods, staying=0)}),
            "never delete under pods that contradict the suspension",
            id="believes a suspension in spite of pods",
        ),
        pytest.param(
            COLLECT,
            collect_about(lambda _: {"owner_since": 0.0}),
            "a suspended workload has its grace",
            id="has no grace",
        ),
        pytest.param(
            COLLECT,
            collect_about(lambda facts: {"pool": replace(facts.pool, status=PoolStatus.RUNNING)}),
            "never delete twice",
            id="takes every status for running",
        ),
        pytest.param(
            COLLECT, then(decide_collect, verdict=Verdict.KEEP), "what is over and empty goes", id="never deletes"
        ),
        pytest.param(ATTEMPTS, creates_at_once, "a pause has a record, and ends", id="creates at once"),
        pytest.param(ATTEMPTS, repeats_the_name, "the next attempt has another number", id="repeats the name"),
    ],
)
def test_a_broken_rule_is_caught(table: DecisionTable, rule: Rule, caught: str) -> None:
    step = 11 if table.more_than >= 10_000 else 1
    rows = islice(table.list_situations(), 0, None, step)

    assert any(caught in table.judge(row, table.ask(rule, row)) for row in rows)


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
    demand = replace(a_demand(), claim=a_claim(namespace="ml"))
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

    of_its_own = {Reason.POOL_CREATED: EventReason.CREATION_SUCCEEDED}
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
