"""JobSet (https://jobset.sigs.k8s.io): each Job of a replicated job is one slice.

The pool labels of the Go TPU Provisioner keep their meaning, so that its pools are managed too:
https://github.com/ai-on-gke/tpu-provisioner.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from shared.kinds import read
from shared.kinds.kind import Json, Kind
from shared.kinds.read import is_index_below
from shared.model import labels
from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView

JOBSET_NAME_ON_POD = "jobset.sigs.k8s.io/jobset-name"
JOBSET_UID_ON_POD = "jobset.sigs.k8s.io/jobset-uid"
REPLICATED_JOB_ON_POD = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_KEY = "jobset.sigs.k8s.io/job-key"
EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR_STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"
NAMESPACED_JOB = "alpha.jobset.sigs.k8s.io/namespaced-job"
NO_SCHEDULE_TAINT = "alpha.jobset.sigs.k8s.io/no-schedule"
_FIRST = "0"


class JobSet(Kind):
    """The JobSet."""

    name = "JobSet"
    api_version = "jobset.x-k8s.io/v1alpha2"
    plural = "jobsets"
    pod_selector = JOB_KEY
    name_label = mark = JOBSET_NAME_ON_POD
    pin_label = NAMESPACED_JOB
    pin_taint = NO_SCHEDULE_TAINT
    queued = whole = True
    endings = ("Completed", "Failed")
    controller = "jobset.sigs.k8s.io/jobset-controller"
    exclusive = f"metadata.annotations {EXCLUSIVE_TOPOLOGY}: {labels.NODE_POOL}"
    install = (
        "kubectl apply --server-side -f "
        "https://github.com/kubernetes-sigs/jobset/releases/download/v0.11.1/manifests.yaml"
    )

    def find_owner(self, pod: PodView) -> str:
        """Return the name in the pod's label, if its Job may be of that JobSet."""
        # Not from the annotation: the API server lets it be any text.
        name = pod.template.labels.get(JOBSET_NAME_ON_POD, "")
        is_of_job = pod.controller_kind == "Job" and pod.controller_name.startswith(f"{name}-")
        return name if is_of_job else ""

    def find_owner_uid(self, pod: PodView) -> str:
        """Return the UID in the pod's label; versions before 0.9 do not set it."""
        return pod.template.labels.get(JOBSET_UID_ON_POD, "")

    def is_leader(self, pod: PodView) -> bool:
        """Return whether it is the first pod of its Job."""
        return pod.completion_index == _FIRST

    def list_templates(self, body: Json) -> list[tuple[str, Json]]:
        """Return the template of each replicated job."""
        return [
            (read.text(job, "name"), read.fields(job, "template", "spec", "template"))
            for job in read.objects(body, "spec", "replicatedJobs")
        ]

    def read_groups(self, body: Json, templates: Mapping[str, PodTemplate]) -> list[SliceGroup]:
        """Return the replicated jobs, each with how many of its Jobs have ended."""
        ended = {
            read.text(each, "name"): read.number(each, "succeeded")
            for each in read.objects(body, "status", "replicatedJobsStatus")
        }
        groups = [
            _read_group(body, job, templates[read.text(job, "name")])
            for job in read.objects(body, "spec", "replicatedJobs")
        ]
        over = [min(ended.get(group.name, 0), group.replicas) for group in groups]
        return [
            structs.replace(group, over=jobs, beside=_find_host(groups, group))
            for group, jobs in zip(groups, over, strict=True)
        ]

    def find_role(self, pod: PodView, workload: WorkloadView) -> str:
        """Return the replicated job of the pod's Job, ``<jobset>-<replicated job>-<index>``."""
        job = pod.controller_name if pod.controller_kind == "Job" else ""
        return job.removeprefix(f"{workload.name}-").rpartition("-")[0]

    def find_group(self, pod: PodView, workload: WorkloadView) -> SliceGroup | None:
        """Return the pod's replicated job, or the one whose first slice it shares."""
        own = super().find_group(pod, workload)
        return next((each for each in workload.groups if own and each.name == own.beside), own)

    def find_slot(self, pod: PodView, _workload: WorkloadView, group: SliceGroup) -> str | None:
        """Return the index of the pod's Job."""
        index = pod.controller_name.rpartition("-")[2]
        return index if is_index_below(index, group.replicas) else None


JOBSET = JobSet()


def _find_host(groups: list[SliceGroup], guest: SliceGroup) -> str:
    """Return the workers on whose first slice a head without chips runs, or nothing.

    Pathways (https://github.com/google/pathways-job) gives both the same node selector, and creates
    the workers after the head.
    """
    head, pinned = guest.template, guest.pinned
    if pinned or head.units or guest.replicas != 1 or not head.wants_accelerator:
        return ""
    for group in groups:
        workers = group.template
        same = head.selection == workers.selection
        if same and workers.chips and group.replicas and not group.pinned:
            return group.name
    return ""


def _read_group(body: Json, job: Json, template: PodTemplate) -> SliceGroup:
    # Those of placement count there and not on the pod template:
    # https://jobset.sigs.k8s.io/docs/tasks/exclusive_placement/.
    of_jobset = read.texts(body, "metadata", "annotations")
    annotations = of_jobset | read.texts(job, "template", "metadata", "annotations")
    exclusive = annotations.get(EXCLUSIVE_TOPOLOGY, "")
    pinned = bool(exclusive) and NODE_SELECTOR_STRATEGY in annotations
    own = {
        JOBSET_NAME_ON_POD: read.text(body, "metadata", "name"),
        JOBSET_UID_ON_POD: read.text(body, "metadata", "uid"),
        REPLICATED_JOB_ON_POD: read.text(job, "name"),
    }
    parallelism = read.number(job, "template", "spec", "parallelism", default=1)
    completions = read.number(job, "template", "spec", "completions", default=parallelism)
    return SliceGroup(
        name=read.text(job, "name"),
        replicas=read.number(job, "replicas", default=1) if parallelism else 0,
        template=structs.replace(template, labels=template.labels | own),
        pinned=pinned,
        whole=exclusive == labels.NODE_POOL,
        pods=max(min(parallelism, completions), 0),
    )
