"""Pods and JobSets as an API server of GKE sends them, with managed fields: 7-15 KB of JSON each.

Built as bytes with marks for what differs, because the stand-in sends hundreds of megabytes of
them. They are leaders of slices of 4x4 chips on v6e machines, which the provisioner answers with
one create.
"""

import json
from typing import Any

CLUSTER = "projects/bench-project/locations/us-east5/clusters/bench"
TOPIC = "projects/bench-project/topics/workload-events"
NAMESPACE = "team-a"
NUMBER = "NNNNNNNNN"
"""The mark that every object's own number takes the place of; of the same length as that number."""
_VERSION = "VVVVVVVVV"
SINCE = "2026-11-20T10:00:00Z"
"""Every time in a sample."""
_UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "lastTransitionTime": SINCE,
    "reason": "Unschedulable",
    "message": "0/812 nodes are available: 112 node(s) had untolerated taint(s), "
    "700 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, "
    "preemption: 0/812 nodes are available: 812 Preemption is not helpful for scheduling.",
}


class Template:
    """One kind of object, of which any number can be made cheaply."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.labels: dict[str, str] = body["metadata"].get("labels", {})
        """Values may hold the mark; a selector asks for what does not differ."""
        self._text = json.dumps(body, separators=(",", ":"))

    def make(self, number: int, version: int = 1) -> bytes:
        """Return the JSON of object `number` at a version."""
        return self._text.replace(NUMBER, f"{number:09d}").replace(_VERSION, f"{version:09d}").encode()


def waiting_leader() -> Template:
    """Return leaders that the scheduler has called unschedulable."""
    return Template(_pod([_UNSCHEDULABLE]))


def fresh_leader() -> Template:
    """Return leaders that the scheduler has not looked at yet: in the watch, and no demand."""
    return Template(_pod([]))


def running_jobset() -> Template:
    """Return JobSets that run."""
    return Template(_jobset([]))


def completed_jobset() -> Template:
    """Return JobSets that are over."""
    over = {"type": "Completed", "status": "True", "lastTransitionTime": SINCE, "reason": "AllJobsCompleted"}
    return Template(_jobset([over]))


def owned_pod(
    name: str,
    labels: dict[str, str],
    owner: dict[str, Any] | None,
    annotations: dict[str, str] | None = None,
    *,
    waits: bool,
) -> Template:
    """Return pods of another controller or none, unschedulable or not seen by a scheduler."""
    body = _pod([_UNSCHEDULABLE] if waits else [])
    body["metadata"] |= {
        "name": name,
        "generateName": "",
        "labels": labels | {"team": "research", "cost-center": "cc-1187"},
        "annotations": annotations or {},
        "ownerReferences": [owner] if owner else [],
        "finalizers": [],
        "managedFields": _managed_fields("kube-controller-manager", body["spec"], labels),
    }
    return Template(body)


def workload(api_version: str, kind: str, name: str, spec: dict[str, Any], status: dict[str, Any]) -> Template:
    """Return workloads of some other kind, with the metadata that all have."""
    own_labels = {"team": "research", "cost-center": "cc-1187"}
    fields = _managed_fields("kubectl-client-side-apply", template_spec(), own_labels)
    uid = f"3c2e9d44-7f10-4b6a-9e21-000{NUMBER}"
    metadata = _metadata(name, uid, annotations={}, labels=own_labels, managedFields=fields)
    return Template(
        {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "status": status}
    )


def jobset_name(number: int) -> str:
    """Return the name of JobSet `number`."""
    return f"train-{number:09d}"


def jobset_uid(number: int) -> str:
    """Return the UID of JobSet `number`."""
    return f"3c2e9d44-7f10-4b6a-9e21-000{number:09d}"


def _metadata(name: str, uid: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": NAMESPACE,
        "uid": uid,
        "resourceVersion": _VERSION,
        "generation": 1,
        "creationTimestamp": SINCE,
        **fields,
    }


def _pod(conditions: list[dict[str, Any]]) -> dict[str, Any]:
    jobset, job = f"train-{NUMBER}", f"train-{NUMBER}-slice-0"
    identity = {
        "batch.kubernetes.io/controller-uid": f"5b7d21c0-1e0f-4c55-a3f3-000{NUMBER}",
        "batch.kubernetes.io/job-completion-index": "0",
        "batch.kubernetes.io/job-name": job,
        "jobset.sigs.k8s.io/global-replicas": "1",
        "jobset.sigs.k8s.io/job-global-index": "0",
        "jobset.sigs.k8s.io/job-index": "0",
        "jobset.sigs.k8s.io/job-key": f"1f3870be274f6c49b3e31a0c672895{NUMBER}7",
        "jobset.sigs.k8s.io/jobset-name": jobset,
        "jobset.sigs.k8s.io/jobset-uid": f"3c2e9d44-7f10-4b6a-9e21-000{NUMBER}",
        "jobset.sigs.k8s.io/replicatedjob-name": "slice",
        "jobset.sigs.k8s.io/replicatedjob-replicas": "1",
        "jobset.sigs.k8s.io/restart-attempt": "0",
    }
    topology = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job,
        "uid": f"5b7d21c0-1e0f-4c55-a3f3-000{NUMBER}",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(
            f"{job}-0-x7k2p",
            f"9a1f6c1e-55b0-4c1d-8a77-000{NUMBER}",
            generateName=f"{job}-0-",
            labels=identity | {"team": "research", "cost-center": "cc-1187"},
            annotations=identity | topology,
            ownerReferences=[owner],
            finalizers=["batch.kubernetes.io/job-tracking"],
            managedFields=_managed_fields("kube-controller-manager", template_spec(), identity),
        ),
        "spec": template_spec(),
        "status": {"phase": "Pending", "conditions": conditions, "qosClass": "Burstable"},
    }


def template_spec() -> dict[str, Any]:
    """Return the spec that all pods have."""
    tolerations = [
        {
            "key": "node.kubernetes.io/not-ready",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        },
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
        {"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"},
    ]
    return {
        "volumes": [
            {"name": "checkpoints", "csi": {"driver": "gcsfuse.csi.storage.gke.io", "readOnly": False}},
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
            {
                "name": "kube-api-access-h5m2q",
                "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "token"}}]},
            },
        ],
        "containers": [
            _container("trainer", 92, {"google.com/tpu": "4", "memory": "400Gi"}),
            _container("logs", 12, {}),
        ],
        "initContainers": [_container("fetch", 6, {"memory": "1Gi"})],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "nodeSelector": {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
            "cloud.google.com/gke-tpu-topology": "4x4",
        },
        "serviceAccountName": "trainer",
        "hostNetwork": True,
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": tolerations,
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _container(name: str, variables: int, limits: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "image": "us-docker.pkg.dev/cloud-tpu-images/jax-stable-stack/tpu:jax0.5.2-rev1",
        "command": ["bash", "-c", "set -eux; python3 -m MaxText.train MaxText/configs/base.yml steps=1000 " * 2],
        "env": [
            {"name": f"SETTING_{n}_OF_{name.upper()}", "value": f"value-{n}-of-a-setting"}
            for n in range(variables)
        ],
        "ports": [{"containerPort": 8471, "hostPort": 8471, "protocol": "TCP"}],
        "resources": {"limits": limits, "requests": limits},
        "volumeMounts": [
            {"name": "checkpoints", "mountPath": "/checkpoints"},
            {"name": "shared-memory", "mountPath": "/dev/shm"},
        ],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"privileged": True},
    }


def _managed_fields(writer: str, spec: dict[str, Any], identity: dict[str, str]) -> list[dict[str, Any]]:
    containers: dict[str, Any] = {
        f'k:{{"name":"{container["name"]}"}}': {
            ".": {},
            **{f"f:{key}": {} for key in container if key != "env"},
            "f:env": {
                ".": {},
                **{
                    f'k:{{"name":"{each["name"]}"}}': {".": {}, "f:name": {}, "f:value": {}}
                    for each in container["env"]
                },
            },
        }
        for container in spec["containers"]
    }
    metadata: dict[str, Any] = {
        f"f:{part}": {".": {}, **{f"f:{key}": {} for key in identity}} for part in ("labels", "annotations")
    }
    fields = {"f:metadata": metadata, "f:spec": {"f:containers": containers, **{f"f:{key}": {} for key in spec}}}
    return [
        {"manager": writer, "operation": "Update", "apiVersion": "v1", "time": SINCE, "fieldsV1": fields},
        {
            "manager": "kube-scheduler",
            "operation": "Update",
            "apiVersion": "v1",
            "time": SINCE,
            "fieldsV1": {
                "f:status": {"f:conditions": {".": {}, 'k:{"type":"PodScheduled"}': {".": {}, "f:reason": {}}}}
            },
            "subresource": "status",
        },
    ]


def _jobset(conditions: list[dict[str, Any]]) -> dict[str, Any]:
    spec = template_spec()
    name = f"train-{NUMBER}"
    job = {"parallelism": 4, "completions": 4, "completionMode": "Indexed", "backoffLimit": 0}
    active = 0 if conditions else 1
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _metadata(
            name,
            f"3c2e9d44-7f10-4b6a-9e21-000{NUMBER}",
            annotations={"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"},
            labels={"team": "research", "cost-center": "cc-1187"},
            managedFields=_managed_fields("kubectl-client-side-apply", spec, {"team": "research"}),
        ),
        "spec": {
            "replicatedJobs": [
                {
                    "name": "slice",
                    "replicas": 1,
                    "template": {"metadata": {}, "spec": {**job, "template": {"metadata": {}, "spec": spec}}},
                }
            ],
            "failurePolicy": {"maxRestarts": 3},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": []},
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "suspend": False,
        },
        "status": {
            "conditions": conditions,
            "replicatedJobsStatus": [
                {"name": "slice", "ready": 0, "succeeded": 0, "failed": 0, "active": active, "suspended": 0}
            ],
            "restarts": 0,
        },
    }
