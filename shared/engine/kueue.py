"""What Kueue says of a workload in one of its queues with our check, and what it is told.

A check is answered for all slices of a workload or for none: it is Ready when all pools of it run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import structs

from shared.engine.look import Look, Standing
from shared.engine.outside import Ports, Queues
from shared.engine.tell import Outcome, find_error
from shared.kinds.table import find_kind
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import Rejected
from shared.model.kueue import Check, CheckState, QueuedWorkload, find_seconds
from shared.model.times import format_time
from shared.model.workloads import WorkloadView
from shared.plan.attempts import find_pause
from shared.plan.counting import Census
from shared.plan.scene import Plan, Queue

_READY, _RETRY, _REJECTED, _PENDING = "Ready", "Retry", "Rejected", "Pending"
_STATES = {
    Reason.CHECK_READY: (_READY, "all node pools of the workload run"),
    Reason.CHECK_RETRY: (
        _RETRY,
        "not all node pools of the workload came in time, so those that did are given back",
    ),
    Reason.CHECK_REJECTED: (_REJECTED, "the workload can never be served"),
}
"""What each answer of the plan is to Kueue."""
_REASONS = {state: reason for reason, (state, _) in _STATES.items()}
_ELSEWHERE = "another controller runs this workload in another cluster (spec.managedBy)"
_NO_CHECK = (
    "node pools for workloads of this kind are created when their pods wait; take this admission "
    "check out of their queue"
)
WRITE_SECONDS = 10.0


def read_standing(cluster: str, workload: WorkloadView, ports: Ports) -> Standing:
    """Return what Kueue says of a suspended workload."""
    queues = ports.queues[cluster]
    if not workload.suspended or not is_answered(workload.kind):
        return Standing()
    for each in queues.list_owned(workload.namespace, workload.uid):
        checks = _list_checks(queues)  # one Workload, or none where Kueue is not installed
        state = next((state for state in each.checks if state.name in checks), None)
        if state and not each.holds_quota:
            lost_at, retried = each.lost_at or 0.0, state.state == _RETRY
            return Standing(queue=Queue.WAITS, lost_at=lost_at, retried=retried)
        if state:
            seconds = checks[state.name].seconds
            standing = Standing(queue=Queue.WAITS, queued=each, check=state, seconds=seconds)
            return _read_owner(standing, workload, queues)
    return Standing()


def _list_checks(queues: Queues) -> Mapping[str, Check]:
    """Return the checks that can be answered, by name."""
    return {check.name: check for check in queues.list_checks() if not check.problem}


def _read_owner(standing: Standing, workload: WorkloadView, queues: Queues) -> Standing:
    """Return what Kueue says with the owner as it will resume it; or why that cannot be served."""
    if workload.managed_elsewhere or standing.queued is None:
        return structs.replace(standing, answer=(_RETRY, _ELSEWHERE))
    try:
        seconds = find_seconds(workload.marks, labels.CAPACITY_CHECK_SECONDS, standing.seconds)
    except Rejected as error:
        return structs.replace(standing, answer=(_REJECTED, str(error)))
    try:
        owner = queues.view_owner(standing.queued)
    except Rejected as error:  # of a flavor: Kueue may choose another one
        return structs.replace(standing, answer=(_RETRY, str(error)))
    return structs.replace(standing, queue=Queue.QUOTA, owner=owner, seconds=seconds)


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
    return kind is not None and kind.queued


def tend_checks(
    cluster: str, queued: Sequence[QueuedWorkload], ports: Ports
) -> list[tuple[str, Exception]]:
    """Say of each check whether it is answered, and give back the quota of other kinds, with words.

    What could not be written is returned; one object stops no other.
    """
    queues = ports.queues.get(cluster)
    if queues is None:
        return []
    checks, now = queues.list_checks(), ports.clock.now()
    writes = {
        check.name: partial(queues.mark_active, check) for check in checks if not check.is_marked
    }
    names = [check.name for check in checks if not check.problem]
    for each in queued:
        state = None if is_answered(each.owner.kind) else each.find_pending(names)
        if state:
            writes[str(each)] = partial(_write, queues, each, state, (_RETRY, _NO_CHECK), now=now)
    return list(ports.crew.run_each(writes, seconds=WRITE_SECONDS)[1].items())


def _write(
    queues: Queues,
    queued: QueuedWorkload,
    before: CheckState,
    answer: tuple[str, str],
    *,
    now: float,
) -> None:
    """Write the state of a check with its message."""
    state, message = answer
    since = before.since if state == before.state else format_time(now)
    pause = find_pause(before.retries) if state == _RETRY else None
    changed = structs.replace(before, state=state, message=message, since=since)
    queues.write_state(queued, changed, retry_seconds=pause)


def answer_check(look: Look, plan: Plan, ports: Ports) -> list[Outcome]:
    """Tell Kueue what the plan says of our check, if that is new; nothing while a stop holds."""
    queues, queued = ports.queues.get(look.key.cluster), look.standing.queued
    check = look.standing.check
    if queues is None or queued is None or check is None or look.scene.stop:
        return []
    state, message = _choose_state(look, plan)
    if (state, message) == (check.state, check.message):
        return []
    _write(queues, queued, check, (state, message), now=look.scene.now)
    reason = _REASONS.get(state, Reason.POOL_IN_PROGRESS)
    return [
        Outcome(
            decision=Decision(Verdict.KEEP, reason, message),
            cluster=look.key.cluster,
            subject=str(queued),
            facts={"check": check.name, "state": state},
        )
    ]


def _choose_state(look: Look, plan: Plan) -> tuple[str, str]:
    """Return the state of our check, and its message."""
    if look.standing.answer:
        return look.standing.answer
    states = [_STATES[each.reason] for each in plan.answers if each.reason in _STATES]
    if not states:
        return _PENDING, _describe_wait(look, plan)
    state, message = states[0]
    causes = [need.never.message for need in look.scene.needs if need.never]
    error = find_error(look) if state == _RETRY else ""
    return state, "; ".join([message, *causes, *([f"GKE says: {error}"] if error else [])])


def _describe_wait(look: Look, plan: Plan) -> str:
    """Return why the check is pending. It changes only when something happened."""
    total = sum(1 if need.elastic else need.most for need in look.scene.needs)
    text = f"{len(Census(look.scene).counted)} of {total} node pools exist or come"
    causes = sorted({str(answer.reason) for answer in plan.answers})
    return f"{text}; it waits: {', '.join(causes)}" if causes else text
