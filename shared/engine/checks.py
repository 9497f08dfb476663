"""Answers Kueue's admission check: capacity before pods, for all slices of a workload or for none.

A workload with quota is looked at as Kueue will resume it. Its pools are made by the same plan as
any other; when all of them run, Kueue is told Ready.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from shared.engine.kueue import RETRY
from shared.engine.tell import Outcome
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.times import format_time
from shared.plan.attempts import find_pause
from shared.plan.counting import Census

if TYPE_CHECKING:
    from shared.engine.kueue import Queued
    from shared.engine.look import Look
    from shared.engine.outside import Ports, Queues
    from shared.engine.reconcile import Result

_READY, _REJECTED, _PENDING = "Ready", "Rejected", "Pending"
_STATES = {
    Reason.CHECK_READY: (_READY, "all node pools of the workload run"),
    Reason.CHECK_RETRY: (
        RETRY,
        "not all node pools of the workload came in time, so those that did are given back",
    ),
    Reason.CHECK_REJECTED: (_REJECTED, "the workload can never be served"),
}
_REASONS = {state: reason for reason, (state, _) in _STATES.items()}


def answer_check(result: Result, ports: Ports) -> list[Outcome]:
    """Tell Kueue what the plan says of our check, if that is new; nothing while a stop holds."""
    look, queues = result.look, ports.queues.get(result.look.key.cluster)
    queued = look.standing.queued
    if queues is None or queued is None or look.scene.stop:
        return []
    return _write(queues, queued, _choose_state(result), look)


def _choose_state(result: Result) -> tuple[str, str]:
    """Return the state of our check, and its message."""
    look, standing = result.look, result.look.standing
    if standing.unserved:
        return RETRY, standing.unserved
    if standing.refusal:
        return _REJECTED, standing.refusal
    states = [
        _STATES[Reason(each.reason)] for each in result.plan.answers if each.reason in _STATES
    ]
    if not states:
        return _PENDING, _describe_wait(result)
    state, message = states[0]
    never = [need.never.message for need in look.scene.needs if need.never]
    return state, "; ".join([message, *never])


def _write(queues: Queues, queued: Queued, answer: tuple[str, str], look: Look) -> list[Outcome]:
    """Write the state of a check unless it says that already."""
    (name, message), state = answer, queued.state
    if (name, message) == (state.state, state.message):
        return []
    since = state.since if name == state.state else format_time(look.scene.now)
    changed = dataclasses.replace(state, state=name, message=message, since=since)
    pause = find_pause(state.retries) if name == RETRY else None
    queues.write_state(queued.workload, changed, retry_seconds=pause)
    reason = _REASONS.get(name, Reason.POOL_IN_PROGRESS)
    return [
        Outcome(
            decision=Decision(Verdict.KEEP, reason, message),
            cluster=look.key.cluster,
            subject=str(queued.workload),
            facts={"check": state.name, "state": name},
        )
    ]


def _describe_wait(result: Result) -> str:
    """Return why the check is pending. It changes only when something happened."""
    scene = result.look.scene
    wanted = sum(1 if need.elastic else need.most for need in scene.needs)
    text = f"{len(Census(scene).counted)} of {wanted} node pools exist or come"
    causes = sorted({str(answer.reason) for answer in result.plan.answers})
    return f"{text}; it waits: {', '.join(causes)}" if causes else text
