"""Pods and workloads of each kind of the table, as its controller labels and owns them.

They are equal in all else. A kind of the table that has no sample here is named when it is asked
for, so that none is forgotten.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.sample_objects import (
    NUMBER,
    Template,
    fresh_leader,
    owned_pod,
    running_jobset,
    template_spec,
    waiting_leader,
    workload,
)

Json = dict[str, Any]
_UID = f"3c2e9d44-7f10-4b6a-9e21-000{NUMBER}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One kind: the pods that speak for a slice each, and the workloads that made them."""

    path: str
    """End of the path of the workloads' list; empty where the pods are the workloads themselves."""
    fresh: Template
    """Pods that the scheduler has not looked at: in the watch, and no demand."""
    waiting: Template
    running: Template


def _sample(path: str, pod: Callable[..., Template], running: Template) -> Sample:
    return Sample(path=path, fresh=pod(waits=False), waiting=pod(waits=True), running=running)


def _jobset_pod(*, waits: bool) -> Template:
    return waiting_leader() if waits else fresh_leader()


def _ray_pod(*, waits: bool) -> Template:
    name = f"ray-{NUMBER}"
    pod_labels = {
        "app.kubernetes.io/created-by": "kuberay-operator",
        "app.kubernetes.io/name": "kuberay",
        "ray.io/cluster": name,
        "ray.io/group": "slices",
        "ray.io/identifier": f"{name}-worker",
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": "worker",
        "ray.io/replica-host-index": "0",
        "ray.io/worker-group-replica-index": "0",
        "ray.io/worker-group-replica-name": "slices-x7k2p",
    }
    return owned_pod(
        f"{name}-slices-worker-x7k2p", pod_labels, _owner("ray.io/v1", "RayCluster", name), waits=waits
    )


def _ray_cluster() -> Template:
    group = {"groupName": "slices", "replicas": 1, "minReplicas": 0, "maxReplicas": 4, "numOfHosts": 4}
    head = {"rayStartParams": {}, "template": {"spec": template_spec()}}
    workers = group | {"rayStartParams": {}, "template": {"metadata": {}, "spec": template_spec()}}
    spec = {"rayVersion": "2.52.0", "headGroupSpec": head, "workerGroupSpecs": [workers]}
    return workload("ray.io/v1", "RayCluster", f"ray-{NUMBER}", spec, {"state": "ready"})


def _leader_pod(*, waits: bool) -> Template:
    name, prefix = f"serve-{NUMBER}", "leaderworkerset.sigs.k8s.io/"
    pod_labels = {
        f"{prefix}name": name,
        f"{prefix}group-index": "0",
        f"{prefix}worker-index": "0",
        f"{prefix}group-key": f"1f3870be274f6c49b3e31a0c672895{NUMBER}7",
        f"{prefix}template-revision-hash": "6f6c8d6b9",
        "apps.kubernetes.io/pod-index": "0",
        "statefulset.kubernetes.io/pod-name": f"{name}-0",
    }
    return owned_pod(
        f"{name}-0", pod_labels, _owner("apps/v1", "StatefulSet", name), {f"{prefix}size": "4"}, waits=waits
    )


def _leader_worker_set() -> Template:
    template = {"size": 4, "workerTemplate": {"metadata": {}, "spec": template_spec()}}
    spec = {"replicas": 1, "leaderWorkerTemplate": template}
    return workload("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", f"serve-{NUMBER}", spec, {"replicas": 1})


def _job_pod(*, waits: bool) -> Template:
    name = f"batch-{NUMBER}"
    pod_labels = {
        "batch.kubernetes.io/controller-uid": _UID,
        "batch.kubernetes.io/job-completion-index": "0",
        "batch.kubernetes.io/job-name": name,
        "controller-uid": _UID,
        "job-name": name,
    }
    return owned_pod(f"{name}-0-x7k2p", pod_labels, _owner("batch/v1", "Job", name), waits=waits)


def _job() -> Template:
    job = {"parallelism": 4, "completions": 4, "completionMode": "Indexed", "backoffLimit": 0}
    spec = job | {"template": {"metadata": {}, "spec": template_spec()}}
    return workload("batch/v1", "Job", f"batch-{NUMBER}", spec, {"active": 4})


def _served_pod(*, waits: bool) -> Template:
    name, revision = f"web-{NUMBER}", "6f6c8d6b9"
    owner = _owner("apps/v1", "ReplicaSet", f"{name}-{revision}")
    pod_labels = {"app": name, "pod-template-hash": revision}
    return owned_pod(f"{name}-{revision}-x7k2p", pod_labels, owner, waits=waits)


def _stateful_pod(*, waits: bool) -> Template:
    name = f"store-{NUMBER}"
    pod_labels = {"apps.kubernetes.io/pod-index": "0", "statefulset.kubernetes.io/pod-name": f"{name}-0"}
    return owned_pod(f"{name}-0", pod_labels, _owner("apps/v1", "StatefulSet", name), waits=waits)


def _bare_pod(*, waits: bool) -> Template:
    return owned_pod(f"lab-{NUMBER}", {"app": "lab"}, None, waits=waits)


def _replicated(kind: str, name: str) -> Template:
    spec = {"replicas": 1, "template": {"metadata": {}, "spec": template_spec()}}
    return workload("apps/v1", kind, f"{name}-{NUMBER}", spec, {"replicas": 1})


def _owner(api_version: str, kind: str, name: str) -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": _UID, "controller": True}


SAMPLES: dict[str, Callable[[], Sample]] = {
    "JobSet": lambda: _sample("jobsets", _jobset_pod, running_jobset()),
    "RayCluster": lambda: _sample("rayclusters", _ray_pod, _ray_cluster()),
    "LeaderWorkerSet": lambda: _sample("leaderworkersets", _leader_pod, _leader_worker_set()),
    "Job": lambda: _sample("jobs", _job_pod, _job()),
    "Deployment": lambda: _sample("deployments", _served_pod, _replicated("Deployment", "web")),
    "StatefulSet": lambda: _sample("statefulsets", _stateful_pod, _replicated("StatefulSet", "store")),
    "Pod": lambda: _sample("", _bare_pod, _bare_pod(waits=False)),
}
"""By kind; made when they are asked for."""
