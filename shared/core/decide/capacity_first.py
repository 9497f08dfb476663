"""Decides about a suspended workload that waits for its capacity, and resumes with it. Pure.

Its author asks for that by an annotation. Which round it is, when the round begins, and that it was
resumed are annotations of ours. They concern no other workload, so a forged one harms its author
only.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.counts import parse_count
from shared.core.decide.attempts import JITTER_SHARE, PAUSE_SECONDS_MAX, find_pause
from shared.core.decide.demands import find_claim
from shared.core.decide.filling import is_empty
from shared.core.decide.gangs import is_complete, plan_gang
from shared.core.decide.needed_pools import plan_pools, select_pools_of
from shared.core.decide.pool_facts import OwnerState
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.errors import NotAllowed
from shared.core.identity.pools import PoolStatus
from shared.core.kinds.table import SUSPENDABLE, get_kind, is_parent_kind, may_swap
from shared.core.kueue import SECONDS, SECONDS_MAX, SECONDS_MIN
from shared.core.settings import Mode
from shared.core.times import AHEAD_SECONDS_MAX, format_minute, format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from shared.core.decide.gangs import Gang
    from shared.core.decide.occupancy import Occupancy
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.settings import Settings
    from shared.core.workloads import PodView, WorkloadView

_ROUNDS_MAX = 9_999
_ROUND = re.compile(r"([0-9]{1,4}) from (\S{1,40})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a suspended workload asks for: node pools for all slices before it is resumed."""

    seconds: int
    """How long a part of them may be held."""
    round: int = 0
    begins_at: float | None = None
    """Unix seconds before which nothing is created; None if no round has begun yet."""

    def is_paused(self, now: float) -> bool:
        """Return whether its pause is not over; a time that cannot be true is none."""
        ahead = (self.begins_at or 0.0) - now
        return 0 < ahead <= PAUSE_SECONDS_MAX * (1 + JITTER_SHARE) + AHEAD_SECONDS_MAX


def is_asking(workload: WorkloadView) -> bool:
    """Return whether a workload has one of the annotations, and was not resumed by us before."""
    marks = workload.marks
    asks = marks.get(labels.CAPACITY_FIRST, "false") != "false" or labels.CAPACITY_FIRST_SECONDS in marks
    return asks and _find_mark(workload) not in marks


def _find_mark(workload: WorkloadView) -> str:
    """Return the annotation that says it was resumed. A workload has all those of its parent."""
    return labels.CAPACITY_FIRST_HANDED if is_parent_kind(workload.kind) else labels.CAPACITY_FIRST_RESUMED


def read_wish(workload: WorkloadView, settings: Settings) -> Wish | Decision | None:
    """Return what a workload asks for, or why that is refused; None if it asks for nothing now.

    A kind that cannot be suspended is refused at any time, any other only while it is suspended.
    Nothing is asked for a parent that has ended (`shared.perform.gather.see_parent` reads it).
    """
    able, over = workload.kind in SUSPENDABLE, workload.deleting or bool(workload.terminal)
    over = over or (workload.parent is not None and bool(workload.parent.ended))
    if not is_asking(workload) or (able and not workload.suspended) or over:
        return None
    try:
        return _read_wish(workload, settings, able=able)
    except NotAllowed as error:
        return Decision(Verdict.REFUSE, Reason(error.reason), str(error))


def _read_wish(workload: WorkloadView, settings: Settings, *, able: bool) -> Wish:
    marks = workload.marks
    value, asked = marks.get(labels.CAPACITY_FIRST, ""), marks.get(labels.CAPACITY_FIRST_SECONDS, str(SECONDS))
    seconds, (unfit, fit) = parse_count(asked), workload.unfit or ("", "")
    whose = f"annotation {labels.CAPACITY_FIRST}"
    rows = (
        (not able, whose, workload.kind, f"a {workload.kind} cannot be suspended", ", ".join(SUSPENDABLE)),
        (
            value != "true",
            whose,
            value or "no value",
            "not true or false",
            "true, false, or no annotation of these",
        ),
        (
            seconds is None or not SECONDS_MIN <= seconds <= SECONDS_MAX,
            f"annotation {labels.CAPACITY_FIRST_SECONDS}",
            asked,
            "not a number of seconds within the bounds",
            f"{SECONDS_MIN} to {SECONDS_MAX}",
        ),
        (
            marks.get(labels.DISABLE_AUTOPROVISIONING) == "true",
            whose,
            value,
            f"contradicts {labels.DISABLE_AUTOPROVISIONING}=true, which opts out of node pools",
            "one of the two",
        ),
        (
            labels.QUEUE_NAME in marks,
            whose,
            value,
            f"the label {labels.QUEUE_NAME} leaves it to a queue to resume the workload",
            "one of the two",
        ),
        (
            bool(workload.part_of),
            whose,
            value,
            f"{workload.part_of} controls this workload and decides whether it is suspended",
            "workloads that a person created",
        ),
        (bool(unfit), whose, value, unfit, fit),
        (
            not settings.capacity_first,
            whose,
            value,
            "the setting capacity_first is off, so the workload is not resumed and nothing is created",
            "no such annotation, or the setting and its role (docs/capacity.md)",
        ),
    )
    for holds, field, got, what, valid in rows:
        if holds:
            raise NotAllowed(what, field=field, value=got, valid=valid)
    number, begins_at = _read_round(marks.get(labels.CAPACITY_FIRST_ROUND, ""))
    return Wish(seconds=seconds or SECONDS, round=number, begins_at=begins_at)


