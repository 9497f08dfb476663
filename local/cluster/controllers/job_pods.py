"""The pods of one Job: which there are, which have ended uncounted, which are missing, what a new one is like.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from local.cluster.labels import COMPLETION_INDEX, JOB_TRACKING
from local.cluster.store.kinds import JOB, POD
from local.cluster.views import PodView

if TYPE_CHECKING:
    from local.cluster.store.store import Store
    from local.cluster.store.stored import Stored
    from local.cluster.views import JobView

Json = dict[str, Any]


@dataclass(frozen=True)
class JobPod:
    """One pod of a Job, with what the controller asks of it."""

    stored: Stored
    view: PodView
    index: int | None

    @property
    def tracked(self) -> bool:
        """Return whether the pod still carries the finalizer, that is, has not been counted."""
        return JOB_TRACKING in self.view.metadata.finalizers

    @property
    def terminating(self) -> bool:
        """Return whether the pod is being deleted and has not ended."""
        return self.view.metadata.deletion_timestamp is not None and not self.view.finished

    @property
    def active(self) -> bool:
        """Return whether the pod has neither ended nor is being deleted."""
        return not self.view.finished and self.view.metadata.deletion_timestamp is None

    @property
    def ready(self) -> bool:
        """Return whether the pod is active and Ready."""
        condition = self.view.condition("Ready")
        return self.active and condition is not None and condition.status == "True"


def pods_of(store: Store, job_uid: str) -> list[JobPod]:
    """Return the pods that a Job controls, in the order of index and name."""
    found = []
    for stored in store.dependents(job_uid):
        if stored.kind is not POD:
            continue
        view = stored.view(PodView)
        controller = view.metadata.controller
        if controller is not None and controller.uid == job_uid:
            text = view.metadata.annotations.get(COMPLETION_INDEX, "")
            found.append(JobPod(stored, view, int(text) if text.isdigit() else None))
    return sorted(found, key=lambda pod: (-1 if pod.index is None else pod.index, pod.stored.name))


def counts_as_failed(job: JobView, pod: JobPod) -> bool:
    """Return whether a pod counts against the back-off limit: failed, or deleted by somebody else."""
    if pod.view.status.phase == "Failed":
        return True
    return pod.terminating and job.spec.pod_replacement_policy != "Failed" and not job.spec.suspend


def missing_indexes(job: JobView, pods: list[JobPod], completed: set[int]) -> list[int | None]:
    """Return the completion indexes to create pods for now, leader first; None for each pod without an index."""
    waits = job.spec.pod_replacement_policy == "Failed"
    occupied = [pod for pod in pods if pod.active or (waits and pod.terminating)]
    room = _parallelism(job) - len(occupied)
    if job.spec.completion_mode == "Indexed":
        taken = {pod.index for pod in occupied} | completed
        free: list[int | None] = [index for index in range(job.spec.completions or 0) if index not in taken]
    else:
        wanted = _parallelism(job)
        if job.spec.completions is not None:
            wanted = min(wanted, job.spec.completions - job.status.succeeded)
        free = [None] * max(0, wanted - len(occupied))
    return free[: max(0, room)]


def _parallelism(job: JobView) -> int:
    return 1 if job.spec.parallelism is None else job.spec.parallelism


def surplus(job: JobView, pods: list[JobPod]) -> list[JobPod]:
    """Return the active pods beyond the Job's parallelism, highest index first."""
    active = [pod for pod in pods if pod.active]
    return active[_parallelism(job) :][::-1]


def new_pod(stored: Stored, index: int | None) -> Json:
    """Return the body of a new pod of a Job."""
    job = stored.body()
    template = job["spec"]["template"]
    metadata = dict(template.get("metadata", {}))
    spec = template["spec"]
    metadata["generateName"] = f"{stored.name}-" if index is None else f"{stored.name}-{index}-"
    metadata["finalizers"] = [JOB_TRACKING]
    metadata["ownerReferences"] = [
        {
            "apiVersion": JOB.api_version,
            "kind": JOB.kind,
            "name": stored.name,
            "uid": stored.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        },
    ]
    if index is not None:
        metadata["annotations"] = metadata.get("annotations", {}) | {COMPLETION_INDEX: str(index)}
        metadata["labels"] = metadata.get("labels", {}) | {COMPLETION_INDEX: str(index)}
        spec.setdefault("hostname", f"{stored.name}-{index}")
        source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
        for container in spec.get("containers", []):
            container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "valueFrom": source})
    return {"metadata": metadata, "spec": spec}
