"""Every situation that the deciders can meet, as a product of axes, and what must hold in each.

The rules are called on the full product; `judge_provision` and `judge_collect` say which invariants
a decision breaks. The axes are named in words, since the golden tables print them.
"""

import dataclasses
import math
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from shared.core.decide.attempts import AttemptDecision, FailedAttempt, decide_next_attempt, find_pause
from shared.core.decide.collect import decide_collect
from shared.core.decide.limits import Usage
from shared.core.decide.pool_facts import OwnerState, PoolFacts, PoolPods, WaitingPods
from shared.core.decide.provision import decide_provision

from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.names import ATTEMPTS_MAX, build_pool_name
from shared.model.pools import PoolSnapshot, PoolStatus
from shared.needs.capacity_texts import read_policies
from shared.plan.failures import Failure
from shared.settings import Settings
from tests.builders import NOW, a_bound_pod_of_others, a_claim, a_demand, a_foreign_pool, a_pool, settings
from tests.unit.decision_table import DecisionTable, Rule, Situation, list_broken

STATUSES = tuple(status.name for status in PoolStatus)
GRACE, CREATION, DRAIN = 300, 3600, 900
AGES = {"under grace": GRACE - 1, "grace": GRACE, "under stuck": CREATION - 1, "stuck": CREATION}
SINCE = {"not said": None, "now": 0, "grace": GRACE, "drained": DRAIN}
PODS = {
    "not looked": None,
    "none": PoolPods(),
    "own ending": PoolPods(own=1),
    "own": PoolPods(own=1, staying=1),
    "others": PoolPods(others=(a_bound_pod_of_others(),)),
    "own and others": PoolPods(own=1, staying=1, others=(a_bound_pod_of_others(),)),
}
READY = {"none": 0, "some": 3, "all": 4}
"""Of a pool with four nodes."""
WAITING = {
    "nothing": WaitingPods(),
    "followers": WaitingPods(youngest_since=NOW - 2 * CREATION),
    "since before the pool": WaitingPods(leader_since=NOW - 2 * CREATION, youngest_since=NOW - 2 * CREATION),
    "since before the pool, others since now": WaitingPods(leader_since=NOW - 2 * CREATION, youngest_since=NOW),
    "since the grace": WaitingPods(leader_since=NOW - GRACE, youngest_since=NOW - GRACE),
    "since now": WaitingPods(leader_since=NOW, youngest_since=NOW),
    "since not said": WaitingPods(leader_since=math.inf),
    "since later": WaitingPods(leader_since=NOW + CREATION, youngest_since=NOW + CREATION),
}
HOLDS = ("nothing", "nodes", "a reservation")
NEWER = ("no", "yes")
"""Whether a pool of a later attempt of the claim is there."""
NO_GRACE = ("since before the pool", "since not said", "since later")
"""For a pool without Ready nodes: the last two are no times that can be true."""
LIMITS: dict[str, tuple[dict[str, int], Usage | None]] = {
    "no limit": ({}, None),
    "within": ({"limit_chips": 32, "limit_chips_per_namespace": 16, "limit_slices": 2}, Usage(chips=16, slices=1)),
    "chips": ({"limit_chips": 31}, Usage(chips=16)),
    "chips of namespace": ({"limit_chips_per_namespace": 15}, Usage()),
    "slices": ({"limit_slices": 2}, Usage(slices=2)),
}
PROVISION_AXES = {
    "pool": ("absent", *STATUSES),
    "labels": ("ours, same", "ours, no fingerprint", "ours, other", "other claim", "no claim", "foreign"),
    "limits": tuple(LIMITS),
    "replace": ("no", "yes"),
    "age": (*AGES, "not said"),
}
COLLECT_AXES = {
    "labels": ("ours", "of the Go provisioner", "foreign"),
    "owner": tuple(state.name for state in OwnerState),
    "pool": STATUSES,
    "pods": tuple(PODS),
    "since": tuple(SINCE),
    "age": (*AGES, "not said"),
}

BROKEN_AXES = {
    "pool": ("ERROR", "RUNNING_WITH_ERROR"),
    "pods": tuple(PODS),
    "ready": tuple(READY),
    "waits": tuple(WAITING),
    "age": (*AGES, "not said"),
    "holds": HOLDS,
    "newer": NEWER,
}
"""For a pool of ours whose owner is live."""