def _read_round(text: str) -> tuple[int, float | None]:
    match = _ROUND.fullmatch(text)
    return (int(match[1]), parse_time(match[2])) if match else (0, None)


def find_wait(
    cluster: str, workload: WorkloadView, pools: Sequence[PoolSnapshot], settings: Settings, *, now: float
) -> OwnerState | None:
    """Return the state of the pools' owner while a suspended workload waits for its capacity.

    It is live during a round. In the pause after one its pools are deleted, unless the last one
    came good by now. None if it does not wait, so that it is as suspended as any other.
    """
    wish = read_wish(workload, settings)
    if not isinstance(wish, Wish):
        return None
    gang = plan_gang(cluster, workload, settings) if wish.is_paused(now) else None
    lacks = gang is not None and (isinstance(gang, Decision) or not is_complete(gang, pools))
    return OwnerState.RETURNING if lacks else OwnerState.LIVE


def write_round(number: int, begins_at: float) -> dict[str, str | None]:
    """Return the annotation that keeps the number of a round and when it begins."""
    return {labels.CAPACITY_FIRST_ROUND: f"{min(number, _ROUNDS_MAX)} from {format_time(begins_at)}"}


def end_round(workload: WorkloadView, number: int, now: float) -> dict[str, str | None]:
    """Return the annotation of the round after one that ended now, in unix seconds.

    The pause before it doubles from round to round, from one minute to thirty.
    """
    return write_round(number + 1, now + find_pause(workload.uid, number))


def write_resumed(workload: WorkloadView, now: float) -> dict[str, str | None]:
    """Return the annotations of a workload that is resumed now, in unix seconds."""
    return {_find_mark(workload): format_time(now), labels.CAPACITY_FIRST_ROUND: None}


def decide_pause(wish: Wish) -> Decision:
    """Return the decision in the pause before a round."""
    message = (
        "not all slices got their node pools in time, so all of them were deleted; "
        f"round {wish.round + 1} begins at {format_minute(wish.begins_at or 0.0)}"
    )
    return Decision(Verdict.WAIT, Reason.GANG_INCOMPLETE, message)


def decide_resumed(slices: int) -> Decision:
    """Return the decision to resume a workload whose slices all have their node pools."""
    message = "each of its slices has its node pool, so the workload is resumed" if slices > 1 else ""
    message = message or "its slice has its node pool, so the workload is resumed"
    return Decision(Verdict.KEEP, Reason.WORKLOAD_RESUMED, message)


def decide_handed(parent: WorkloadView) -> Decision:
    """Return the decision to resume a parent whose workload is suspended and waits in its place."""
    message = f"the {parent.kind} is resumed, and its own workload is suspended until all slices have node pools"
    return Decision(Verdict.KEEP, Reason.WORKLOAD_RESUMED, message)


def decide_begun(slices: int) -> Decision:
    """Return the decision to begin the first round."""
    message = f"the workload is resumed when each of its {slices} slices has its node pool"
    return Decision(Verdict.WAIT, Reason.POOL_ABSENT, message)


def decide_unasked(workload: str) -> Decision:
    """Return the decision about a workload that does not wait for its capacity, or is gone."""
    return Decision(Verdict.NOTHING, Reason.DEMAND_GONE, f"{workload} does not wait for its capacity")


