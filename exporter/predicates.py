"""Named questions about one pod or one JobSet, each answerable from the object alone.

Pure. They say what *is*, not what should be done about it; `exporter.sightings` turns changes into events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core import labels as label_keys
from shared.core.events import Observed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from exporter.resources import Container, JobSet, Pod
    from shared.edges.kubernetes_objects import Condition, ObjectMeta

_TPU_SELECTORS = (label_keys.ACCELERATOR, label_keys.TOPOLOGY)
_TERMINAL = (("Failed", Observed.FAILED), ("Completed", Observed.COMPLETED))
_NOTHING: Mapping[str, str] = {}


def is_demand(pod: Pod) -> bool:
    """Tell whether a pod is the leader of a TPU slice that waits for nodes which do not exist.

    The order puts what is cheap and most often false first.
    """
    return (
        is_unschedulable(pod)
        and leads_a_jobset_slice(pod)
        and not is_held_back(pod)
        and not has_a_promise(pod)
        and not is_opted_out(pod.metadata)
        and asks_for_tpu(pod)
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


def leads_a_jobset_slice(pod: Pod) -> bool:
    """Tell whether a pod is the first one of a Job that belongs to a JobSet: there is one per slice."""
    labels = pod.metadata.labels or _NOTHING
    annotations = pod.metadata.annotations or _NOTHING
    index = labels.get(label_keys.COMPLETION_INDEX, annotations.get(label_keys.COMPLETION_INDEX))
    return index == "0" and label_keys.JOB_KEY in labels and bool(jobset_name_of(pod))


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


def asks_for_tpu(pod: Pod) -> bool:
    """Tell whether a pod wants TPU nodes: by selector, affinity or annotation, or by asking for chips.

    Chips alone are not enough of a sign: the leader of a Pathways or serving slice may ask for none
    (https://github.com/google/pathways-job).
    """
    selector = pod.spec.node_selector or _NOTHING
    if any(key in selector for key in _TPU_SELECTORS):
        return True
    if label_keys.SLICE_TOPOLOGY in (pod.metadata.annotations or _NOTHING):
        return True
    containers = [*(pod.spec.containers or ()), *(pod.spec.init_containers or ())]
    return any(key in _TPU_SELECTORS for key in _affinity_keys(pod)) or any(map(_asks_for_chips, containers))


def jobset_name_of(pod: Pod) -> str:
    """Return the name of the JobSet that a pod belongs to; empty if it belongs to none."""
    labels = pod.metadata.labels or _NOTHING
    return labels.get(label_keys.JOBSET_NAME_ON_POD) or (pod.metadata.annotations or _NOTHING).get(
        label_keys.JOBSET_NAME_ON_POD, ""
    )


def is_ours_to_watch(jobset: JobSet) -> bool:
    """Tell whether the JobSet controller of this cluster runs a JobSet; another manager's has no pods here.

    Source: https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/ (``spec.managedBy``).
    """
    return jobset.spec.managed_by in (None, "", label_keys.JOBSET_CONTROLLER)


def standing_of(jobset: JobSet) -> tuple[Observed, str] | None:
    """Return why a JobSet needs no slices now and since when; None while it needs them.

    A terminal state outranks a suspension. The second value is the condition's ``lastTransitionTime``: it tells a
    second suspension from the first.
    """
    conditions = jobset.status.conditions or ()
    for name, observed in _TERMINAL:
        if found := _true_condition(conditions, name):
            return observed, found.last_transition_time or ""
    if found := _true_condition(conditions, "Suspended"):
        return Observed.SUSPENDED, found.last_transition_time or ""
    return None


def active_jobs(jobset: JobSet) -> int:
    """Return how many Jobs of a JobSet still have running or pending pods, as its status says."""
    return sum(each.active or 0 for each in jobset.status.replicated_jobs_status or ())


def _true_condition(conditions: Iterable[Condition], name: str) -> Condition | None:
    return next((each for each in conditions if each.type == name and each.status == "True"), None)


def _affinity_keys(pod: Pod) -> Iterator[str]:
    affinity = pod.spec.affinity
    if affinity and affinity.node_affinity and affinity.node_affinity.required:
        for term in affinity.node_affinity.required.node_selector_terms or ():
            for expression in term.match_expressions or ():
                yield expression.key


def _asks_for_chips(container: Container) -> bool:
    if not container.resources:
        return False
    asked = (container.resources.requests, container.resources.limits)
    return any(each is not None and each.tpu not in (None, "", "0", 0) for each in asked)
