"""Pods and JobSets as the API server would send them, with overrides for what a test is about."""

from typing import Any

CLUSTER = "projects/p/locations/us-east5/clusters/c"
TOPIC = "projects/p/topics/workload-events"
SINCE = "2026-11-20T10:00:00Z"
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train-slice-0", "uid": "job-1", "controller": True}
LABELS = {
    "jobset.sigs.k8s.io/jobset-name": "train",
    "jobset.sigs.k8s.io/jobset-uid": "jobset-1",
    "jobset.sigs.k8s.io/job-key": "4f" * 20,
    "batch.kubernetes.io/job-completion-index": "0",
}
SELECTOR = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice", "cloud.google.com/gke-tpu-topology": "2x2x2"}
CONTAINERS = {"containers": [{"name": "main", "resources": {"limits": {"google.com/tpu": "4"}}}]}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
COMPLETED, SUSPENDED = ("Completed", "True", SINCE), ("Suspended", "True", SINCE)


def a_leader(uid: str = "pod-1", version: str = "101", **overrides: Any) -> dict[str, Any]:
    """An unschedulable leader of a JobSet slice on TPU nodes.

    Overrides: labels, annotations; spec, status and metadata, which are merged.
    """
    labels = overrides.get("labels", LABELS)
    metadata = {
        "name": f"train-slice-0-0-{uid}",
        "namespace": "team-a",
        "uid": uid,
        "resourceVersion": version,
        "creationTimestamp": None,
        "labels": labels,
        "annotations": overrides.get("annotations", {}),
        "ownerReferences": [JOB] if labels else [],
        "managedFields": [{"manager": "kube-controller-manager", "fieldsV1": {"f:metadata": {}}}],
    }
    return {
        "metadata": metadata | overrides.get("metadata", {}),
        "spec": {"nodeSelector": SELECTOR, **CONTAINERS} | overrides.get("spec", {}),
        "status": {"phase": "Pending", "conditions": [UNSCHEDULABLE]} | overrides.get("status", {}),
    }


def a_jobset(uid: str = "jobset-1", version: str = "101", *, replicas: int = 1, **parts: Any) -> dict[str, Any]:
    """A JobSet; its parts: conditions (type, status, since), deleting and managed_by."""
    metadata = {"name": "train", "namespace": "team-a", "uid": uid, "generation": 1, "resourceVersion": version}
    job = {"name": "slice", "replicas": replicas, "template": {"spec": {"template": {"spec": CONTAINERS}}}}
    names = ("type", "status", "lastTransitionTime")
    conditions = [dict(zip(names, each, strict=True)) for each in parts.get("conditions", ())]
    return {
        "metadata": metadata | ({"deletionTimestamp": parts["deleting"]} if "deleting" in parts else {}),
        "spec": {"replicatedJobs": [job], "managedBy": parts.get("managed_by")},
        "status": {"conditions": conditions},
    }