def decide_mode(act: Decision, namespace: str, settings: Settings) -> Decision | None:
    """Return the decision that replaces a change of a workload; None when it may be done."""
    if settings.find_mode(namespace) != Mode.REPORT_ONLY:
        return None
    message = f"not done: {act.message}; the mode is report-only"
    return Decision(Verdict.KEEP, Reason.MODE_REPORT_ONLY, message)


def is_resumed_by_others(workload: WorkloadView) -> bool:
    """Return whether a workload that asks was resumed by somebody else."""
    able = workload.kind in SUSPENDABLE and labels.QUEUE_NAME not in workload.marks
    ended = workload.deleting or bool(workload.terminal)
    return is_asking(workload) and able and not workload.suspended and not ended


def write_waiting(workload: WorkloadView, now: float) -> dict[str, str | None]:
    """Return the annotations of a workload that waits for its capacity after a pause."""
    number, _ = _read_round(workload.marks.get(labels.CAPACITY_FIRST_ROUND, ""))
    asks = {labels.CAPACITY_FIRST: "true", labels.CAPACITY_FIRST_RESUMED: None}
    return asks | end_round(workload, number, now)


@dataclasses.dataclass(frozen=True, slots=True)
class WaitingLeaders:
    """The leaders of one workload that wait in a sweep."""

    pods: Sequence[PodView]
    starved: Collection[str]
    """The slices for which GKE finds no capacity, as they were just answered."""


def decide_partial(
    seen: Occupancy,
    waiting: WaitingLeaders,
    gang: Gang,
    pools: Sequence[PoolSnapshot],
    *,
    settings: Settings,
    now: float,
) -> Decision | None:
    """Return that a part of a running workload's pools was held for too long; None if not.

    A slice lacks its pool while its leader waits, no pool that runs serves it, and none is to
    spare. Which pool serves which slice follows from use, because slices may have swapped pools. A
    pool is not to spare while hosts of another slice, which is spread over two pools, run on it, or
    if no slice can run on the pool of another. A pool that is named for a slice does not serve it
    if GKE was just asked for another one: its pods may not fit there. Each slice that lacks one
    must lack it because GKE has no capacity, which a release may mend.

    Args:
        seen: the workload as it is now, and its pods.
        waiting: those of its leaders that wait.
        gang: the demands of all of its slices.
        pools: every pool of the cluster.
        settings: the operator's.
        now: unix seconds.
    """
    workload, starved, cluster = seen.workload, waiting.starved, gang[0].claim.cluster
    seconds, marks = settings.release_partial_gang_seconds, workload.marks
    opted_out = marks.get(labels.CAPACITY_FIRST) == "false"
    if not seconds or not get_kind(workload.kind).gang or workload.suspended or opted_out:
        return None
    later = {**marks, labels.CAPACITY_FIRST: "true"}
    later.pop(labels.CAPACITY_FIRST_RESUMED, None)
    wish = read_wish(dataclasses.replace(workload, suspended=True, marks=later), settings)
    if not isinstance(wish, Wish):
        return None
    waits = {
        claim.slice_name: pod.created_at if pod.unschedulable_since is None else pod.unschedulable_since
        for pod in waiting.pods
        if (claim := find_claim(cluster, pod, workload)) is not None
    }
    plan = plan_pools(cluster, seen, pools, settings)
    running = {
        pool.name: pool.owner
        for pool in select_pools_of(workload, pools)
        if pool.status == PoolStatus.RUNNING and not is_empty(pool, seen.list_nodes_of(pool.name))
    }
    names = [each.claim.slice_name for each in gang]
    idle = running.keys() - set(plan.serving.values()) if may_swap(workload) else ()
    spare = [name for name in idle if not seen.list_on(name)]
    served = {name: plan.serving.get(name, "") for name in names if name not in starved}
    held = {name: running[pool] for name, pool in served.items() if pool in running}
    lacking = [name for name in names if name in waits and name not in held]
    lacks_since = sorted(waits[name] or now for name in lacking)[len(spare) :]  # the first ones have the spare
    held_since = min((owner.created_at for owner in held.values() if owner and owner.created_at), default=now)
    if not lacks_since or {*lacking}.difference(starved) or now - max(held_since, lacks_since[0]) < seconds:
        return None
    message = (
        f"{len(held)} of {len(gang)} slices have node pools, and {lacking[0]} has had none for {seconds} s, so "
        "the workload is suspended until each slice can have one; its node pools are deleted"
    )
    return Decision(Verdict.DELETE, Reason.GANG_INCOMPLETE, message)
