"""Decides whether a run is at its end, and what it waits for: pure functions of the timeline.

A workload that cannot go on (refused, suspended, never asked for) is told apart from one that is
only slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from demo.loop.states import SliceTimeline, WorkloadTimeline
from demo.loop.steps import SENTENCES, STEPS, Step
from demo.loop.timeline import Timeline, describe_unplaced

NO_DEMAND = "no_demand"
SUSPENDED = "workload_suspended"
NO_JOBS = "no_jobs"
NO_PODS = "no_pods"
POD_UNPLACED = "pod_unplaced"


class Refuser(StrEnum):
    """Who refuses. The value is in the JSON report and never changes."""

    PROVISIONER = "provisioner"
    """It creates no pool for this."""
    OWNER = "owner"
    """The person or the queue that suspended the workload."""
    CLUSTER = "cluster"
    """A quota, an admission plugin, a webhook or a validation of Kubernetes."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one slice (or a whole workload, with no slice) will not be served."""

    namespace: str
    workload: str
    slice: str
    reason: str
    message: str
    by: Refuser = Refuser.PROVISIONER


@dataclass(frozen=True, slots=True)
class Patience:
    """How long, in real seconds, nothing may happen before a verdict is final."""

    refused_seconds: float
    silent_seconds: float
    """For a leader without a demand, and before the cluster is asked what it refuses."""

    @classmethod
    def at_speed(cls, speed: float) -> Patience:
        """Return the patience that suits a clock of this speed."""
        return cls(refused_seconds=max(3.0, 30 / speed), silent_seconds=max(10.0, 60 / speed))


def is_finished(timeline: Timeline) -> bool:
    """Return whether every workload is over and GKE has no pool of ours any more."""
    over = all(workload.over for workload in timeline.workloads.values())
    return over and timeline.pools_now == {}


def find_stuck(timeline: Timeline, now: float, patience: Patience) -> list[tuple[WorkloadTimeline, list[Refusal]]]:
    """Return the workloads that cannot continue, with the reasons, after a quiet time."""
    stuck = []
    for workload in timeline.workloads.values():
        quiet_seconds = now - workload.progress_at
        if workload.over or quiet_seconds < patience.refused_seconds:
            continue
        slices = timeline.slices_of(workload)
        if any(one.active for one in slices):
            continue
        refusals = _find_refusals(workload, slices, silent=quiet_seconds >= patience.silent_seconds)
        if refusals:
            stuck.append((workload, refusals))
    return stuck


def list_quiet(timeline: Timeline, now: float, patience: Patience) -> list[WorkloadTimeline]:
    """Return the workloads that are not over, if nothing happened to any of them for long.

    All of them, because what one of them still does may free what another one waits for, a quota
    for example.
    """
    waiting = [each for each in timeline.workloads.values() if not each.over]
    moving = any(one.active for workload in waiting for one in timeline.slices_of(workload))
    recent = any(now - each.progress_at < patience.silent_seconds for each in waiting)
    return [] if moving or recent else waiting


def find_unplaced(
    timeline: Timeline, quiet: list[WorkloadTimeline]
) -> list[tuple[WorkloadTimeline, list[Refusal]]]:
    """Return the quiet workloads with pods that need no accelerators, and that no node takes."""
    waiting = [(each, _list_unplaced(timeline, each)) for each in quiet]
    return [(each, refusals) for each, refusals in waiting if refusals]


def _list_unplaced(timeline: Timeline, workload: WorkloadTimeline) -> list[Refusal]:
    key = (workload.namespace, workload.name)
    return [
        Refusal(*key, pod.name, POD_UNPLACED, describe_unplaced(pod), Refuser.CLUSTER)
        for pod in timeline.unplaced.values()
        if (pod.namespace, pod.jobset) == key
    ]


def describe_missing(timeline: Timeline, now: float) -> list[str]:
    """Return a sentence for every slice or pool that keeps the run from its end."""
    lines = []
    for workload in timeline.workloads.values():
        slices = timeline.slices_of(workload)
        if not workload.over and not slices:
            lines.append(f"{workload.namespace}/{workload.name}: the JobSet is not over (it needs no slice)")
        lines.extend(_describe_slice(one, workload, now) for one in slices if not _is_done(one, workload))
    lines.extend(f"{pod.name}: {describe_unplaced(pod)}" for pod in timeline.unplaced.values())
    lines.extend(
        f"node pool {name} still exists ({status})" for name, status in sorted((timeline.pools_now or {}).items())
    )
    return lines


def _find_refusals(workload: WorkloadTimeline, slices: list[SliceTimeline], *, silent: bool) -> list[Refusal]:
    if workload.suspended:
        why = f" ({workload.message})" if workload.message else ""
        message = f"spec.suspend is true{why}: no pool is created until a queue or a person resumes it"
        return [Refusal(workload.namespace, workload.name, "", SUSPENDED, message, Refuser.OWNER)]
    found = []
    for one in slices:
        reason, message = _find_reason(one, silent=silent)
        if reason:
            found.append(Refusal(one.namespace, one.workload, one.job, reason, message))
    return found


def _find_reason(one: SliceTimeline, *, silent: bool) -> tuple[str, str]:
    if one.refusal:
        return one.refusal.reason, one.refusal.message
    if not one.unserved or one.pools:
        return "", ""
    asked = [each for each in one.decisions if each.function == "provision"]
    if asked and asked[-1].decision == "nothing":
        return asked[-1].reason, asked[-1].message
    if silent and not asked and Step.PUBLISHED not in one.steps:
        return NO_DEMAND, f"the exporter published no demand; the scheduler reports: {one.scheduler_message}"
    return "", ""


def _is_done(one: SliceTimeline, workload: WorkloadTimeline) -> bool:
    return workload.over and (not one.pools or STEPS[-1] in one.steps)


def _describe_slice(one: SliceTimeline, workload: WorkloadTimeline, now: float) -> str:
    reached = [step for step in STEPS if step in one.steps]
    missing = next((step for step in STEPS if step not in one.steps), None)
    waited = now - (one.steps[reached[-1]] if reached else workload.progress_at)
    last = one.decisions[-1] if one.decisions else None
    parts = [f"{one.job}: not reached: {SENTENCES[missing] if missing else 'the end'}, since {waited:.0f} s"]
    if last:
        parts.append(f"last decision: {last.function} {last.decision} ({last.reason}) {last.message}".rstrip())
    if one.unserved:
        parts.append(f"the scheduler reports: {one.scheduler_message}")
    return "; ".join(parts)
