"""Answers Kueue's admission check: capacity before pods, for all slices of a workload or for none.

A workload with quota is looked at as Kueue will resume it. Its pools are made by the same plan as
any other; when all of them run, Kueue is told Ready.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from shared.engine.report import Outcome
from shared.kinds.table import find_kind
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import ProvisionerError, Rejected
from shared.model.kueue import find_seconds
from shared.model.times import format_time
from shared.plan.attempts import find_pause
from shared.plan.scene import Queue

if TYPE_CHECKING:
    from shared.engine.look import Key
    from shared.engine.outside import Ports, Queues
    from shared.engine.reconcile import Result
    from shared.model.kueue import Check, CheckState, QueuedWorkload
    from shared.model.workloads import WorkloadView

_STATES = {
    Reason.CHECK_READY: "Ready",
    Reason.CHECK_RETRY: "Retry",
    Reason.CHECK_REJECTED: "Rejected",
}
_WORDS = {
    Reason.CHECK_READY: "all node pools of the workload run",
    Reason.CHECK_RETRY: "not all node pools of the workload came in time, so those that did are given back",
    Reason.CHECK_REJECTED: "the workload can never be served",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """A suspended workload in one of Kueue's queues with our check."""

    workload: QueuedWorkload
    state: CheckState
    seconds: int
    """For how long a part of its pools is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What Kueue says of a workload now."""

    queue: Queue = Queue.NONE
    owner: WorkloadView | None = None
    """As Kueue will resume it; None to take it as it is."""
    queued: Queued | None = None
    lost_at: float = 0.0
    retried: bool = False
    refusal: str = ""
    """Why the owner can never be resumed."""


def read_standing(key: Key, workload: WorkloadView, ports: Ports) -> Standing:
    """Return what Kueue says of a suspended workload; nothing where the check is not switched on.

    Raises:
        ProvisionerError: it could not be read.
    """
    queues = ports.queues.get(key.cluster)
    kind = find_kind(workload.kind)
    if queues is None or not workload.suspended or kind is None or kind.pod_sets is None:
        return Standing()
    checks = {check.name: check for check in queues.list_checks() if not check.problem}
    for each in queues.list_owned(workload.namespace, workload.uid):
        state = next((state for state in each.checks if state.name in checks), None)
        if state is None:
            continue
        if not each.holds_quota:
            return Standing(
                queue=Queue.WAITS, lost_at=each.reserved_at or 0.0, retried=state.state == "Retry"
            )
        return _read_owner(queues, each, state, checks[state.name], workload)
    return Standing()


def _read_owner(
    queues: Queues, queued: QueuedWorkload, state: CheckState, check: Check, workload: WorkloadView
) -> Standing:
    try:
        seconds = find_seconds(workload.marks, labels.CAPACITY_CHECK_SECONDS, check.seconds)
        owner = queues.view_owner(queued)
    except Rejected as error:
        known = Queued(workload=queued, state=state, seconds=check.seconds)
        return Standing(queue=Queue.QUOTA, queued=known, refusal=str(error))
    return Standing(
        queue=Queue.QUOTA, owner=owner, queued=Queued(workload=queued, state=state, seconds=seconds)
    )


def answer_check(result: Result, ports: Ports) -> list[Outcome]:
    """Tell Kueue what the plan says of our check, if that is new; nothing while a stop holds.

    Raises:
        ProvisionerError: Kueue could not be told; a later look tells it.
    """
    look, queues = result.look, ports.queues.get(result.look.key.cluster)
    queued = look.standing.queued
    if queues is None or queued is None or look.scene.stop:
        return []
    reasons = [answer.reason for answer in result.plan.answers if answer.reason in _STATES]
    word = _STATES[Reason(reasons[0])] if reasons else "Pending"
    message = _WORDS[Reason(reasons[0])] if reasons else _describe_wait(result)
    state = queued.state
    if (word, message) == (state.state, state.message):
        return []
    since = state.since if word == state.state else format_time(look.scene.now)
    told = dataclasses.replace(state, state=word, message=message, since=since)
    pause = find_pause(min(state.retries, 5)) if word == "Retry" else None
    queues.write_state(queued.workload, told, retry_seconds=pause)
    decision = Decision(
        Verdict.KEEP, Reason(reasons[0]) if reasons else Reason.POOL_IN_PROGRESS, message
    )
    facts = {"check": state.name, "state": word}
    return [
        Outcome(
            decision=decision, cluster=look.key.cluster, subject=str(queued.workload), facts=facts
        )
    ]


def _describe_wait(result: Result) -> str:
    said = [str(answer.reason) for answer in result.plan.answers]
    made = len(result.look.scene.pools)
    return f"{made} node pools exist or come" + (
        f"; it waits: {', '.join(sorted(set(said)))}" if said else ""
    )


def mark_checks(cluster: str, ports: Ports) -> list[tuple[str, Exception]]:
    """Say of each check that it is answered; return the errors."""
    queues, errors = ports.queues.get(cluster), list[tuple[str, Exception]]()
    if queues is None:
        return []
    for check in queues.list_checks():
        mark = partial(queues.mark_active, check)
        try:
            if not check.is_told:
                mark()
        except ProvisionerError as error:
            errors.append((f"AdmissionCheck {check.name}", error))
    return errors


def list_queued(cluster: str, ports: Ports) -> list[tuple[str, str, str]]:
    """Return the owners of Workloads with quota whose check of ours is Pending, the oldest first."""
    queues = ports.queues.get(cluster)
    if queues is None:
        return []
    names = {check.name for check in queues.list_checks() if not check.problem}
    waits = [
        each for each in queues.list_workloads() if each.holds_quota and each.find_pending(names)
    ]
    ordered = sorted(waits, key=lambda each: each.reserved_at or 0.0)
    return [(each.owner_kind, each.namespace, each.owner_name) for each in ordered]
