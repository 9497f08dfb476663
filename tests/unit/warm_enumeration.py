"""Every situation of a pool that may stay unused after its workload, and what must hold in each."""

from functools import cache
from typing import Any

from shared.core.decide.collect import decide_collect
from shared.core.decide.pool_facts import OwnerState, PoolFacts, PoolPods
from shared.core.decide.warm_pools import plan_marks

from shared.engine.outside import SurplusMark
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.pools import PoolSnapshot, PoolStatus
from shared.settings import Settings
from tests.builders import NOW, a_bound_pod_of_others, a_pool, settings
from tests.unit.decision_table import DecisionTable, Rule, Situation, list_broken

IDLE, DRAIN = 1800, 900
OWNERS = {
    "over": (OwnerState.OVER, True),
    "gone": (OwnerState.GONE, True),
    "slice gone": (OwnerState.GONE, False),
    "suspended": (OwnerState.SUSPENDED, False),
    "live": (OwnerState.LIVE, False),
}
PODS = {
    "not looked": None,
    "none": PoolPods(),
    "own ending": PoolPods(own=1),
    "others": PoolPods(others=(a_bound_pod_of_others(),)),
}
DUE = SurplusMark(NOW - IDLE, closed=False)
MARKS: dict[str, tuple[SurplusMark | None, ...]] = {
    "no nodes": (),
    "none": (None, None),
    "ahead": (SurplusMark(NOW + 3600, closed=False), None),
    "in the grace": (SurplusMark(NOW - 59, closed=False), None),
    "in the grace, closed": (SurplusMark(NOW - 59, closed=True),) * 2,
    "young": (SurplusMark(NOW - IDLE + 1, closed=False), None),
    "young, closed": (SurplusMark(NOW - IDLE + 1, closed=True),) * 2,
    "due": (DUE, DUE),
    "due, one closed": (DUE, SurplusMark(DUE.since, closed=True)),
    "due, closed": (SurplusMark(DUE.since, closed=True), SurplusMark(NOW, closed=True)),
}
ALLOWED = {"as labelled": IDLE, "less": 60, "nothing": 0}
"""What the settings allow now; the label says `IDLE`."""


@cache
def build_pool(status: str) -> PoolSnapshot:
    return a_pool(
        PoolStatus[status], age_seconds=2 * DRAIN, extra_labels={labels.IDLE: str(IDLE)}, error="GKE's words"
    )


def build_facts(situation: Situation) -> PoolFacts:
    """Return one situation's facts; its owner ended or was suspended longer ago than the drain."""
    owner, over = OWNERS[situation["owner"]]
    return PoolFacts(
        pool=build_pool(situation["pool"]),
        owner=owner,
        owner_since=None if owner == OwnerState.LIVE else NOW - DRAIN,
        owner_found=situation["owner"] != "gone",
        pods=PODS[situation["pods"]],
        workload_over=over,
        marks={f"n{at}": mark for at, mark in enumerate(MARKS[situation["marks"]])},
    )


@cache
def build_settings(allowed: str) -> Settings:
    return settings(idle_seconds_max=ALLOWED[allowed])


def ask(rule: Rule, situation: Situation) -> Any:
    """Ask a rule of collecting about one situation."""
    use = build_settings(situation["allowed"])
    return rule(build_facts(situation), now=NOW, settings=use)


def plan_situation(situation: Situation) -> dict[str, tuple[float | None, bool]]:
    """Return which marks change in a situation."""
    return plan_marks(build_facts(situation), now=NOW, settings=build_settings(situation["allowed"]))


def judge_warm(situation: Situation, decision: Decision) -> list[str]:
    """Return the invariants about idle pools that a decision breaks."""
    owner, pods, marks, allowed = (situation[key] for key in ("owner", "pods", "marks", "allowed"))
    lent = decision.reason == Reason.POOL_LENT
    delete, warm, plan = (
        decision.verdict == Verdict.DELETE,
        decision.reason == Reason.POOL_WARM,
        plan_situation(situation),
    )
    stays = owner in ("over", "gone") and situation["pool"] in ("RUNNING", "RECONCILING") and allowed != "nothing"
    empty = pods == "none" and marks != "no nodes"
    due = marks.startswith("due") or (allowed == "less" and marks.startswith("young"))
    closed = marks.endswith(", closed")
    return list_broken(
        {
            "only a pool whose workload is over stays": stays or not warm,
            "a pool that may stay is not deleted unlooked": not (stays and pods == "not looked" and delete),
            "one that others use stays": (stays and pods == "others") == lent,
            "one that is not idle for long enough stays": not (stays and empty and not due) or warm,
            "one with an open node stays": not (stays and empty and not closed) or warm,
            "one that is due and closed goes": not (stays and empty and due and closed) or delete,
            "one without nodes is not warm": not (stays and pods == "none" and marks == "no nodes" and warm),
            "marks change only where they are a record": stays or not plan,
            "a pool in use has no mark": pods != "others" or all(since is None for since, _ in plan.values()),
            "nodes are closed only when the pool is due": due or not any(shut for _, shut in plan.values()),
            "a closed node is opened again when it is not due": not (stays and empty and closed and not due)
            or (all(not shut for _, shut in plan.values()) and len(plan) == len(MARKS[marks])),
        }
    )


WARM = DecisionTable(
    axes={
        "owner": tuple(OWNERS),
        "pool": tuple(status.name for status in PoolStatus),
        "pods": tuple(PODS),
        "marks": tuple(MARKS),
        "allowed": tuple(ALLOWED),
    },
    rule=decide_collect,
    ask=ask,
    judge=judge_warm,
    more_than=1_000,
)