@cache
def build_settings(replace: str = "no", limits: str = "no limit") -> Settings:
    return settings(replace_differing_pools=replace == "yes", **LIMITS[limits][0])


@cache
def build_snapshot(status: str, message: str, age: str) -> PoolSnapshot:
    name = build_pool_name(a_claim())
    if message == "foreign":
        return a_foreign_pool(name, status=PoolStatus[status])
    changes: dict[str, dict[str, str | None]] = {
        "ours, no fingerprint": {labels.FINGERPRINT: None},
        "ours, other": {labels.FINGERPRINT: "1-other"},
        "other claim": {labels.CLAIM: "someone-else"},
        "no claim": {labels.CLAIM: None},
        "of the Go provisioner": dict.fromkeys((labels.CLAIM, labels.OWNER_UID, labels.FINGERPRINT)),
    }
    return a_pool(
        PoolStatus[status],
        age_seconds=AGES.get(age),
        extra_labels=changes.get(message),
        name=name,
        error="GKE's words",
    )


DEMAND = a_demand()


def provision_with(rule: Rule, situation: Situation) -> Any:
    """Ask a rule of provisioning about one situation."""
    absent = situation["pool"] == "absent"
    pool = None if absent else build_snapshot(situation["pool"], situation["labels"], situation["age"])
    use = build_settings(situation["replace"], situation["limits"])
    return rule(DEMAND, pool, now=NOW, settings=use, usage=LIMITS[situation["limits"]][1])


def collect_with(rule: Rule, situation: Situation) -> Any:
    """Ask a rule of collecting about one situation."""
    since = SINCE[situation["since"]]
    facts = PoolFacts(
        pool=build_snapshot(situation["pool"], situation["labels"], situation["age"]),
        owner=OwnerState[situation["owner"]],
        owner_since=None if since is None else NOW - since,
        pods=PODS[situation["pods"]],
    )
    return rule(facts, now=NOW, settings=build_settings())


def judge_broken_with(rule: Rule, situation: Situation) -> Any:
    """Ask a rule of collecting about one pool with errors."""
    pool = build_snapshot(situation["pool"], "ours", situation["age"])
    facts = PoolFacts(
        pool=dataclasses.replace(pool, reserved=situation["holds"] == "a reservation"),
        owner=OwnerState.LIVE,
        owner_found=True,
        pods=PODS[situation["pods"]],
        nodes=4 if situation["holds"] == "nodes" else READY[situation["ready"]],
        ready_nodes=READY[situation["ready"]],
        superseded=situation["newer"] == "yes",
        waiting=WAITING[situation["waits"]],
    )
    return rule(facts, now=NOW, settings=build_settings())


def judge_provision(situation: Situation, decision: Decision) -> list[str]:
    """Return the invariants of provisioning that a decision breaks."""
    verdict, reason = decision.verdict, decision.reason
    absent, pool = situation["pool"] == "absent", situation["pool"]
    ours = situation["labels"].startswith("ours")
    same = situation["labels"] in ("ours, same", "ours, no fingerprint")
    old = situation["age"] in ("grace", "under stuck", "stuck")
    limited = situation["limits"] in ("chips", "chips of namespace", "slices")
    may_delete = ours and (
        pool == "ERROR"
        or (pool == "RUNNING_WITH_ERROR" and old)
        or (pool.startswith("RUNNING") and not same and situation["replace"] == "yes")
    )
    resting = pool in ("RUNNING", "RUNNING_WITH_ERROR", "ERROR")
    return list_broken(
        {
            "a decision is complete": reason in Reason and verdict in Verdict and bool(decision.message),
            "a demand is never nothing": verdict != Verdict.NOTHING,
            "create only what is absent": absent or verdict != Verdict.CREATE,
            "create within limits": (verdict == Verdict.CREATE) == (absent and not limited),
            "what is not created is refused": not absent or verdict in (Verdict.CREATE, Verdict.REFUSE),
            "never delete what is not there": not absent or verdict != Verdict.DELETE,
            "foreign is judged first": absent or ours == (reason != Reason.FOREIGN_LABELS),
            "foreign is refused": absent or ours or verdict == Verdict.REFUSE,
            "delete what cannot serve, and only that": (verdict == Verdict.DELETE) == (not absent and may_delete),
            "what is under way is waited for": absent or not ours or resting or verdict == Verdict.WAIT,
            "what serves is kept": not (pool == "RUNNING" and ours and same) or verdict == Verdict.KEEP,
        }
    )


