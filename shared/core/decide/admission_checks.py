"""Decides what to report to Kueue about the capacity of a workload that has quota. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from shared.core.decide.attempts import find_pause
from shared.core.decide.gangs import NO_CAPACITY, GangState
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.kinds.table import KINDS, find_kind

if TYPE_CHECKING:
    from collections.abc import Collection

    from shared.core.decide.gangs import GangAnswer
    from shared.core.kueue import QueuedWorkload

_RETRIES_MAX = 30
_NEVER = frozenset(
    {
        Reason.SHAPE_UNSUPPORTED,
        Reason.GPU_UNKNOWN,
        Reason.SLICE_UNKNOWN,
        Reason.POD_CONTRADICTS_SPEC,
        Reason.OWNER_KIND_UNKNOWN,
        Reason.KIND_NOT_SERVED,
        Reason.SLICES_MAY_MIX,
        Reason.HOSTS_DIFFER,
        Reason.SELECTOR_UNSUPPORTED,
        Reason.CAPACITY_CONFLICT,
        Reason.REQUEST_NOT_ALLOWED,
        Reason.LABELS_OVER_BUDGET,
        Reason.NAME_UNFIT,
        Reason.ZONE_MISSING,
        Reason.IDENTITY_MISMATCH,
        Reason.DEMAND_OPTED_OUT,
        Reason.DEMAND_BOUND_ELSEWHERE,
        Reason.DEMAND_LEFT_TO_GKE,
        Reason.REQUEST_INVALID,
    }
)
"""What the same workload meets each time, until its spec or a setting changes."""


class Word(StrEnum):
    """The states of a check, in Kueue's words."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    """Kueue takes the quota back, and tries again later."""
    REJECTED = "Rejected"
    """Kueue deactivates the workload, until a person changes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAnswer:
    """What Kueue is told about one workload."""

    word: Word
    decision: Decision
    retry_seconds: int | None = None


def refuse_owner(queued: QueuedWorkload, kinds: Collection[str]) -> Decision | None:
    """Return why the owner of a Workload gets no node pools before it has pods; None if it may."""
    kind = find_kind(queued.owner_kind)
    group = queued.owner_api.rpartition("/")[0]
    able = kind is not None and kind.group == group and kind.pod_sets is not None
    if kind is not None and able and kind.name in kinds:
        return None
    served = [each.name for each in KINDS if each.pod_sets is not None and each.name in kinds]
    said = f"{queued.owner_kind} ({queued.owner_api})" if queued.owner_kind else "a Workload without an owner"
    child = next((kind.name for kind in KINDS for each in kind.parents if each.name == queued.owner_kind), "")
    why = f": it makes its {child} when it is resumed, and node pools need the UID of that" if child else ""
    message = (
        f"no node pools are made before the pods of {said} exist{why}; valid: {', '.join(served) or 'none'}; let "
        "its queue do without this check"
    )
    return Decision(Verdict.REFUSE, Reason.KIND_NOT_SERVED if able else Reason.OWNER_KIND_UNKNOWN, message)


def answer_decision(decision: Decision, *, uid: str, retries: int) -> CheckAnswer:
    """Return the answer where nothing was tried for any slice, or all is given back.

    Args:
        decision: why.
        uid: of the Workload; the jitter of the pause is a pure function of it.
        retries: how often the check has been Retry.
    """
    if decision.reason == Reason.NOT_AN_ACCELERATOR_DEMAND:
        return CheckAnswer(word=Word.READY, decision=decision)
    if decision.reason in _NEVER:
        return CheckAnswer(word=Word.REJECTED, decision=decision)
    return _retry(decision, uid=uid, retries=retries, least=0.0)


def answer_gang(answer: GangAnswer, *, uid: str, retries: int, now: float) -> CheckAnswer:
    """Return the answer after the pools of all slices were made or looked at.

    A pause of one slice says that its list of capacity is through. Kueue is told to try again, so
    that the quota and the pools of the other slices are free for other workloads meanwhile. What we
    refuse keeps both while some slices have pools.

    Args:
        answer: what came of the slices.
        uid: of the Workload.
        retries: how often the check has been Retry.
        now: unix seconds.
    """
    if answer.state == GangState.READY:
        return CheckAnswer(word=Word.READY, decision=answer.decision)
    if answer.state in (GangState.REFUSED, GangState.ENDED):
        return answer_decision(answer.decision, uid=uid, retries=retries)
    starved = [made for _, made in answer.slices if made.decision.reason in NO_CAPACITY]
    pauses = [made.next_at - now for made in starved if made.next_at is not None]
    if pauses:
        return _retry(answer.decision, uid=uid, retries=retries, least=max(pauses))
    return CheckAnswer(word=Word.PENDING, decision=answer.decision)


def _retry(decision: Decision, *, uid: str, retries: int, least: float) -> CheckAnswer:
    pause = max(least, find_pause(uid, min(retries, _RETRIES_MAX)))
    return CheckAnswer(word=Word.RETRY, decision=decision, retry_seconds=math.ceil(pause))
