"""Every situation that the deciders can meet, as the product of a few axes, and what must hold in each of them.

The rules are called on the full product; `judge_provision` and `judge_collect` say which invariants a decision
breaks. The axes are named in words, since the golden tables print them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any

from shared.core import labels
from shared.core.collect import OwnerState, PoolFacts, PoolPods, decide_collect
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.names import build_pool_name
from shared.core.pools import PoolSnapshot, PoolStatus
from shared.core.provision import Usage, decide_provision
from shared.core.settings import Mode, Settings
from tests.builders import NOW, a_claim, a_demand, a_foreign_pool, a_pool, settings

Situation = dict[str, str]
ProvisionRule = Callable[..., Decision]
CollectRule = Callable[..., Decision]

STATUSES = tuple(status.name for status in PoolStatus)
GRACE, CREATION, DRAIN = 300, 3600, 900
AGES = {"under grace": GRACE - 1, "grace": GRACE, "under stuck": CREATION - 1, "stuck": CREATION}
SINCE = {"not said": None, "now": 0, "grace": GRACE, "drained": DRAIN}
PODS = {
    "not looked": None,
    "none": PoolPods(),
    "own": PoolPods(own=1),
    "others": PoolPods(others=1),
    "own and others": PoolPods(own=1, others=1),
}
MODES: dict[str, dict[str, Any]] = {
    "active": {"mode": Mode.ACTIVE},
    "no-create": {"mode": Mode.NO_CREATE},
    "report-only": {"mode": Mode.REPORT_ONLY},
    "namespace report-only": {"namespace_modes": {"default": Mode.REPORT_ONLY}},
    "namespace active, all report-only": {"mode": Mode.REPORT_ONLY, "namespace_modes": {"default": Mode.ACTIVE}},
}
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
    "mode": tuple(MODES),
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
    "mode": ("active", "no-create", "report-only"),
}


def enumerate_situations(axes: dict[str, tuple[str, ...]]) -> Iterator[Situation]:
    """Yield the full product of the axes."""
    for values in product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


@cache
def build_settings(mode: str, replace: str = "no", limits: str = "no limit") -> Settings:
    return settings(**MODES[mode], replace_differing_pools=replace == "yes", **LIMITS[limits][0])


@cache
def build_snapshot(status: str, said: str, age: str) -> PoolSnapshot:
    name = build_pool_name(a_claim())
    if said == "foreign":
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
        extra_labels=changes.get(said),
        name=name,
        error="GKE's words",
    )


DEMAND = a_demand()


def provision_with(rule: ProvisionRule, situation: Situation) -> Decision:
    """Ask a rule of provisioning about one situation."""
    absent = situation["pool"] == "absent"
    pool = None if absent else build_snapshot(situation["pool"], situation["labels"], situation["age"])
    use = build_settings(situation["mode"], situation["replace"], situation["limits"])
    return rule(DEMAND, pool, now=NOW, settings=use, usage=LIMITS[situation["limits"]][1])


def collect_with(rule: CollectRule, situation: Situation) -> Decision:
    """Ask a rule of collecting about one situation."""
    since = SINCE[situation["since"]]
    facts = PoolFacts(
        pool=build_snapshot(situation["pool"], situation["labels"], situation["age"]),
        owner=OwnerState[situation["owner"]],
        owner_since=None if since is None else NOW - since,
        pods=PODS[situation["pods"]],
    )
    return rule(facts, now=NOW, settings=build_settings(situation["mode"]))


@cache
def decide_everything_to_provision() -> tuple[tuple[Situation, Decision], ...]:
    """Return what the real rule decides in every situation."""
    return tuple((row, provision_with(decide_provision, row)) for row in enumerate_situations(PROVISION_AXES))


@cache
def decide_everything_to_collect() -> tuple[tuple[Situation, Decision], ...]:
    """Return what the real rule decides in every situation."""
    return tuple((row, collect_with(decide_collect, row)) for row in enumerate_situations(COLLECT_AXES))


def _broken(rules: dict[str, bool]) -> list[str]:
    return [name for name, holds in rules.items() if not holds]


def judge_provision(situation: Situation, decision: Decision) -> list[str]:
    """Return the invariants of provisioning that a decision breaks."""
    verdict, reason = decision.verdict, decision.reason
    absent, pool = situation["pool"] == "absent", situation["pool"]
    ours = situation["labels"].startswith("ours")
    same = situation["labels"] in ("ours, same", "ours, no fingerprint")
    report_only = situation["mode"].endswith("report-only")
    active = situation["mode"] == "active"
    old = situation["age"] in ("grace", "under stuck", "stuck", "not said")
    limited = situation["limits"] in ("chips", "chips of namespace", "slices")
    may_delete = (
        ours
        and not report_only
        and (
            pool == "ERROR"
            or (pool == "RUNNING_WITH_ERROR" and old)
            or (pool == "RUNNING" and not same and situation["replace"] == "yes" and active)
        )
    )
    resting = pool in ("RUNNING", "RUNNING_WITH_ERROR", "ERROR")
    return _broken(
        {
            "a decision is complete": reason in Reason and verdict in Verdict and bool(decision.message),
            "a demand is never nothing": verdict != Verdict.NOTHING,
            "create only what is absent": absent or verdict != Verdict.CREATE,
            "create in active mode within limits": (verdict == Verdict.CREATE)
            == (absent and active and not limited),
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
    stuck = age in ("stuck", "not said")
    due = (
        not foreign
        and owner in ("GONE", "OVER")
        and pods == "none"
        and pool in ("RUNNING", "RUNNING_WITH_ERROR", "ERROR", "RECONCILING")
        and not situation["mode"].endswith("report-only")
    )
    return _broken(
        {
            "a decision is complete": reason in Reason and bool(decision.message),
            "only keep, wait or delete": verdict in (Verdict.KEEP, Verdict.WAIT, Verdict.DELETE),
            "never delete what is foreign": not (delete and foreign),
            "foreign is judged first": foreign == (reason == Reason.FOREIGN_LABELS),
            "never delete for an unknown owner": not (delete and owner == "UNKNOWN"),
            "never delete twice": not (delete and pool == "STOPPING"),
            "never delete what is not understood": not (delete and pool == "UNKNOWN"),
            "never delete in report-only": not (delete and situation["mode"].endswith("report-only")),
            "never delete under others' pods": not (delete and "others" in pods),
            "never delete under own pods before they are drained": not (
                delete and pods == "own" and not (owner in ("OVER", "GONE", "SUSPENDED") and since == "drained")
            ),
            "never delete the pool of a live owner that works": not (
                delete and owner == "LIVE" and pool in ("RUNNING", "RECONCILING")
            ),
            "never delete a pool while GKE makes it": not (delete and pool == "PROVISIONING" and not stuck),
            "a suspended workload has its grace": not (
                delete and owner == "SUSPENDED" and since in ("not said", "now")
            ),
            "what is over and empty goes": not due or delete,
        }
    )