def judge_collect(situation: Situation, decision: Decision) -> list[str]:
    """Return the invariants of collecting that a decision breaks."""
    verdict, reason = decision.verdict, decision.reason
    owner, pool, age, since, pods = (situation[key] for key in ("owner", "pool", "age", "since", "pods"))
    delete = verdict == Verdict.DELETE
    foreign = situation["labels"] == "foreign"
    stuck = age == "stuck"
    due = (
        not foreign
        and owner in ("GONE", "OVER", "SURPLUS")
        and pods == "none"
        and pool in ("RUNNING", "RUNNING_WITH_ERROR", "ERROR", "RECONCILING")
    )
    return list_broken(
        {
            "a decision is complete": reason in Reason and bool(decision.message),
            "only keep, wait or delete": verdict in (Verdict.KEEP, Verdict.WAIT, Verdict.DELETE),
            "never delete what is foreign": not (delete and foreign),
            "foreign is judged first": foreign == (reason == Reason.FOREIGN_LABELS),
            "never delete for an unknown owner": not (delete and owner == "UNKNOWN"),
            "never delete twice": not (delete and pool == "STOPPING"),
            "never delete what is not understood": not (delete and pool == "UNKNOWN"),
            "never delete under others' pods": not (delete and "others" in pods),
            "never delete under own pods before they are drained": not (
                delete and pods.startswith("own") and not (owner not in ("LIVE", "UNKNOWN") and since == "drained")
            ),
            "never delete under pods that contradict the suspension": not (
                delete and owner in ("SUSPENDED", "RETURNING") and pods == "own"
            ),
            "never delete the pool of a live owner that works": not (
                delete and owner == "LIVE" and pool in ("RUNNING", "RECONCILING")
            ),
            "never delete a pool while GKE makes it": not (delete and pool == "PROVISIONING" and not stuck),
            "a suspended workload has its grace": not (
                delete
                and owner == "SUSPENDED"
                and (since == "now" or (since == "not said" and age in ("under grace", "not said")))
            ),
            "what is over and empty goes": not due or delete,
        }
    )


def judge_broken(situation: Situation, decision: Decision) -> list[str]:
    """Return the invariants about pools with errors that a decision on a full look breaks."""
    delete = decision.verdict == Verdict.DELETE
    pods, ready, waits = situation["pods"], situation["ready"], situation["waits"]
    looked, old = pods != "not looked", situation["age"] != "under grace"
    never_made = situation["pool"] == "ERROR" and ready == "none" and waits.startswith("since before")
    never_made = never_made and situation["age"] != "not said"
    empty = ready == "none" and situation["holds"] != "nodes"
    superseded = situation["newer"] == "yes" and situation["pool"] == "ERROR" and empty
    record = never_made and situation["holds"] == "nothing" and not superseded
    due = pods == "none" and ready == "none" and waits in NO_GRACE and old
    return list_broken(
        {
            "never delete under pods": not (delete and looked and pods != "none"),
            "never delete a pool whose nodes are all Ready": not (delete and looked and ready == "all"),
            "never delete what nothing waits for": not (
                delete and looked and waits in ("nothing", "followers") and not superseded
            ),
            "never delete within the grace since a pod of the workload was created": not (
                delete and looked and "now" in waits and not never_made and not superseded
            ),
            "a pool that was never made and holds machines goes at once": not (
                never_made and not record and pods == "none"
            )
            or delete,
            "the record of a failure stays until the next attempt": not (delete and looked and record),
            "a failed pool goes after its next attempt was submitted": not (superseded and pods == "none")
            or delete,
            "a pool that does not serve goes after the grace": not due or record or delete,
            "only keep or delete": decision.verdict in (Verdict.KEEP, Verdict.DELETE) and bool(decision.message),
        }
    )


