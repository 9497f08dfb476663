"""The plain Job, ``batch/v1``: one multi-host slice, or one single-host slice per completion index.

A Job on several hosts is one slice and needs completion indexes, so that each pod has its place. On
single hosts each index is a slice, and a Job of one pod needs no index. A Job of several pods
without indexes is refused, because nothing shows which pods form a slice. A Job that another
controller created is a part of that controller's workload; a Job of a CronJob is a workload itself.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from shared.kinds.kind import (
    Kind,
    SliceOfPod,
    find_controller_uid,
    is_free,
    is_mistaken,
    is_one_host,
)
from shared.kinds.objects import (
    is_index_below,
    parse_index,
    read_flag,
    read_held_conditions,
    read_identity,
    read_number,
    read_object,
    read_objects,
    read_suspend_set_at,
    read_text,
)
from shared.model.errors import SliceUnknown
from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.kinds.kind import Json, TemplateReader

NAME = "Job"
API_VERSION = "batch/v1"
JOB_NAME_ON_POD = "batch.kubernetes.io/job-name"
CONTROLLER = "kubernetes.io/job-controller"  # as spec.managedBy
_TERMINAL = ("Complete", "Failed")
"""``SuccessCriteriaMet`` and ``FailureTarget`` come before these, while pods still terminate:
https://kubernetes.io/docs/concepts/workloads/controllers/job/#termination-of-job-pods."""


def _find_owner(pod: PodView) -> str:
    is_of_job = (pod.controller_kind, pod.controller_api_version) == (NAME, API_VERSION)
    return pod.controller_name if is_of_job else ""


def _read(body: Json, read_template: TemplateReader) -> WorkloadView:
    held = read_held_conditions(body)
    terminal = next((each for each in _TERMINAL if each in held), "")
    owners = read_objects(body, "metadata", "ownerReferences")
    wholes = (
        each
        for each in owners
        if read_flag(each, "controller") and read_text(each, "kind") != "CronJob"
    )
    whole = next(wholes, {})
    template = read_template(read_object(body, "spec", "template"))
    return WorkloadView(
        **read_identity(NAME, body),
        groups=_read_groups(body, template),
        templates={"": template},
        suspended=read_flag(body, "spec", "suspend"),
        suspended_since=held.get("Suspended"),
        suspend_set_at=read_suspend_set_at(body),
        terminal=terminal,
        terminal_since=held.get(terminal),
        managed_elsewhere=read_text(body, "spec", "managedBy") not in ("", CONTROLLER),
        part_of=f"{read_text(whole, 'kind')} {read_text(whole, 'name')}".strip(),
    )


def _read_groups(body: Json, template: PodTemplate) -> tuple[SliceGroup, ...]:
    """Return the group of a Job with accelerators; empty for any other Job."""
    if not template.wants_accelerator:
        return ()
    parallelism = read_number(body, "spec", "parallelism", default=1)
    # Without completions any number of pods may succeed: https://kubernetes.io/docs/concepts/workloads/controllers/job/.
    completions = read_number(body, "spec", "completions", default=max(parallelism, 1))
    at_once = max(min(parallelism, completions), 0)
    if is_free(template):  # not one slice, so the nodes of pods that have succeeded may go
        pods = min(at_once, max(completions - read_number(body, "status", "succeeded"), 1))
        return (
            SliceGroup(
                name="", replicas=min(at_once, 1), hosts=at_once, pods=pods, template=template
            ),
        )
    indexed = read_text(body, "spec", "completionMode") == "Indexed"
    one_host = is_one_host(template)
    if indexed and one_host:
        left = completions - _count_ended(body, completions)
        group = SliceGroup(
            name="",
            replicas=max(min(at_once, left), 0),
            slots=completions,
            hosts=1,
            template=template,
        )
        return (group,)
    if indexed or is_mistaken(template) or (one_host and at_once <= 1):
        return (SliceGroup(name="", replicas=min(at_once, 1), hosts=at_once, template=template),)
    return (SliceGroup(name="", replicas=at_once, slots=0, template=template),)


def _count_ended(body: Json, completions: int) -> int:
    """Return how many indexes have ended; 0 if the status is not as a controller writes it.

    It lists them as ``0-2,5``: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/.
    """
    ended = 0
    for field in ("completedIndexes", "failedIndexes"):
        for part in filter(None, read_text(body, "status", field).split(",")):
            first, dash, last = part.partition("-")
            low, high = parse_index(first), parse_index(last if dash else first)
            if low is None or high is None or not low <= high < completions:
                return 0
            ended += high - low + 1
    return ended


def _find_slice(pod: PodView, workload: WorkloadView) -> SliceOfPod | None:
    if not workload.groups or _find_owner(pod) != workload.name:
        return None
    _refuse_unindexed(workload)
    (group,) = workload.groups
    if not group.replicas:
        return None
    if group.slots is None:
        return SliceOfPod(name=workload.name, group=group)
    index = pod.completion_index
    if not is_index_below(index, group.slots):
        return None
    return SliceOfPod(name=f"{workload.name}-{index}", group=group)


def _refuse_unindexed(workload: WorkloadView) -> None:
    if any(group.slots == 0 and group.replicas for group in workload.groups):
        raise SliceUnknown(
            f"the pods of {NAME} {workload.name} have no completion index, so it is not clear "
            "which pods form a slice",
            field="spec.completionMode",
            value="NonIndexed",
            valid="Indexed; or parallelism 1 on a single host",
        )


def _list_slices(workload: WorkloadView) -> Sequence[SliceOfPod]:
    _refuse_unindexed(workload)
    return [
        SliceOfPod(
            name=workload.name if group.slots is None else f"{workload.name}-{index}", group=group
        )
        for group in workload.groups
        for index in range(group.replicas)
    ]


def _list_pod_sets(body: Json) -> list[tuple[str, Json]]:
    return [("main", read_object(body, "spec", "template"))]


JOB = Kind(
    name=NAME,
    api_version=API_VERSION,
    plural="jobs",
    whole=True,
    pod_sets=_list_pod_sets,
    pod_selector=JOB_NAME_ON_POD,
    mark=JOB_NAME_ON_POD,
    find_owner=_find_owner,
    find_owner_uid=partial(find_controller_uid, _find_owner),
    read=_read,
    find_slice=_find_slice,
    list_slices=_list_slices,
    name_label=JOB_NAME_ON_POD,
)
