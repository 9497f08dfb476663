"""Builders of the objects that the cluster's tests submit."""

from typing import Any

Json = dict[str, Any]

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
POOL = "cloud.google.com/gke-nodepool"
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


def pod(name: str, **spec: Any) -> Json:
    body = {"containers": [{"name": "main", "image": "main"}]} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}
