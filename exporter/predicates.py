"""Tests one pod or one workload for a state, from the object alone.

Pure. These functions decide nothing; `exporter.observed_objects` turns changes of a state into
events. The rules of one kind of workload are in its entry of `shared.kinds`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.edges.pods import view_pod
from shared.kinds.kind import is_leader
from shared.kinds.table import find_kind, find_kind_of_pod
from shared.model import labels as label_keys
from shared.model.messages import Observed
from shared.model.times import format_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.edges.kubernetes import ObjectMeta
    from shared.edges.pods import Pod
    from shared.kinds.kind import Kind
    from shared.model.kueue import QueuedWorkload
    from shared.model.workloads import PodView, WorkloadView

_FAILED = "Failed"
_NOTHING: Mapping[str, str] = {}


def is_demand(pod: Pod, kind: Kind) -> bool:
    """Return whether a pod leads a slice or elastic pool of one kind, and waits for new nodes.

    The order puts what is cheap and most often false first.
    """
    return (
        is_unschedulable(pod)
        and not is_held_back(pod)
        and not has_a_promise(pod)
        and not is_opted_out(pod.metadata)
        and is_accelerator_leader(view_pod(pod), kind)
    )


def is_unschedulable(pod: Pod) -> bool:
    """Return whether the scheduler found no node for a live, pending pod.

    `SchedulingGated` and `SchedulerError` are other reasons of the same condition
    (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-conditions).
    """
    if pod.status.phase != "Pending" or pod.metadata.deletion_timestamp or pod.spec.node_name:
        return False
    return any(
        condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable"
        for condition in pod.status.conditions or ()
    )


def is_accelerator_leader(pod: PodView, kind: Kind) -> bool:
    """Return whether a pod is a leader of this kind of workload and needs accelerators."""
    found = find_kind_of_pod(pod)
    return (
        found is not None and found.name == kind.name and pod.template.wants_accelerator and is_leader(kind, pod)
    )


def is_held_back(pod: Pod) -> bool:
    """Return whether a scheduling gate holds the pod; its condition may be out of date."""
    return bool(pod.spec.scheduling_gates)


def has_a_promise(pod: Pod) -> bool:
    """Return whether the scheduler preempts other pods for this pod."""
    return bool(pod.status.nominated_node_name)


def is_opted_out(metadata: ObjectMeta) -> bool:
    """Return whether the author disabled provisioning, by label or by annotation."""
    places = (metadata.labels or _NOTHING, metadata.annotations or _NOTHING)
    return any(place.get(label_keys.DISABLE_AUTOPROVISIONING) == "true" for place in places)


def standing_of(workload: WorkloadView) -> tuple[Observed, str] | None:
    """Return why a workload needs no slices now and since when; None while it needs them.

    A terminal state outranks a suspension. The second value is the condition's
    ``lastTransitionTime``: it tells a second suspension from the first.
    """
    if workload.terminal:
        observed = Observed.FAILED if workload.terminal == _FAILED else Observed.COMPLETED
        return observed, format_time(workload.terminal_since)
    if workload.suspended_since is not None:
        return Observed.SUSPENDED, format_time(workload.suspended_since)
    return None


def quota_of(queued: QueuedWorkload) -> str:
    """Return what tells one reservation of quota that waits for a check from the next, or nothing.

    A message cannot name an owner of an unknown kind, which the tick answers.
    """
    waits = queued.holds_quota and any(each.state == "Pending" for each in queued.checks)
    if not waits or find_kind(queued.owner_kind) is None:
        return ""
    return f"quota since {format_time(queued.reserved_at)}"


def wants_fewer(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Return whether some group needs fewer slices than before. A removed group needs none."""
    return any(now.get(group, 0) < count for group, count in before.items())
