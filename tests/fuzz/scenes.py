"""One real workload of each kind with its first pod, as the API server shows them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from shared.edges.pods import read_workload
from shared.kinds.kind import Kind
from shared.kinds.table import KINDS
from shared.model import labels
from tests.slices import list_slices

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_FILES = {
    "JobSet": ("v6e-two-slices.yaml", "pathways-head.yaml", "v6e-node-selector.yaml"),
    "RayCluster": ("kinds/raycluster-v6e-multihost.yaml", "kinds/raycluster-gpu-elastic.yaml"),
    "LeaderWorkerSet": ("kinds/leaderworkerset-v6e-serving.yaml",),
    "Job": ("kinds/job-v6e-multihost.yaml", "kinds/job-l4-gpu.yaml"),
    "Deployment": ("kinds/deployment-v5e-serving.yaml",),
    "StatefulSet": ("kinds/statefulset-v6e-slice.yaml",),
    "Pod": ("kinds/pod-v6e-lab.yaml",),
}
SINCE = "2027-01-15T07:59:00Z"
"""A minute before the worlds' present."""
_UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": SINCE}
    ],
}
_STATUS: dict[str, dict[str, Any]] = {
    "JobSet": {
        "conditions": [{"type": "Suspended", "status": "False", "lastTransitionTime": SINCE}],
        "replicatedJobsStatus": [{"name": "slice", "active": 1, "ready": 0}],
    },
    "RayCluster": {
        "availableWorkerReplicas": 1,
        "conditions": [{"type": "RayClusterSuspended", "status": "False", "lastTransitionTime": SINCE}],
    },
    "LeaderWorkerSet": {
        "replicas": 2,
        "conditions": [{"type": "UpdateInProgress", "status": "False", "lastTransitionTime": SINCE}],
    },
    "Job": {"active": 1, "completedIndexes": "", "conditions": [{"type": "Suspended", "status": "False"}]},
    "Deployment": {"replicas": 1},
    "StatefulSet": {"replicas": 1},
    "Pod": _UNSCHEDULABLE,
}
_MORE: dict[str, dict[tuple[str, ...], Any]] = {
    "Deployment": {
        ("spec", "strategy"): {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
        ("status", "replicas"): 9,
    },
    "LeaderWorkerSet": {
        ("spec", "rolloutStrategy", "rollingUpdateConfiguration", "maxSurge"): "50%",
        ("status", "replicas"): 3,
    },
    "RayCluster": {
        ("metadata", "ownerReferences"): [
            {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "ray", "uid": "uid-of-ray", "controller": True}
        ]
    },
}
"""What controllers and authors add to the examples: fields whose numbers decisions read."""
_CONTROLLERS = {
    "JobSet": ("Job", "batch/v1", ""),
    "Deployment": ("ReplicaSet", "apps/v1", "-7c9f"),
    "LeaderWorkerSet": ("StatefulSet", "apps/v1", ""),
}
"""What controls the pods where it is not the workload, and the end of its name."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A workload that waits for its first pool."""

    kind: Kind
    name: str
    workload: bytes
    pod: bytes


def list_scenes() -> tuple[Scene, ...]:
    """Return the scenes of all kinds; a kind without one is an error."""
    return tuple(_make(kind, EXAMPLES / file) for kind in KINDS for file in _FILES[kind.name])


def _make(kind: Kind, path: Path) -> Scene:
    documents = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    body = next(each for each in documents if each and each.get("kind") == kind.name)
    name = body["metadata"]["name"]
    body["metadata"] |= {"namespace": "default", "uid": f"uid-of-{name}", "generation": 3, "resourceVersion": "70"}
    body["metadata"] |= {"creationTimestamp": SINCE, "labels": {"team": "a"}}
    body["status"] = _STATUS[kind.name]
    for keys, value in _MORE.get(kind.name, {}).items():
        _set(body, keys, value)
    pod = body if kind.name == "Pod" else _make_pod(kind, body)
    return Scene(kind=kind, name=name, workload=json.dumps(body).encode(), pod=json.dumps(pod).encode())


def _make_pod(kind: Kind, body: Any) -> Any:
    """Return the pod that leads the first slice, with what the kind's controller writes into it."""
    name = body["metadata"]["name"]
    first = list_slices(read_workload(kind, body))[0]
    template, uid = _find_template(body["spec"], first.group.name), body["metadata"]["uid"]
    of_kind, version, suffix = _CONTROLLERS.get(kind.name, (kind.name, kind.api_version, ""))
    owner_name = first.name if kind.name == "JobSet" else f"{name}{suffix}"
    owner = {"kind": of_kind, "apiVersion": version, "name": owner_name, "uid": uid, "controller": True}
    pod_name = f"{name}-0" if of_kind == "StatefulSet" else f"{first.name}-0-abcde"
    written: dict[str, dict[str, str]] = {
        "Deployment": {"pod-template-hash": "7c9f"},
        "StatefulSet": {"statefulset.kubernetes.io/pod-name": pod_name},
        "LeaderWorkerSet": {
            "leaderworkerset.sigs.k8s.io/name": name,
            "leaderworkerset.sigs.k8s.io/group-index": "0",
            "leaderworkerset.sigs.k8s.io/worker-index": "0",
        },
        "JobSet": {
            "jobset.sigs.k8s.io/job-key": "key-of-it",
            "jobset.sigs.k8s.io/jobset-name": name,
            "jobset.sigs.k8s.io/replicatedjob-name": first.group.name,
            "jobset.sigs.k8s.io/job-index": "0",
            labels.COMPLETION_INDEX: "0",
        },
        "RayCluster": {
            "ray.io/cluster": name,
            "ray.io/group": first.group.name,
            "ray.io/node-type": "worker",
            "ray.io/worker-group-replica-index": "0",
        },
        "Job": {"batch.kubernetes.io/job-name": name, labels.COMPLETION_INDEX: "0"},
    }
    pod_labels = first.group.template.labels | written.get(kind.name, {})
    metadata = template.get("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name,
            "namespace": "default",
            "uid": f"uid-of-{pod_name}",
            "resourceVersion": "71",
            "creationTimestamp": SINCE,
            "labels": metadata.get("labels", {}) | pod_labels,
            "annotations": metadata.get("annotations", {}) | dict(first.group.template.annotations),
            "ownerReferences": [owner],
        },
        "spec": template["spec"]
        | {"nodeSelector": {key: values[0] for key, values in first.group.template.selection.items()}},
        "status": _UNSCHEDULABLE,
    }


def _set(body: Any, path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        body = body.setdefault(key, {})
    body[path[-1]] = value


def _find_template(spec: Any, group: str) -> Any:
    """Return the pod template of a group, or of the pods that lead."""
    for job in spec.get("replicatedJobs", ()):
        if job["name"] == group:
            return job["template"]["spec"]["template"]
    for path in (("leaderWorkerTemplate", "leaderTemplate"), ("workerGroupSpecs", 0, "template"), ("template",)):
        if path[0] in spec:
            found = spec
            for key in path:
                found = found[key]
            return found
    raise AssertionError(f"no pod template in {spec}")
