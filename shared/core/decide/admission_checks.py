"""Decides what to report to Kueue about the capacity of a workload that has quota. Pure."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from shared.core.decide.attempts import find_pause
from shared.core.decide.gangs import NO_CAPACITY, is_refused_by_gke, plan_gang
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.demand.node_selectors import find_region
from shared.core.kinds.table import KINDS, find_kind
from shared.core.settings import Settings
from shared.core.shapes.room import DISK_GB_MAX

if TYPE_CHECKING:
    from collections.abc import Collection

    from shared.core.decide.gangs import GangAnswer
    from shared.core.kueue import QueuedWorkload
    from shared.core.workloads import WorkloadView

_RETRIES_MAX = 30


class Word(StrEnum):
    """The states of a check, in Kueue's words."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    """Kueue takes the quota back, and tries again later."""
    REJECTED = "Rejected"
    """Kueue deactivates the workload, until a person changes it."""


def refuse_owner(queued: QueuedWorkload, kinds: Collection[str]) -> Decision | None:
    """Return why the owner of a Workload gets no node pools before it has pods; None if it may."""
    kind = find_kind(queued.owner_kind)
    group = queued.owner_api.rpartition("/")[0]
    able = kind is not None and kind.group == group and kind.pod_sets is not None
    if kind is not None and able and kind.name in kinds:
        return None
    served = [each.name for each in KINDS if each.pod_sets is not None and each.name in kinds]
    owner = f"{queued.owner_kind} ({queued.owner_api})" if queued.owner_kind else "a Workload without an owner"
    message = (
        f"no node pools are made before the pods of {owner} exist; valid: {', '.join(served) or 'none'}; let its "
        "queue do without this check"
    )
    return Decision(Verdict.REFUSE, Reason.KIND_NOT_SERVED if able else Reason.OWNER_KIND_UNKNOWN, message)


def find_final(cluster: str, owner: WorkloadView, settings: Settings) -> Decision | None:
    """Return why the spec of an owner is refused under any settings; None if it is not.

    The owner is as Kueue will resume it, or as without its flavors. What was read of its disks does
    not count.
    """
    known = settings.clusters[cluster]
    widest = Settings(
        clusters={cluster: replace(known, zone=known.zone or f"{find_region(cluster)}-a")},
        allowed_node_service_accounts=("*",),
        allowed_node_networks=("*",),
        allowed_shared_reservations=("*",),
        idle_seconds_max=604_800,
        force_on_demand=True,
        node_daemonsets_cpu_millis=0,
        node_daemonsets_memory_mib=0,
        node_disk_size_gb_max=DISK_GB_MAX,
    )
    alone = plan_gang(cluster, owner, widest)
    return alone if isinstance(alone, Decision) and alone.reason != Reason.WORKLOAD_OVER else None


def decide_telling(told: str) -> Decision:
    """Return the decision to tell Kueue something about a check, as the mode may forbid it."""
    return Decision(Verdict.KEEP, Reason.OWNER_LIVE, f"telling Kueue that {told}")


def answer_gang(
    answer: GangAnswer, *, final: bool = False, uid: str, retries: int, now: float
) -> tuple[Word, int | None]:
    """Return what Kueue is told after the pools of all slices were made or looked at.

    A pause of one slice says that its list of capacity is through. Kueue is told to try again after
    some seconds, so that the quota and the pools of the other slices are free for other workloads
    meanwhile. What we refuse keeps both while some slices have pools.

    Args:
        answer: what came of the slices.
        final: whether the spec alone is refused, whatever the settings are.
        uid: of the Workload.
        retries: how often the check has been Retry.
        now: unix seconds.
    """
    decision = answer.decision
    starved = [made for _, made in answer.slices if made.decision.reason in NO_CAPACITY]
    pauses = [made.next_at - now for made in starved if made.next_at is not None]
    refused = is_refused_by_gke(decision) or (decision.verdict == Verdict.REFUSE and not answer.held)
    rows = (
        (answer.ready or decision.reason == Reason.NOT_AN_ACCELERATOR_DEMAND, Word.READY),
        (final, Word.REJECTED),
        (answer.ended or refused or bool(pauses), Word.RETRY),
    )
    word = next((word for holds, word in rows if holds), Word.PENDING)
    pause = max(*pauses, 0.0, find_pause(uid, min(retries, _RETRIES_MAX)))
    return word, math.ceil(pause) if word == Word.RETRY else None
