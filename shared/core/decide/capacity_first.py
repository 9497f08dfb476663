"""Decides about a suspended workload that waits for its capacity, and resumes with it. Pure.

Its author asks for that by an annotation. Which round it is, when the round begins, and that it was
resumed are annotations of ours. They concern no other workload, so a forged one harms its author
only.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.decide.attempts import find_pause
from shared.core.decide.demands import find_claim
from shared.core.decide.gangs import CapacityRequest, Holding, measure_gang, plan_gang
from shared.core.decide.needed_pools import plan_pools, select_pools_of
from shared.core.decide.pool_facts import OwnerState
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.errors import NotAllowed
from shared.core.identity.pools import PoolStatus
from shared.core.kinds.table import SUSPENDABLE, get_kind, is_parent_kind, may_swap
from shared.core.kueue import SECONDS, find_seconds
from shared.core.settings import Mode
from shared.core.times import format_minute, format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shared.core.decide.gangs import Gang
    from shared.core.decide.pool_facts import Occupancy
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.settings import Settings
    from shared.core.workloads import PodView, WorkloadView

_ROUNDS_MAX = 9_999
_ROUND = re.compile(r"([0-9]{1,4}) from (\S{1,40})")


def is_asking(workload: WorkloadView) -> bool:
    """Return whether one of the annotations asks, none says no, and we resumed nothing before."""
    marks = workload.marks
    value = marks.get(labels.CAPACITY_FIRST, "" if labels.CAPACITY_FIRST_SECONDS in marks else "false")
    return value != "false" and _find_mark(workload) not in marks


def _find_mark(workload: WorkloadView) -> str:
    """Return the annotation that says it was resumed. A workload has all those of its parent."""
    return labels.CAPACITY_FIRST_HANDED if is_parent_kind(workload.kind) else labels.CAPACITY_FIRST_RESUMED


def read_request(workload: WorkloadView, settings: Settings) -> CapacityRequest | Decision | None:
    """Return what a workload asks for, or why that is refused; None if it asks for nothing now.

    A kind that cannot be suspended is refused at any time, any other only while it is suspended.
    Nothing is asked for a parent that has ended (`shared.engine.looks.gather.see_parent` reads it).
    """
    able, over = workload.kind in SUSPENDABLE, workload.deleting or bool(workload.terminal)
    over = over or (workload.parent is not None and bool(workload.parent.ended))
    if not is_asking(workload) or (able and not workload.suspended) or over:
        return None
    try:
        return _read_request(workload, settings, able=able)
    except NotAllowed as error:
        return Decision(Verdict.REFUSE, Reason(error.reason), str(error))


def _read_request(workload: WorkloadView, settings: Settings, *, able: bool) -> CapacityRequest:
    marks, (unfit, fit) = workload.marks, workload.unfit or ("", "")
    value = marks.get(labels.CAPACITY_FIRST, "")
    opts_out = f"contradicts {labels.DISABLE_AUTOPROVISIONING}=true, which opts out of node pools"
    queued = f"the label {labels.QUEUE_NAME} leaves it to a queue to resume the workload"
    controlled = f"{workload.part_of} controls this workload and decides whether it is suspended"
    switched_off = "the setting capacity_first is off, so the workload is not resumed and nothing is created"
    rows = (
        (not able, f"a {workload.kind} cannot be suspended", ", ".join(SUSPENDABLE)),
        (value != "true", "not true or false", "true, false, or no annotation of these"),
        (marks.get(labels.DISABLE_AUTOPROVISIONING) == "true", opts_out, "one of the two"),
        (labels.QUEUE_NAME in marks, queued, "one of the two"),
        (bool(workload.part_of), controlled, "workloads that a person created"),
        (bool(unfit), unfit, fit),
        (
            not settings.capacity_first,
            switched_off,
            "no such annotation, or the setting and its role (docs/capacity.md)",
        ),
    )
    for holds, what, valid in rows:
        if holds:
            got = (value or "no value") if able else workload.kind
            raise NotAllowed(what, field=f"annotation {labels.CAPACITY_FIRST}", value=got, valid=valid)
    seconds = find_seconds(marks, labels.CAPACITY_FIRST_SECONDS, SECONDS)
    number, begins_at = _read_round(marks.get(labels.CAPACITY_FIRST_ROUND, ""))
    return CapacityRequest(seconds=seconds, round=number, begins_at=begins_at)


def _read_round(text: str) -> tuple[int, float | None]:
    match = _ROUND.fullmatch(text)
    return (int(match[1]), parse_time(match[2])) if match else (0, None)


def lacks_pools(cluster: str, workload: WorkloadView, pools: Sequence[PoolSnapshot], settings: Settings) -> bool:
    """Return whether not all slices of a suspended workload have a pool that runs."""
    gang = plan_gang(cluster, workload, settings)
    return isinstance(gang, Decision) or bool(measure_gang(gang, pools).wanting)


def find_wait(
    cluster: str,
    workload: WorkloadView,
    pools: Sequence[PoolSnapshot],
    settings: Settings,
    *,
    now: float,
    lacks: Callable[[str, WorkloadView, Sequence[PoolSnapshot], Settings], bool] = lacks_pools,
) -> OwnerState | None:
    """Return the state of the pools' owner while a suspended workload waits for its capacity.

    It is live during a round. In the pause after one its pools are deleted, unless the last one
    came good by now. None if it does not wait, so that it is as suspended as any other. `lacks` is
    `lacks_pools`, or remembers its answer.
    """
    request = read_request(workload, settings)
    if not isinstance(request, CapacityRequest):
        return None
    lacking = request.is_paused(now) and lacks(cluster, workload, pools, settings)
    return OwnerState.RETURNING if lacking else OwnerState.LIVE


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


def decide_pause(request: CapacityRequest) -> Decision:
    """Return the decision in the pause before a round."""
    message = (
        "not all slices got their node pools in time, so all of them were deleted; "
        f"round {request.round + 1} begins at {format_minute(request.begins_at or 0.0)}"
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
    told: dict[str, Decision] = dataclasses.field(default_factory=dict)
    """What was just answered about the slices for which GKE finds no capacity, by their name."""


def is_releasable(workload: WorkloadView, settings: Settings) -> bool:
    """Return whether a running workload may be suspended until each slice can have its pool."""
    if (
        not get_kind(workload.kind).gang
        or workload.suspended
        or workload.marks.get(labels.CAPACITY_FIRST) == "false"
    ):
        return False
    waiting = workload.marks | write_waiting(workload, 0.0)
    marks = {key: mark for key, mark in waiting.items() if mark is not None}
    asked = dataclasses.replace(workload, suspended=True, marks=marks)
    return isinstance(read_request(asked, settings), CapacityRequest)


def measure_used(
    seen: Occupancy,
    waiting: WaitingLeaders,
    gang: Gang,
    pools: Sequence[PoolSnapshot],
    *,
    settings: Settings,
    now: float,
) -> Holding:
    """Return what the gang of a running workload holds: which pool serves which slice shows in use.

    Slices may have swapped pools. A slice wants a pool while its leader waits, no pool that runs
    serves it, and none is to spare. A pool is not to spare while hosts of another slice, which is
    spread over two pools, run on it, or if no slice can run on the pool of another. A pool that is
    named for a slice does not serve it if GKE was just asked for another one: its pods may not fit
    there. A pool that pods of other workloads use is to spare: no release gives it back.

    Args:
        seen: the workload as it is now, and its pods.
        waiting: those of its leaders that wait.
        gang: the demands of all of its slices.
        pools: every pool of the cluster.
        settings: the operator's.
        now: unix seconds.
    """
    workload, cluster, names = seen.workload, gang[0].claim.cluster, [each.claim.slice_name for each in gang]
    waits = {
        claim.slice_name: pod.created_at if pod.unschedulable_since is None else pod.unschedulable_since
        for pod in waiting.pods
        if (claim := find_claim(cluster, pod, workload)) is not None
    }
    serving = plan_pools(cluster, seen, pools, settings).serving
    running = {
        pool.name: pool
        for pool in select_pools_of(workload, pools)
        if pool.status == PoolStatus.RUNNING and (seen.node_counts[pool.name] or not pool.autoscaled)
    }
    held = {
        name: running[serving[name]] for name in names if name not in waiting.told and serving.get(name) in running
    }
    idle = running.keys() - {pool.name for pool in held.values()} if may_swap(workload) else set[str]()
    spare = sum(not seen.list_on(name) for name in idle)
    lacking = [name for name in names if name in waits and name not in held]
    wants_since = sorted(waits[name] or now for name in lacking)[spare:]  # the first ones have the spare
    return Holding(
        gang=gang,
        running=frozenset(held),
        wanting=tuple(lacking) if wants_since else (),
        pools=tuple(held.values()),
        since=min(wants_since, default=now),
        told=waiting.told,
    )


def decide_partial(holding: Holding, seconds: float, *, now: float) -> Decision | None:
    """Return that a part of a running workload's pools was held for too long; None if not.

    Each slice that wants one must lack it because GKE has no capacity, which a release may mend.
    """
    wanting = holding.wanting
    if len(holding.starved) < len(wanting) or not holding.is_late(seconds, now):
        return None
    message = (
        f"{len(holding.running)} of {len(holding.gang)} slices have node pools, and {wanting[0]} has had none for "
        f"{seconds} s, so the workload is suspended until each slice can have one; its node pools are deleted"
    )
    return Decision(Verdict.DELETE, Reason.GANG_INCOMPLETE, message)
