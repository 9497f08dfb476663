"""Answers Kueue's admission check: capacity before pods, for all slices of a workload or for none.

A workload with quota is looked at as Kueue will resume it. Its pools are made by the same plan as
any other; when all of them run, Kueue is told Ready.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.engine.tell import Outcome
from shared.kinds.table import find_kind
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import ProvisionerError, Rejected
from shared.model.kueue import find_seconds
from shared.model.times import format_time
from shared.plan.attempts import find_pause
from shared.plan.counting import Census
from shared.plan.scene import Queue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.engine.look import Key, Look
    from shared.engine.outside import Ports, Queues
    from shared.engine.reconcile import Result
    from shared.model.kueue import Check, CheckState, QueuedWorkload
    from shared.model.workloads import WorkloadView
    from shared.plan.scene import Act

_READY, _RETRY, _REJECTED, _PENDING = "Ready", "Retry", "Rejected", "Pending"
_STATES = {
    Reason.CHECK_READY: (_READY, "all node pools of the workload run"),
    Reason.CHECK_RETRY: (
        _RETRY,
        "not all node pools of the workload came in time, so those that did are given back",
    ),
    Reason.CHECK_REJECTED: (_REJECTED, "the workload can never be served"),
}
_REASONS = {state: reason for reason, (state, _) in _STATES.items()}
_ELSEWHERE = "another controller runs this workload in another cluster (spec.managedBy)"
_NO_CHECK = (
    "node pools for workloads of this kind are created when their pods wait; take this admission "
    "check out of their queue"
)


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
    plain: WorkloadView | None = None
    """As its author wrote it."""
    queued: Queued | None = None
    lost_at: float = 0.0
    retried: bool = False
    refusal: str = ""
    """Why the spec can never be resumed."""
    unserved: str = ""
    """Why the check cannot be answered now, though another flavor or queue may serve the spec."""


def read_standing(key: Key, workload: WorkloadView, ports: Ports) -> Standing:
    """Return what Kueue says of a suspended workload; nothing where the check is off."""
    queues = ports.queues.get(key.cluster)
    if queues is None or not workload.suspended or not is_answered(workload.kind):
        return Standing()
    checks = _list_checks(queues)
    for each in queues.list_owned(workload.namespace, workload.uid):
        state = next((state for state in each.checks if state.name in checks), None)
        if state is None:
            continue
        if not each.holds_quota:
            lost_at, retried = each.reserved_at or 0.0, state.state == _RETRY
            return Standing(queue=Queue.WAITS, lost_at=lost_at, retried=retried)
        return _read_owner(queues, each, state, checks[state.name].seconds, workload)
    return Standing()


def _list_checks(queues: Queues) -> Mapping[str, Check]:
    """Return the checks that can be answered, by name."""
    return {check.name: check for check in queues.list_checks() if not check.problem}


def _read_owner(
    queues: Queues, queued: QueuedWorkload, state: CheckState, seconds: int, workload: WorkloadView
) -> Standing:
    known = Queued(workload=queued, state=state, seconds=seconds)
    if workload.managed_elsewhere:
        return Standing(queue=Queue.WAITS, queued=known, unserved=_ELSEWHERE)
    try:
        seconds = find_seconds(workload.marks, labels.CAPACITY_CHECK_SECONDS, seconds)
    except Rejected as error:
        return Standing(queue=Queue.WAITS, queued=known, refusal=str(error))
    try:
        owner = queues.view_owner(queued)
    except Rejected as error:  # of a flavor: Kueue may choose another one
        return Standing(queue=Queue.WAITS, queued=known, unserved=str(error))
    known = dataclasses.replace(known, seconds=seconds)
    return Standing(queue=Queue.QUOTA, owner=owner, plain=workload, queued=known)


def count_rest(look: Look, acts: Sequence[Act]) -> int:
    """Return the chips that a gang which began lacks beside its pools and what is sent now."""
    scene, created = look.scene, Counter(act.need for act in acts)
    if not acts and not scene.pools:
        return 0
    lacking = Counter(want.need.key for want in Census(scene).demanded.unserved)
    return sum(
        max(0, lacking[need.key] - created[need.key]) * need.hosts * need.chips
        for need in scene.needs
    )


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
        return _RETRY, standing.unserved
    if standing.refusal:
        return _REJECTED, standing.refusal
    told = [_STATES[Reason(each.reason)] for each in result.plan.answers if each.reason in _STATES]
    if not told:
        return _PENDING, _describe_wait(result)
    state, message = told[0]
    never = [need.never.message for need in look.scene.needs if need.never]
    return state, "; ".join([message, *never])


def _write(queues: Queues, queued: Queued, told: tuple[str, str], look: Look) -> list[Outcome]:
    """Write the state of a check unless it says that already."""
    (name, message), state = told, queued.state
    if (name, message) == (state.state, state.message):
        return []
    since = state.since if name == state.state else format_time(look.scene.now)
    changed = dataclasses.replace(state, state=name, message=message, since=since)
    pause = find_pause(state.retries) if name == _RETRY else None
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


def mark_checks(cluster: str, ports: Ports) -> list[tuple[str, Exception]]:
    """Say of each check that it is answered, or why not; return the errors."""
    queues, errors = ports.queues.get(cluster), list[tuple[str, Exception]]()
    if queues is None:
        return []
    try:
        for check in queues.list_checks():
            if not check.is_told:
                queues.mark_active(check)
    except ProvisionerError as error:
        errors.append((f"AdmissionChecks of {cluster}", error))
    return errors


def list_queued(cluster: str, ports: Ports) -> list[QueuedWorkload]:
    """Return the Workloads with quota whose check of ours is Pending, the oldest first."""
    queues = ports.queues.get(cluster)
    if queues is None:
        return []
    names = _list_checks(queues)
    waits = [
        each for each in queues.list_workloads() if each.holds_quota and each.find_pending(names)
    ]
    return sorted(waits, key=lambda each: each.reserved_at or 0.0)


def is_answered(name: str) -> bool:
    """Return whether workloads of a kind get their pools before their pods."""
    kind = find_kind(name)
    return kind is not None and kind.pod_sets is not None


def refuse_checks(
    cluster: str, others: Iterable[QueuedWorkload], ports: Ports
) -> list[tuple[str, Exception]]:
    """Give back the quota of Workloads of other kinds, with words; return the errors."""
    queues, errors = ports.queues[cluster], list[tuple[str, Exception]]()
    names, now = _list_checks(queues), format_time(ports.clock.now())
    for queued in others:
        state = queued.find_pending(names)
        if state is None:
            continue
        told = dataclasses.replace(state, state=_RETRY, message=_NO_CHECK, since=now)
        try:
            queues.write_state(queued, told, retry_seconds=find_pause(state.retries))
        except ProvisionerError as error:
            errors.append((str(queued), error))
    return errors
