"""Answers Kueue's admission check `shared.core.kueue.CONTROLLER`: pools, and then pods.

A workload that has quota gets node pools for all of its slices. When all of them run, Kueue is told
that the check is Ready, and resumes the workload.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.decide.admission_checks import Word, answer_gang, decide_telling, find_final, refuse_owner
from shared.core.decide.demands import refuse_rejected
from shared.core.decide.gangs import CapacityRequest, GangAnswer, plan_gang
from shared.core.decisions import Decision, Reason
from shared.core.errors import Rejected
from shared.core.identity.pools import LOST
from shared.core.kueue import find_seconds
from shared.core.times import format_time
from shared.engine.changes import tell_queue
from shared.engine.looks.gather import add_disks
from shared.engine.looks.side_by_side import take_some
from shared.engine.steps.gang_pools import describe_slices, give_pools
from shared.engine.tell import Outcome, explain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.core.kueue import Check, CheckState, QueuedWorkload
    from shared.core.ports import Queues
    from shared.core.workloads import WorkloadView
    from shared.engine.looks.look import Look

QUEUED_MAX = 1_000
"""The most workloads that one sweep answers. Of more, each sweep takes others."""
Answered = list[tuple[str, "Sequence[Outcome] | Exception"]]


def answer_queues(look: Look) -> Answered:
    """Answer all workloads that wait for our check; return what came of each, or its error.

    It answers none where the check is not switched on. The error of a check that could not be
    marked as active is among them. The workload that got its quota first comes first, because a
    limit may have room for one of them.

    Raises:
        ProvisionerError: checks or workloads could not be listed.
    """
    queues = look.ports.queues.get(look.cluster)
    if queues is None:
        return []
    checks, answered = queues.list_checks(), Answered()
    for check in checks:
        try:
            if not check.is_told:
                act = decide_telling(f"AdmissionCheck {check.name} is seen")
                tell_queue(look, "", act, partial(queues.mark_active, check))
        except Exception as error:  # noqa: BLE001 -- the net of this check
            answered.append((f"AdmissionCheck {check.name}", error))
    pending = _list_pending(queues.list_workloads() if checks else (), checks)
    found = take_some(pending, QUEUED_MAX, now=look.now())
    found.sort(key=lambda each: (each[0].reserved_at or 0.0, str(each[0])))
    done = look.run([partial(_admit, look, queues, *each) for each in found])
    return answered + [(str(queued), each) for (queued, *_), each in zip(found, done, strict=True)]


def _admit(look: Look, queues: Queues, queued: QueuedWorkload, state: CheckState, seconds: int) -> list[Outcome]:
    """Answer one workload; the outcomes are empty if its owner is gone.

    It was read just now and has quota; `state` is that of our check. A part of the pools is held
    for `seconds` if the owner does not say it.

    Raises:
        Retryable: something could not be read, or has changed; a later look answers.
        Denied: a permission is missing.
    """
    owner, made, final = _give(look, queues, queued, state, seconds)
    if made is None:
        return []
    outcomes, decision = describe_slices(look, made), made.decision
    word, pause = answer_gang(made, final=final, uid=queued.uid, retries=state.retries, now=look.now())
    message = f"{decision.message} [{decision.reason}]"
    if (word, message) != (state.state, state.message):
        since = state.since if word == state.state else format_time(look.now())
        told = dataclasses.replace(state, state=str(word), message=message, since=since)
        write = partial(queues.write_state, queued, told, retry_seconds=pause)
        act = decide_telling(f"check {state.name} is {word}: {message}")
        decision = tell_queue(look, queued.namespace, act, write) or decision
    if word == Word.PENDING and outcomes:
        return outcomes
    if word != Word.PENDING or not made.slices:
        explain(look.live, decision, owner)
    facts = {"check": state.name, "state": str(word)}
    return [*outcomes, Outcome(decision=decision, cluster=look.cluster, subject=str(queued), facts=facts)]


def _give(
    look: Look, queues: Queues, queued: QueuedWorkload, state: CheckState, seconds: int
) -> tuple[WorkloadView | None, GangAnswer | None, bool]:
    """Return the owner as Kueue will resume it, what came of its slices, and if that is final.

    There is no answer if the owner is replaced or on its way out.
    """
    settings, owner = look.settings, None
    if refused := refuse_owner(queued, settings.kinds):
        return None, _refuse(look, queued, refused), refused.reason == Reason.OWNER_KIND_UNKNOWN
    try:
        owner = queues.view_owner(queued)
        if owner is None or owner.uid != queued.owner_uid or owner.deleting:
            return None, None, False
        seconds = find_seconds(owner.marks, labels.CAPACITY_CHECK_SECONDS, seconds)
    except Rejected as error:
        # Without an owner a flavor of the queue contradicts the spec.
        return owner, _refuse(look, queued, refuse_rejected(error)), owner is not None
    gang = plan_gang(look.cluster, add_disks(look, owner), settings)
    if isinstance(gang, Decision):
        final = find_final(look.cluster, owner, settings)
        bare = queues.view_owner(dataclasses.replace(queued, flavors={})) if final else None
        alike = bare is not None and find_final(look.cluster, bare, settings) == final
        return owner, _refuse(look, queued, gang), alike
    request = CapacityRequest(seconds=seconds, round=state.retries, begins_at=queued.reserved_at)
    look.figures.add_gang(gang, look.pools.list(), since=request.begins_at, now=look.now())
    return owner, give_pools(look, gang, owner, request), False


def _refuse(look: Look, queued: QueuedWorkload, decision: Decision) -> GangAnswer:
    owned = look.pools.list().list_owned(queued.owner_uid)
    return GangAnswer(decision=decision, held=any(pool.status not in LOST for pool in owned))


def answer_reserved(look: Look, workload: WorkloadView) -> list[Outcome]:
    """Answer our check of a suspended workload that has quota of Kueue; empty without one.

    The workload is as it was read just now.

    Raises:
        Retryable: something could not be read, or has changed; deliver the message again.
        Denied: a permission is missing.
    """
    queues = look.ports.queues.get(look.cluster)
    if queues is None or not workload.suspended:
        return []
    reserved = [each for each in queues.list_owned(workload.namespace, workload.uid) if each.holds_quota]
    found = _list_pending(reserved, queues.list_checks()) if reserved else []
    return [outcome for each in found for outcome in _admit(look, queues, *each)]


def _list_pending(
    workloads: Iterable[QueuedWorkload], checks: Iterable[Check]
) -> list[tuple[QueuedWorkload, CheckState, int]]:
    """Return the workloads with quota for which one of our checks is Pending.

    Each comes with the state of the check, and for how long that lets a part of the pools be held.
    """
    known = {check.name: check.seconds for check in checks if not check.problem}
    return [
        (each, state, known[state.name])
        for each in workloads
        if each.holds_quota and (state := each.find_pending(known))
    ]
