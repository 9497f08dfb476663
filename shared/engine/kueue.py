"""What Kueue says of a workload in one of its queues with our check, and what it is told.

A check is answered for all slices of a workload or for none: it is Ready when all pools of it run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec import structs

from shared.engine.budget import WorkloadName
from shared.engine.look import Look, Standing
from shared.engine.outside import Ports, Queues
from shared.engine.tell import CHECKS, Outcome, find_error, say
from shared.kinds.table import find_kind
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import Rejected
from shared.model.times import format_time, read_seconds
from shared.model.workloads import Check, CheckState, QueuedWorkload, WorkloadView
from shared.plan.attempts import find_pause
from shared.plan.counting import Census
from shared.plan.scene import Plan

_STATES = {
    Reason.CHECK_READY: "Ready",
    Reason.CHECK_RETRY: "Retry",
    Reason.CHECK_REJECTED: "Rejected",
    Reason.POOL_IN_PROGRESS: "Pending",
}
"""What each answer of the plan is to Kueue."""
_RETRY = _STATES[Reason.CHECK_RETRY]
_ELSEWHERE = "another controller runs this workload in another cluster (spec.managedBy)"
_NO_CHECK = (
    "node pools for workloads of this kind are created when their pods wait; take this admission "
    "check out of their queue"
)
WRITE_SECONDS = 10.0
SECONDS, SECONDS_MIN, SECONDS_MAX = 1800, 60, 86_400
"""For how long a part of the pools is held, from the creation of the first: by default, and the
bounds. A creation that ends in a stockout takes up to 35 minutes."""


def read_standing(cluster: str, workload: WorkloadView, ports: Ports) -> Standing:
    """Return what Kueue says of a suspended workload."""
    queues = ports.queues[cluster]
    if not workload.suspended or not is_answered(workload.kind):
        return Standing()
    for each in queues.list_owned(workload.namespace, workload.uid):
        # There is one Workload, or none where Kueue is not installed.
        names = {check.name for check in queues.list_checks()}
        check = each.find_check(names)
        if check is None:
            continue
        if each.holds_quota:
            return _read_owner(Standing(queued=each, check=check), each, workload, queues)
        retried = any(state.name in names and state.state == _RETRY for state in each.checks)
        return Standing(lost_at=each.lost_at or 0.0, retried=retried)
    return Standing()


def _read_owner(
    standing: Standing, queued: QueuedWorkload, workload: WorkloadView, queues: Queues
) -> Standing:
    """Return what Kueue says with the owner as it will resume it; or why that cannot be served."""
    if workload.managed_elsewhere:
        return structs.replace(standing, answer=(Reason.CHECK_RETRY, _ELSEWHERE))
    reason = Reason.CHECK_REJECTED
    try:
        text = workload.marks.get(labels.CAPACITY_CHECK_SECONDS, str(SECONDS))
        field = f"annotation {labels.CAPACITY_CHECK_SECONDS}"
        seconds = read_seconds(text, field, least=SECONDS_MIN, most=SECONDS_MAX)
        reason = Reason.CHECK_RETRY  # of a flavor: Kueue may choose another one
        owner = queues.view_owner(queued)
    except Rejected as error:
        return structs.replace(standing, answer=(reason, str(error)))
    return structs.replace(standing, owner=owner, seconds=seconds)


def list_queued(queues: Queues, checks: Sequence[Check]) -> list[tuple[QueuedWorkload, CheckState]]:
    """Return the Workloads with quota of which one of these checks is Pending, the oldest first."""
    names = {check.name for check in checks}
    held = (each for each in queues.list_workloads() if each.holds_quota)
    pairs = ((each, each.find_check(names)) for each in held)
    waits = [(each, state) for each, state in pairs if state and state.state == "Pending"]
    return sorted(waits, key=lambda pair: pair[0].reserved_at or 0.0)


def is_answered(name: str) -> bool:
    """Return whether workloads of a kind get their pools before their pods."""
    kind = find_kind(name)
    return kind is not None and kind.queued


def tend_checks(
    cluster: str, ports: Ports
) -> tuple[list[WorkloadName], list[tuple[str, Exception]]]:
    """Return the workloads that wait for our checks, and what could not be written.

    Each check gets the word that it is answered; other kinds give back their quota, with words. One
    object stops no other.
    """
    queues, names, now = ports.queues[cluster], list[WorkloadName](), ports.clock.now()
    checks = queues.list_checks()
    writes = {each.name: partial(queues.mark_active, each) for each in checks if not each.active}
    for each, state in list_queued(queues, checks):
        if is_answered(each.owner.kind):
            names.append((each.owner.kind, each.namespace, each.owner.name))
        else:
            writes[str(each)] = partial(_write, queues, each, state, (_RETRY, _NO_CHECK), now)
    return names, list(ports.crew.run_each(writes, seconds=WRITE_SECONDS)[1].items())


def _write(
    queues: Queues, queued: QueuedWorkload, before: CheckState, answer: tuple[str, str], now: float
) -> None:
    """Write the state of a check with its message."""
    state, message = answer
    since = before.since if state == before.state else format_time(now)
    pause = find_pause(before.retries) if state == _RETRY else None
    changed = structs.replace(before, state=state, message=message, since=since)
    queues.write_state(queued, changed, retry_seconds=pause)


def answer_check(look: Look, plan: Plan, ports: Ports) -> list[Outcome]:
    """Tell Kueue what the plan says of our check, if that is new; nothing while a stop holds."""
    queued, check, cluster = look.standing.queued, look.standing.check, look.key.cluster
    if queued is None or check is None or look.scene.stop:
        return []
    reason, message = look.standing.answer or _explain(look, plan)
    answer = _STATES[reason], message
    if answer == (check.state, check.message):
        return []
    _write(ports.queues[cluster], queued, check, answer, look.now)
    facts = {"check": check.name, "state": answer[0]}
    decision = Decision(Verdict.KEEP, reason, message)
    return [Outcome(decision=decision, cluster=cluster, subject=str(queued), facts=facts)]


def _explain(look: Look, plan: Plan) -> tuple[Reason, str]:
    """Return what our check is told. It changes only when something happened."""
    reason = next((each.reason for each in plan.answers if each.reason in CHECKS), None)
    if reason is None:
        return Reason.POOL_IN_PROGRESS, _describe_wait(look, plan)
    causes = [need.never.message for need in look.scene.needs if need.never]
    error = find_error(look)
    if error and _STATES[reason] == _RETRY:
        causes.append(f"GKE says: {error}")
    return reason, "; ".join([say(reason).message, *causes])


def _describe_wait(look: Look, plan: Plan) -> str:
    total = sum(1 if need.elastic else need.most for need in look.scene.needs)
    text = f"{len(Census(look.scene).counted)} of {total} node pools exist or come"
    causes = sorted({str(answer.reason) for answer in plan.answers})
    return f"{text}; it waits: {', '.join(causes)}" if causes else text
