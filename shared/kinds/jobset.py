"""JobSet (https://jobset.sigs.k8s.io): each Job of a replicated job is one slice.

The pool labels of the Go TPU Provisioner keep their meaning, so that its pools are managed too:
https://github.com/ai-on-gke/tpu-provisioner.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

from shared.kinds.kind import Kind, SliceOfPod
from shared.kinds.objects import (
    is_index_below,
    read_flag,
    read_held_conditions,
    read_identity,
    read_number,
    read_object,
    read_objects,
    read_suspend_set_at,
    read_text,
    read_texts,
)
from shared.model import labels
from shared.model.topology_terms import make_exclusive
from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.kinds.kind import Json, TemplateReader

NAME = "JobSet"

JOBSET_NAME_ON_POD = "jobset.sigs.k8s.io/jobset-name"
JOBSET_UID_ON_POD = "jobset.sigs.k8s.io/jobset-uid"
REPLICATED_JOB_ON_POD = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
RESTART_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
JOB_KEY = "jobset.sigs.k8s.io/job-key"
EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR_STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"
NAMESPACED_JOB = "alpha.jobset.sigs.k8s.io/namespaced-job"
NO_SCHEDULE_TAINT = "alpha.jobset.sigs.k8s.io/no-schedule"
JOBSET_CONTROLLER = "jobset.sigs.k8s.io/jobset-controller"  # as spec.managedBy
_LEADER_INDEX = "0"
_POD_SPEC = ("template", "spec", "template", "spec")


def _find_owner(pod: PodView) -> str:
    # Not from the annotation: the API server lets it be any text.
    name = pod.template.labels.get(JOBSET_NAME_ON_POD, "")
    is_of_job = pod.controller_kind == "Job" and pod.controller_name.startswith(f"{name}-")
    return name if is_of_job else ""


def _find_owner_uid(pod: PodView) -> str:
    # Versions before 0.9 do not set this label.
    return pod.template.labels.get(JOBSET_UID_ON_POD, "")


def _is_leader(pod: PodView) -> bool:
    return pod.completion_index == _LEADER_INDEX


def _is_whole(pod: PodView) -> bool:
    return pod.template.annotations.get(EXCLUSIVE_TOPOLOGY) == labels.NODE_POOL


def _read(body: Json, read_template: TemplateReader) -> WorkloadView:
    held = read_held_conditions(body)
    terminal = next((name for name in ("Completed", "Failed") if name in held), "")
    return WorkloadView(
        **read_identity(NAME, body),
        groups=_read_groups(body, read_template),
        suspended=read_flag(body, "spec", "suspend"),
        suspended_since=held.get("Suspended"),
        suspend_set_at=read_suspend_set_at(body),
        terminal=terminal,
        terminal_since=held.get(terminal),
        # The pods of another manager are in another cluster:
        # https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/.
        managed_elsewhere=read_text(body, "spec", "managedBy") not in ("", JOBSET_CONTROLLER),
    )


def _read_groups(body: Json, read_template: TemplateReader) -> tuple[SliceGroup, ...]:
    annotations, jobs = (
        read_texts(body, "metadata", "annotations"),
        read_objects(body, "spec", "replicatedJobs"),
    )
    ended = {
        read_text(each, "name"): read_number(each, "succeeded")
        for each in read_objects(body, "status", "replicatedJobsStatus")
    }
    groups = [
        dataclasses.replace(group, over=min(ended.get(group.name, 0), group.replicas))
        for group in (_read_group(each, annotations, read_template) for each in jobs)
    ]
    kept_apart = [
        _read_exclusion(each, group, annotations) for each, group in zip(jobs, groups, strict=True)
    ]
    priorities = [read_text(each, *_POD_SPEC, "priorityClassName") for each in jobs]
    hosts = [
        next(
            (
                host.name
                for host, apart, priority in zip(groups, kept_apart, priorities, strict=True)
                if _may_host(host, group) and not (apart and priority == priorities[index])
            ),
            "",
        )
        for index, group in enumerate(groups)
    ]
    return tuple(
        dataclasses.replace(group, beside=host) for group, host in zip(groups, hosts, strict=True)
    )


def _may_host(host: SliceGroup, guest: SliceGroup) -> bool:
    """Return whether a head without chips needs the same nodes as a group of workers.

    Pathways (https://github.com/google/pathways-job) gives both the same node selector, and creates
    the workers after the head.
    """
    asked, wanted = guest.template, host.template
    return (
        bool(wanted.chips and host.replicas and asked.wants_accelerator)
        and (asked.chips, guest.replicas) == (0, 1)
        and not (guest.pinned or host.pinned)
        and (asked.node_selector, asked.node_affinity)
        == (wanted.node_selector, wanted.node_affinity)
    )


def _read_exclusion(body: Json, group: SliceGroup, of_jobset: Mapping[str, str]) -> bool:
    """Return whether the pods of a group keep other Jobs of their priority off their node pool.

    Since JobSet 0.11, which labels every pod with its priority, this includes the head:
    https://github.com/kubernetes-sigs/jobset/blob/v0.11.1/pkg/webhooks/pod_mutating_webhook.go.
    """
    of_job = read_texts(body, "template", "metadata", "annotations")
    return {**of_jobset, **of_job, **group.template.annotations}.get(
        EXCLUSIVE_TOPOLOGY
    ) == labels.NODE_POOL


def _read_group(
    body: Json, of_jobset: Mapping[str, str], read_template: TemplateReader
) -> SliceGroup:
    merged = {**of_jobset, **read_texts(body, "template", "metadata", "annotations")}
    exclusive, pinned = merged.get(EXCLUSIVE_TOPOLOGY, ""), NODE_SELECTOR_STRATEGY in merged
    template = read_template(read_object(body, "template", "spec", "template"))
    if exclusive not in ("", labels.NODE_POOL) and not pinned:
        # JobSet's webhook adds it to the leaders: https://jobset.sigs.k8s.io/docs/tasks/exclusive_placement/.
        template = template.require(make_exclusive(exclusive))
    parallelism = read_number(body, "template", "spec", "parallelism", default=1)
    completions = read_number(body, "template", "spec", "completions", default=max(parallelism, 1))
    return SliceGroup(
        name=read_text(body, "name"),
        replicas=read_number(body, "replicas", default=1),
        template=template,
        # Both annotations count on the JobSet or the Job template, not on the pod template:
        # https://jobset.sigs.k8s.io/docs/tasks/exclusive_placement/.
        pinned=bool(exclusive) and pinned,
        whole=exclusive == labels.NODE_POOL,
        idle=parallelism == 0,
        pods=max(min(parallelism, completions), 0),
    )


def _find_group(pod: PodView, workload: WorkloadView) -> SliceGroup | None:
    """Return the replicated job of a pod, by its Job ``<jobset>-<replicated job>-<index>``."""
    job_name = pod.controller_name if pod.controller_kind == "Job" else ""
    for group in workload.groups:
        prefix = f"{workload.name}-{group.name}-"
        index = job_name.removeprefix(prefix)
        if job_name.startswith(prefix) and is_index_below(index, group.replicas):
            return group
    return None


def _find_template(pod: PodView, workload: WorkloadView) -> PodTemplate | None:
    group = _find_group(pod, workload)
    return group.template if group else None


def _find_slice(pod: PodView, workload: WorkloadView) -> SliceOfPod | None:
    group = _find_group(pod, workload)
    host = next((each for each in workload.groups if group and each.name == group.beside), None)
    if host:
        return SliceOfPod(name=f"{workload.name}-{host.name}-0", group=host)
    return SliceOfPod(name=pod.controller_name, group=group) if group else None


def _list_slices(workload: WorkloadView) -> Sequence[SliceOfPod]:
    return [
        SliceOfPod(name=f"{workload.name}-{group.name}-{index}", group=group)
        for group in map(partial(_fill_group, workload), workload.groups)
        if not group.idle and not group.beside
        for index in range(group.replicas)
    ]


def _fill_group(workload: WorkloadView, group: SliceGroup) -> SliceGroup:
    """Return a group with the labels that the controller gives to all of its pods."""
    own = {JOBSET_NAME_ON_POD: workload.name, JOBSET_UID_ON_POD: workload.uid}
    pod_labels = group.template.labels | own | {REPLICATED_JOB_ON_POD: group.name}
    template = dataclasses.replace(group.template, labels=pod_labels)
    return dataclasses.replace(group, template=template)


def _list_pod_sets(body: Json) -> list[tuple[str, Json]]:
    jobs = read_objects(body, "spec", "replicatedJobs")
    return [
        (read_text(job, "name").lower(), read_object(job, "template", "spec", "template"))
        for job in jobs
    ]


JOBSET = Kind(
    name=NAME,
    api_version="jobset.x-k8s.io/v1alpha2",
    plural="jobsets",
    whole=True,
    pod_selector=JOB_KEY,
    find_owner=_find_owner,
    find_owner_uid=_find_owner_uid,
    is_leader=_is_leader,
    is_whole=_is_whole,
    read=_read,
    find_slice=_find_slice,
    find_group=_find_group,
    find_template=_find_template,
    list_slices=_list_slices,
    name_label=JOBSET_NAME_ON_POD,
    mark=JOBSET_NAME_ON_POD,
    pod_sets=_list_pod_sets,
    pin_label=NAMESPACED_JOB,
    pin_taint=NO_SCHEDULE_TAINT,
    install="kubectl apply --server-side -f "
    "https://github.com/kubernetes-sigs/jobset/releases/download/v0.11.1/manifests.yaml",
)
