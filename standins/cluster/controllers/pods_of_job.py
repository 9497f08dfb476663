"""The pods of one Job: which exist, which are not counted, which are missing, a new one.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from dataclasses import dataclass
from typing import Any

from standins.cluster.objects.label_names import COMPLETION_INDEX, JOB_TRACKING
from standins.cluster.objects.shapes import JobView, PodView
from standins.cluster.store.kinds import POD
from standins.cluster.store.object_store import Store
from standins.cluster.store.stored import Stored

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
    """Return whether a pod counts against the back-off limit: failed, or deleted by others."""
    if pod.view.status.phase == "Failed":
        return True
    return pod.terminating and not job.spec.suspend


def missing_indexes(job: JobView, pods: list[JobPod], completed: set[int]) -> list[int | None]:
    """Return the completion indexes that need a pod, leader first; None for a pod without index."""
    active = [pod for pod in pods if pod.active]
    room = job.spec.pods_at_once - len(active)
    if job.spec.completion_mode == "Indexed":
        taken = {pod.index for pod in active} | completed
        free: list[int | None] = [index for index in range(job.spec.completions or 0) if index not in taken]
    else:
        wanted = job.spec.pods_at_once
        if job.spec.completions is not None:
            wanted = min(wanted, job.spec.completions - job.status.succeeded)
        free = [None] * max(0, wanted - len(active))
    return free[: max(0, room)]


def surplus(job: JobView, pods: list[JobPod]) -> list[JobPod]:
    """Return the active pods beyond the Job's parallelism, highest index first."""
    active = [pod for pod in pods if pod.active]
    return active[job.spec.pods_at_once :][::-1]


def new_pod(stored: Stored, index: int | None) -> Json:
    """Return the body of a new pod of a Job."""
    job = stored.body()
    template = job["spec"]["template"]
    metadata = dict(template.get("metadata", {}))
    spec = template["spec"]
    metadata["generateName"] = f"{stored.name}-" if index is None else f"{stored.name}-{index}-"
    metadata["finalizers"] = [JOB_TRACKING]
    metadata["ownerReferences"] = [stored.as_controller()]
    if index is not None:
        metadata["annotations"] = metadata.get("annotations", {}) | {COMPLETION_INDEX: str(index)}
        metadata["labels"] = metadata.get("labels", {}) | {COMPLETION_INDEX: str(index)}
        spec.setdefault("hostname", f"{stored.name}-{index}")
        source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
        for container in spec.get("containers", []):
            container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "valueFrom": source})
    return {"metadata": metadata, "spec": spec}


def parse_indexes(text: str) -> set[int]:
    """Return the indexes that a `completedIndexes` text names, such as `0-3,7`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def format_indexes(indexes: set[int]) -> str:
    """Return indexes as text; three or more in a row are written as `first-last`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)  # noqa: PLR2004
