"""Named questions about one pod or one workload, each answerable from the object alone.

Pure. They say what *is*, not what should be done about it; `exporter.sightings` turns changes into events. What is
particular to a kind of workload stands in its entry of `shared.core.kinds`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core import labels as label_keys
from shared.core.elastic import speaks
from shared.core.events import Observed
from shared.core.kinds.table import find_kind_of_pod
from shared.core.times import format_time
from shared.edges.workload_objects import view_pod

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shared.core.kinds.kind import Kind
    from shared.core.workloads import WorkloadView
    from shared.edges.kubernetes_objects import ObjectMeta
    from shared.edges.workload_objects import Container, Pod

_TPU_SELECTORS = (label_keys.ACCELERATOR, label_keys.TOPOLOGY)
_FAILED = "Failed"
_NOTHING: Mapping[str, str] = {}


def is_demand(pod: Pod, kind: Kind) -> bool:
    """Tell whether a pod speaks for a slice or elastic pool of one kind, and waits for nodes that do not exist.

    The order puts what is cheap and most often false first.
    """
    return (
        is_unschedulable(pod)
        and not is_held_back(pod)
        and not has_a_promise(pod)
        and not is_opted_out(pod.metadata)
        and asks_for_accelerators(pod)
        and speaks_for_a_slice(pod, kind)
    )


def is_unschedulable(pod: Pod) -> bool:
    """Tell whether the scheduler has looked at a live, pending, unbound pod and found no node for it.

    `SchedulingGated` and `SchedulerError` are other reasons of the same condition
    (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-conditions).
    """
    if pod.status.phase != "Pending" or pod.metadata.deletion_timestamp or pod.spec.node_name:
        return False
    return any(
        condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable"
        for condition in pod.status.conditions or ()
    )


def speaks_for_a_slice(pod: Pod, kind: Kind) -> bool:
    """Tell whether a pod is of this kind of workload, and one that speaks for its slice."""
    view = view_pod(pod)
    found = find_kind_of_pod(view)
    return found is not None and found.name == kind.name and speaks(kind, view)


def is_held_back(pod: Pod) -> bool:
    """Tell whether a scheduling gate still keeps the scheduler off; a stale condition may say otherwise."""
    return bool(pod.spec.scheduling_gates)


def has_a_promise(pod: Pod) -> bool:
    """Tell whether the scheduler is already clearing a node for this pod."""
    return bool(pod.status.nominated_node_name)


def is_opted_out(metadata: ObjectMeta) -> bool:
    """Tell whether the author asked for no provisioning, by label or by annotation."""
    places = (metadata.labels or _NOTHING, metadata.annotations or _NOTHING)
    return any(place.get(label_keys.DISABLE_AUTOPROVISIONING) == "true" for place in places)


def asks_for_accelerators(pod: Pod) -> bool:
    """Tell whether a pod wants TPU nodes, by selector, affinity or annotation, or asks for chips or GPUs.

    Chips alone are not enough of a sign: the leader of a Pathways or serving slice may ask for none
    (https://github.com/google/pathways-job).
    """
    selector = pod.spec.node_selector or _NOTHING
    if any(key in selector for key in _TPU_SELECTORS):
        return True
    if label_keys.SLICE_TOPOLOGY in (pod.metadata.annotations or _NOTHING):
        return True
    containers = [*pod.spec.containers, *(pod.spec.init_containers or ())]
    return any(key in _TPU_SELECTORS for key in _affinity_keys(pod)) or any(map(_asks_for_some, containers))


def standing_of(workload: WorkloadView) -> tuple[Observed, str] | None:
    """Return why a workload needs no slices now and since when; None while it needs them.

    A terminal state outranks a suspension. The second value is the condition's ``lastTransitionTime``: it tells a
    second suspension from the first.
    """
    if workload.terminal:
        observed = Observed.FAILED if workload.terminal == _FAILED else Observed.COMPLETED
        return observed, format_time(workload.terminal_since)
    if workload.suspended_since is not None:
        return Observed.SUSPENDED, format_time(workload.suspended_since)
    return None


def wants_fewer(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Tell whether some group wants fewer slices than before, by group; a group that went wants none."""
    return any(now.get(group, 0) < count for group, count in before.items())


def has_surplus(workload: WorkloadView) -> bool:
    """Tell whether more of a workload runs than its spec wants.

    Its status counts pods, or what has one per slice; where that is told wrongly, the sweep finds what has left.
    """
    return workload.active > sum(group.replicas * max(group.hosts, 1) for group in workload.groups)


def _affinity_keys(pod: Pod) -> Iterator[str]:
    affinity = pod.spec.affinity
    if affinity and affinity.node_affinity and affinity.node_affinity.required:
        for term in affinity.node_affinity.required.node_selector_terms:
            for expression in term.match_expressions or ():
                yield expression.key


def _asks_for_some(container: Container) -> bool:
    if not container.resources:
        return False
    asked = (container.resources.requests, container.resources.limits)
    return any(
        each is not None and each.get(resource) not in (None, "", "0", 0)
        for each in asked
        for resource in (label_keys.TPU_RESOURCE, label_keys.GPU_RESOURCE)
    )
