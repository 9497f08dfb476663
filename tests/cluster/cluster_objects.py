"""Builders of the objects that the cluster's tests submit, and of a cluster on a manual clock."""

from __future__ import annotations

from typing import Any

from local.cluster.clock import ManualClock
from local.cluster.cluster import Cluster
from local.cluster.deletion import BACKGROUND_NOW, delete
from local.cluster.store.kinds import EVENT, JOB, JOBSET, NODE, POD, Kind

Json = dict[str, Any]

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR_STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"
POOL = "cloud.google.com/gke-nodepool"
INDEX = "batch.kubernetes.io/job-completion-index"
TPU_SELECTOR = {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
    "cloud.google.com/gke-tpu-topology": "4x4",
}


def replicated_job(name: str = "slice", *, replicas: int = 1, pods: int = 2, **extra: Any) -> Json:
    container = {"name": "worker", "image": "worker", "resources": {"limits": {"google.com/tpu": 4}}}
    pod_spec = {"restartPolicy": "Never", "nodeSelector": dict(TPU_SELECTOR), "containers": [container]}
    job_spec = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": {"spec": pod_spec}}
    return {"name": name, "replicas": replicas, "template": {"spec": job_spec}} | extra


def jobset(name: str = "train", *jobs: Json, exclusive: bool = True, **spec: Any) -> Json:
    annotations = {EXCLUSIVE: POOL} if exclusive else {}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"replicatedJobs": list(jobs) or [replicated_job()]} | spec,
    }


def node(pool: str, index: int, *, labels: Json | None = None, taints: list[Json] | None = None) -> Json:
    offered = {"google.com/tpu": "4", "cpu": "180", "memory": "700Gi", "pods": "110"}
    tpu_taint = {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"{pool}-{index}", "labels": TPU_SELECTOR | {POOL: pool} | (labels or {})},
        "spec": {"taints": [tpu_taint, *(taints or [])]},
        "status": {
            "capacity": offered,
            "allocatable": offered,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name: str, **spec: Any) -> Json:
    body = {"containers": [{"name": "main", "image": "main"}]} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


class World:
    """A cluster on a manual clock, with the sentences the tests are written in."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.cluster = Cluster(self.clock)
        self.registry = self.cluster.registry
        self.store = self.cluster.store

    def settle(self, seconds: float = 0.5) -> None:
        self.cluster.settle(seconds=seconds)

    def submit(self, kind: Kind, body: Json, namespace: str = "default") -> Json:
        created = self.registry.create(kind, body, namespace if kind.namespaced else "")
        self.settle()
        return created.body()

    def add_pool(self, pool: str, nodes: int = 2, **extra: Any) -> None:
        for index in range(nodes):
            self.registry.create(NODE, node(pool, index, **extra))
        self.settle()

    def body(self, kind: Kind, name: str, namespace: str = "default") -> Json:
        return self.registry.get(kind, namespace if kind.namespaced else "", name).body()

    def jobset(self, name: str = "train") -> Json:
        return self.body(JOBSET, name)

    def names(self, kind: Kind) -> list[str]:
        return [stored.name for stored in self.store.objects(kind)]

    def pods(self) -> list[Json]:
        return [stored.body() for stored in self.store.objects(POD)]

    def jobs(self) -> list[Json]:
        return [stored.body() for stored in self.store.objects(JOB)]

    def reasons(self) -> list[str]:
        return [stored.body()["reason"] for stored in self.store.objects(EVENT)]

    def indexes(self) -> list[str]:
        return [found["metadata"]["annotations"][INDEX] for found in self.pods()]

    def bound(self) -> dict[str, str]:
        return {
            found["metadata"]["name"].rsplit("-", 1)[0]: found["spec"].get("nodeName", "") for found in self.pods()
        }

    def set_phase(self, phase: str, *, job: str = "") -> None:
        """Let all pods (of one Job) reach a phase, as a kubelet would report it."""
        for found in self.pods():
            labels = found["metadata"]["labels"]
            if job and labels["batch.kubernetes.io/job-name"] != job:
                continue
            status = found["status"] | {"phase": phase}
            if phase == "Running":
                status["conditions"] = [*status.get("conditions", []), {"type": "Ready", "status": "True"}]
            self.registry.replace(POD, "default", found["metadata"]["name"], {"status": status}, status_only=True)
        self.settle()

    def remove_terminating_pods(self) -> None:
        """Let all pods that are being deleted go, as a kubelet does at the end of their grace."""
        for stored in tuple(self.store.objects(POD)):
            if "deletionTimestamp" in stored.body()["metadata"]:
                delete(self.registry, stored, BACKGROUND_NOW)
        self.settle()

    def edit_jobset(self, name: str = "train", **spec: Any) -> None:
        body = self.jobset(name)
        body["spec"] |= spec
        self.registry.replace(JOBSET, "default", name, body)
        self.settle()

    def condition(self, condition_type: str, name: str = "train") -> Json | None:
        conditions = self.jobset(name).get("status", {}).get("conditions", [])
        return next((found for found in conditions if found["type"] == condition_type), None)
