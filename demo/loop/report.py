"""The JSON report of a run. Keys stay stable; more may be added."""

from dataclasses import asdict
from typing import Any

from demo.loop.headlines import find_headlines
from demo.loop.observations import Decided
from demo.loop.run_outcome import Outcome
from demo.loop.states import SliceTimeline
from demo.loop.steps import STEPS
from demo.loop.stretches import Attempt, list_attempts

REPORT_VERSION = 1


def build_report(outcome: Outcome) -> dict[str, Any]:
    """Return the report of a run as JSON values.

    All moments are seconds since the manifests were applied; ``seconds`` are real,
    ``virtual_seconds`` are of the stand-ins' clock.
    """
    timeline = outcome.timeline
    return {
        "version": REPORT_VERSION,
        "verified": outcome.verified,
        "problems": list(outcome.problems),
        "notes": list(outcome.notes),
        "speed": outcome.speed,
        "elapsed_seconds": round(outcome.elapsed_seconds, 3),
        "headlines": _round(asdict(find_headlines(outcome))),
        "slices": [_build_slice(outcome, one) for one in timeline.slices.values()],
        "refusals": [
            {
                "workload": f"{each.namespace}/{each.workload}",
                "slice": each.slice,
                "reason": each.reason,
                "message": each.message,
                "by": each.by,
            }
            for each in outcome.refusals
        ],
        "workloads": [
            {
                "workload": f"{each.namespace}/{each.name}",
                "terminal": each.terminal,
                "gone": each.gone,
                "messages": each.messages,
            }
            for each in timeline.workloads.values()
        ],
        "pools_left": outcome.pools_left,
        "messages": outcome.facts.get("messages", 0),
        "dead_letters": outcome.facts.get("dead_letters", 0),
        "shared_gke_calls": outcome.shared_calls,
    }


def _build_slice(outcome: Outcome, one: SliceTimeline) -> dict[str, Any]:
    started_at = outcome.timeline.started_at
    seconds = {str(step): round(one.steps[step] - started_at, 3) for step in STEPS if step in one.steps}
    calls = outcome.timeline.calls_of(one)
    creation = one.creation
    return {
        "workload": f"{one.namespace}/{one.workload}",
        "slice": one.job,
        "pool": one.pool,
        "shares_pool": one.shares_pool,
        "leader_pool": one.leader_pool,
        "pools": list(one.pools),
        "machine_type": creation.machine_type if creation else "",
        "node_count": creation.node_count if creation else 0,
        "topology": creation.topology if creation else "",
        "tier": creation.tier if creation else "",
        "reservation": creation.reservation if creation else "",
        "reason": creation.reason if creation else "",
        "gke_calls": sum(calls.values()),
        "gke_calls_by_method": dict(sorted(calls.items())),
        "gke_calls_refused": outcome.timeline.refused_calls_of(one),
        "attempts": [_build_attempt(each, started_at) for each in list_attempts(one, outcome.timeline)],
        "decisions": [_build_decision(each, started_at) for each in one.decisions],
        "seconds": seconds,
        "virtual_seconds": {step: round(each * outcome.speed, 1) for step, each in seconds.items()},
    }


def _round(values: dict[str, Any]) -> dict[str, Any]:
    nested = {name: _round(each) if isinstance(each, dict) else each for name, each in values.items()}
    return {name: round(each, 3) if isinstance(each, float) else each for name, each in nested.items()}


def _build_attempt(attempt: Attempt, started_at: float) -> dict[str, Any]:
    failed_at = None if attempt.failed_at is None else round(attempt.failed_at - started_at, 3)
    return {
        "pool": attempt.pool,
        "at": round(attempt.start - started_at, 3),
        "failed_at": failed_at,
        "cause": attempt.cause,
        "message": attempt.told,
    }


def _build_decision(decided: Decided, started_at: float) -> dict[str, Any]:
    return {
        "function": decided.function,
        "decision": decided.decision,
        "reason": decided.reason,
        "message": decided.message,
        "pool": decided.pool,
        "at": round(decided.at - started_at, 3),
    }