QUOTED: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "golden/failures.yaml").read_text())
WORDS = {Failure(row["class"]): str(row["message"]) for row in QUOTED if "code" not in row}
FIRST_PAUSE = find_pause(a_claim().hash, 0)
LAST_PAUSE = find_pause(a_claim().hash, ATTEMPTS_MAX - 1)
FAILED_AGO = {
    "now": 0.0,
    "ahead": -3600.0,
    "before the first pause ends": FIRST_PAUSE - 1,
    "after the first pause": FIRST_PAUSE + 1,
    "before the longest pause ends": LAST_PAUSE - 1,
    "after the longest pause": LAST_PAUSE + 1,
    "not said": None,
}
LISTS: dict[str, str | None] = {
    "none": "",
    "three candidates": None,
    "three, after an edit": "1-of-2-abcdefgh",
    "three, where there was none": "",
}
"""The candidate that the failed pool names; None for the one of its attempt."""
ATTEMPT_AXES = {
    "failure": tuple(Failure),
    "attempt": ("0", "5", str(ATTEMPTS_MAX - 1)),
    "failed": tuple(FAILED_AGO),
    "record": ("its pool", "an operation, or a pool of another shape"),
    "list": tuple(LISTS),
}
_ZONES = '[{"priorities": [{"location": {"zones": ["us-east5-a", "us-east5-b", "us-east5-c"]}}]}]'
LISTED = a_demand(use=settings(capacity_policies=read_policies(_ZONES)))


def follow_with(rule: Rule, situation: Situation) -> Any:
    """Ask a rule about one failed attempt."""
    ago = FAILED_AGO[situation["failed"]]
    demand = DEMAND if situation["list"] == "none" else LISTED
    attempt, answer = int(situation["attempt"]), LISTS[situation["list"]]
    failed = FailedAttempt(
        pool="failed-pool",
        attempt=attempt,
        candidate=demand.on_attempt(attempt).candidate_mark if answer is None else answer,
        error=WORDS[Failure(situation["failure"])],
        at=None if ago is None else NOW - ago,
        binding=situation["record"] == "its pool",
    )
    return rule(demand, Decision(Verdict.CREATE, Reason.POOL_ABSENT, "creating"), failed, now=NOW)


def judge_attempt(situation: Situation, found: AttemptDecision) -> list[str]:
    """Return the invariants about failed attempts that a decision breaks."""
    verdict, ago, attempt = found.decision.verdict, FAILED_AGO[situation["failed"]], int(situation["attempt"])
    edited, choices = "," in situation["list"], 1 if situation["list"] == "none" else 3
    same = situation["record"] == "its pool" and choices == 1
    lasting = same and situation["failure"] in ("shape", "rights", "policy")
    counted = attempt + (2 * choices if situation["failure"] == "internal" else 0)
    pausing = ago is not None and not edited and 0 <= ago < find_pause(DEMAND.claim.hash, counted, choices)
    following = 0 if edited else (attempt + 1) % choices
    return list_broken(
        {
            "what fails again is refused": lasting == (verdict == Verdict.REFUSE),
            "a pause has a record, and ends": lasting or pausing == (verdict == Verdict.WAIT),
            "else the next attempt is made": lasting or pausing or verdict == Verdict.CREATE,
            "the next attempt has another number": verdict != Verdict.CREATE or found.attempt != attempt,
            "the next candidate follows": verdict != Verdict.CREATE or found.attempt % choices == following,
            "a number is in its range": 0 <= found.attempt < ATTEMPTS_MAX,
            "the class is told": found.failure == situation["failure"],
            "the owner is told": "GKE: " in found.decision.message,
        }
    )


PROVISION = DecisionTable(
    axes=PROVISION_AXES, rule=decide_provision, ask=provision_with, judge=judge_provision, more_than=2_000
)
COLLECT = DecisionTable(
    axes=COLLECT_AXES, rule=decide_collect, ask=collect_with, judge=judge_collect, more_than=10_000
)
BROKEN = DecisionTable(
    axes=BROKEN_AXES, rule=decide_collect, ask=judge_broken_with, judge=judge_broken, more_than=500
)
ATTEMPTS = DecisionTable(
    axes=ATTEMPT_AXES, rule=decide_next_attempt, ask=follow_with, judge=judge_attempt, more_than=400
)
