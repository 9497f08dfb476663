"""The objects that the scenes submit."""

from typing import Any

Json = dict[str, Any]

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
POOL = "cloud.google.com/gke-nodepool"
TPU = "google.com/tpu"
SELECTOR = {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice", "cloud.google.com/gke-tpu-topology": "2x4"}
PINNED = {EXCLUSIVE: POOL, NODE_SELECTOR: "true"}


def replicated_job(
    name: str = "slice", *, replicas: int = 1, pods: int = 2, selector: Json | None = None, **extra: Any
) -> Json:
    """A replicated job of TPU slices; `backoff` is its limit, `pod` has fields of the pods."""
    container = {"name": "worker", "image": "worker", "resources": {"limits": {TPU: 4}}}
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": SELECTOR | (selector or {}),
        "containers": [container],
    } | extra.pop("pod", {})
    job = {
        "parallelism": pods,
        "completions": pods,
        "backoffLimit": extra.pop("backoff", 0),
        "template": {"spec": pod, **extra.pop("template", {})},
    }
    return {"name": name, "replicas": replicas, "template": {"spec": job}} | extra


def light_job(name: str, *, pods: int = 1, replicas: int = 1, **extra: Any) -> Json:
    """A replicated job whose pods only tolerate the TPU taint, so that many share a node."""
    tolerations = [{"key": TPU, "operator": "Exists", "effect": "NoSchedule"}]
    container = {"name": "worker", "image": "worker"}
    fields = {"containers": [container], "tolerations": tolerations}
    return replicated_job(name, pods=pods, replicas=replicas, pod=fields, **extra)


def jobset(name: str, *jobs: Json, annotations: Json | None = None, **spec: Any) -> Json:
    """A JobSet; exclusive placement unless other annotations are given."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": {EXCLUSIVE: POOL} if annotations is None else annotations},
        "spec": {"replicatedJobs": list(jobs) or [replicated_job()]} | spec,
    }


def bare_pod(name: str, *, labels: Json | None = None, **spec: Any) -> Json:
    """A pod of nobody."""
    body = {"containers": [{"name": "main", "image": "main"}], "nodeSelector": {"wanted": "never"}} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": body}
