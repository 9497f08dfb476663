"""What Kueue says of a workload in one of its queues with our check, and which checks are ours."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from shared.engine.look import Queued, Standing
from shared.kinds.table import find_kind
from shared.model import labels
from shared.model.errors import ProvisionerError, Rejected
from shared.model.kueue import find_seconds
from shared.model.times import format_time
from shared.plan.attempts import find_pause
from shared.plan.scene import Queue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shared.engine.outside import Ports, Queues
    from shared.model.kueue import Check, CheckState, QueuedWorkload
    from shared.model.workloads import WorkloadView

RETRY = "Retry"
_ELSEWHERE = "another controller runs this workload in another cluster (spec.managedBy)"
_NO_CHECK = (
    "node pools for workloads of this kind are created when their pods wait; take this admission "
    "check out of their queue"
)


def read_standing(cluster: str, workload: WorkloadView, ports: Ports) -> Standing:
    """Return what Kueue says of a suspended workload; nothing where the check is off."""
    queues = ports.queues.get(cluster)
    if queues is None or not workload.suspended or not is_answered(workload.kind):
        return Standing()
    for each in queues.list_owned(workload.namespace, workload.uid):
        checks = _list_checks(queues)  # one Workload, or none where Kueue is not installed
        state = next((state for state in each.checks if state.name in checks), None)
        if state is None:
            continue
        if not each.holds_quota:
            lost_at, retried = each.lost_at or 0.0, state.state == RETRY
            return Standing(queue=Queue.WAITS, lost_at=lost_at, retried=retried)
        return _read_owner(queues, each, state, checks[state.name].seconds, workload)
    return Standing()


def _list_checks(queues: Queues) -> Mapping[str, Check]:
    """Return the checks that can be answered, by name."""
    return {check.name: check for check in queues.list_checks() if not check.problem}


def _read_owner(
    queues: Queues, queued: QueuedWorkload, state: CheckState, seconds: int, workload: WorkloadView
) -> Standing:
    entry = Queued(workload=queued, state=state, seconds=seconds)
    if workload.managed_elsewhere:
        return Standing(queue=Queue.WAITS, queued=entry, unserved=_ELSEWHERE)
    try:
        seconds = find_seconds(workload.marks, labels.CAPACITY_CHECK_SECONDS, seconds)
    except Rejected as error:
        return Standing(queue=Queue.WAITS, queued=entry, refusal=str(error))
    try:
        owner = queues.view_owner(queued)
    except Rejected as error:  # of a flavor: Kueue may choose another one
        return Standing(queue=Queue.WAITS, queued=entry, unserved=str(error))
    entry = dataclasses.replace(entry, seconds=seconds)
    return Standing(queue=Queue.QUOTA, owner=owner, plain=workload, queued=entry)


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
    return kind is not None and kind.queued


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
        answer = dataclasses.replace(state, state=RETRY, message=_NO_CHECK, since=now)
        try:
            queues.write_state(queued, answer, retry_seconds=find_pause(state.retries))
        except ProvisionerError as error:
            errors.append((str(queued), error))
    return errors
