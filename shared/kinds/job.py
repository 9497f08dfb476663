"""The plain Job, ``batch/v1``: one multi-host slice, or one single-host slice per completion index.

A Job on several hosts is one slice and needs completion indexes, so that each pod has its place. On
single hosts each index is a slice, and a Job of one pod needs no index. A Job of several pods
without indexes is refused, because nothing shows which pods form a slice. A Job that another
controller created is a part of that controller's workload; a Job of a CronJob is a workload itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from shared.kinds import read
from shared.kinds.kind import Json, Kind, TemplateReader, is_free, is_mistaken, is_one_host
from shared.kinds.read import is_index_below, parse_index
from shared.model.errors import refuse
from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView

JOB_NAME_ON_POD = "batch.kubernetes.io/job-name"
_UNINDEXED = 0  # `SliceGroup.slots` of pods of which nothing shows which form a slice


class Job(Kind):
    """The plain Job."""

    name = "Job"
    api_version = "batch/v1"
    plural = "jobs"
    pod_selector = mark = name_label = JOB_NAME_ON_POD
    queued = whole = True
    # ``SuccessCriteriaMet`` and ``FailureTarget`` come before these, while pods still terminate:
    # https://kubernetes.io/docs/concepts/workloads/controllers/job/#termination-of-job-pods.
    endings = ("Complete", "Failed")
    controller = "kubernetes.io/job-controller"

    def read(self, body: Json, read_template: TemplateReader) -> WorkloadView:
        """Return a Job, with the object of which it is a part."""
        owner = read.controller(body)
        kind, name = read.text(owner, "kind"), read.text(owner, "name")
        whole = "" if kind == "CronJob" else f"{kind} {name}".strip()
        return structs.replace(super().read(body, read_template), part_of=whole)

    def read_groups(self, body: Json, templates: Mapping[str, PodTemplate]) -> list[SliceGroup]:
        """Return the one group."""
        (template,) = templates.values()
        return [_read_group(body, template)] if template.wants_accelerator else []

    def check_spec(self, workload: WorkloadView) -> None:
        """Refuse several pods without indexes, of which nothing shows which form a slice."""
        if any(group.slots == _UNINDEXED and group.replicas for group in workload.groups):
            raise refuse("no_completion_index", "NonIndexed", workload=workload)

    def find_slot(self, pod: PodView, _workload: WorkloadView, group: SliceGroup) -> str | None:
        """Return the completion index, where each index is a slice."""
        if group.slots is None:
            return ""
        index = pod.completion_index
        return index if is_index_below(index, group.slots) else None


JOB = Job()


def _read_group(body: Json, template: PodTemplate) -> SliceGroup:
    parallelism = read.number(body, "spec", "parallelism", default=1)
    # Without completions any number of pods may succeed: https://kubernetes.io/docs/concepts/workloads/controllers/job/.
    completions = read.number(body, "spec", "completions", default=max(parallelism, 1))
    at_once = max(min(parallelism, completions), 0)
    group = SliceGroup(name="", replicas=min(at_once, 1), hosts=at_once, template=template)
    if is_free(template):  # not one slice, so the nodes of pods that have succeeded may go
        pods = min(at_once, max(completions - read.number(body, "status", "succeeded"), 1))
        return structs.replace(group, pods=pods)
    indexed = read.text(body, "spec", "completionMode") == "Indexed"
    one_host = is_one_host(template)
    if indexed and one_host:
        left = max(completions - _count_ended(body, completions), 0)
        return structs.replace(group, replicas=min(at_once, left), slots=completions, hosts=1)
    if indexed or is_mistaken(template) or (one_host and at_once <= 1):
        return group
    return structs.replace(group, replicas=at_once, slots=_UNINDEXED, hosts=0)


def _count_ended(body: Json, completions: int) -> int:
    """Return how many indexes have ended; 0 if the status is not as a controller writes it.

    It lists them as ``0-2,5``: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/.
    """
    ended = 0
    for field in ("completedIndexes", "failedIndexes"):
        for part in filter(None, read.text(body, "status", field).split(",")):
            first, dash, last = part.partition("-")
            low, high = parse_index(first), parse_index(last if dash else first)
            if low is None or high is None or not low <= high < completions:
                return 0
            ended += high - low + 1
    return ended
