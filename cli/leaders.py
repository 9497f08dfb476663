"""The leader pods that a JobSet's controller would make: one per slice, before the scheduler finds it a place.

Labels and selectors as https://github.com/kubernetes-sigs/jobset/blob/v0.11.1/pkg/controllers/jobset_controller.go
writes them, as far as any decision reads them.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.workloads import LEADER_INDEX, PodView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.core.workloads import JobSetView, PodTemplate, ReplicatedJobView


def make_leaders(jobset: JobSetView) -> Iterator[tuple[ReplicatedJobView, PodView]]:
    """Yield each slice's replicated job and leader; jobs without pods have none."""
    for job in jobset.replicated_jobs:
        if job.parallelism == 0:
            continue
        for index in range(job.replicas):
            yield job, _make_leader(jobset, job, index)


def _make_leader(jobset: JobSetView, job: ReplicatedJobView, index: int) -> PodView:
    name = f"{jobset.name}-{job.name}-{index}"
    return PodView(
        namespace=jobset.namespace,
        name=f"{name}-0",
        uid="planned",
        template=_fill_template(jobset, job, index, name),
        controller_kind="Job",
        controller_name=name,
        unschedulable=True,
    )


def _fill_template(jobset: JobSetView, job: ReplicatedJobView, index: int, name: str) -> PodTemplate:
    key = hashlib.sha1(f"{jobset.namespace}/{name}".encode(), usedforsecurity=False).hexdigest()
    said = {
        labels.JOBSET_NAME_ON_POD: jobset.name,
        labels.JOBSET_UID_ON_POD: jobset.uid,
        labels.REPLICATED_JOB_ON_POD: job.name,
        "jobset.sigs.k8s.io/job-index": str(index),
        "jobset.sigs.k8s.io/restart-attempt": "0",
        labels.JOB_KEY: key,
    }
    template = job.template
    selector = dict(template.node_selector)
    if jobset.uses_node_selector_strategy(job):
        selector[labels.NAMESPACED_JOB] = f"{jobset.namespace}_{name}"
    return dataclasses.replace(
        template,
        labels=template.labels | said | {labels.COMPLETION_INDEX: LEADER_INDEX},
        annotations=template.annotations | said | {labels.COMPLETION_INDEX: LEADER_INDEX},
        node_selector=selector,
    )
