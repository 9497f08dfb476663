"""The JobSets of the lives: small TPU workloads as manifests, built from a few words.

What lives here: bodies only. What a pod does (how long it runs, whether it fails) is said by the
annotations that the local stack's simulated kubelet reads.
"""

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}
PINNED = EXCLUSIVE | {"alpha.jobset.sigs.k8s.io/node-selector": "true"}
ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
RUN_SECONDS = "local.tpu-provisioner/run-seconds"
EXIT_CODE = "local.tpu-provisioner/exit-code"
FAIL_ATTEMPTS = "local.tpu-provisioner/fail-attempts"
LIFE = "lives.example.com/life"
"""A selector of one's own: it becomes a label of the pool, and no other life's pods select it."""
HOSTS = {"2x2": 1, "2x4": 2, "4x4": 4}
"""Hosts of four chips each that a v6e slice of a topology has."""
GRACE_SECONDS = 30
"""What a pod gets to end by; virtual for the kubelet."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One replicated job: `replicas` slices of a topology, or pods without chips if it is empty."""

    name: str = "slice"
    replicas: int = 1
    topology: str = "2x4"
    pods: int = 0
    """0: one for each host of the topology."""
    does: dict[str, str] = field(default_factory=dict)
    """The kubelet's annotations."""
    selector: dict[str, str] = field(default_factory=dict)
    """Further node selectors; see `LIFE`."""
    annotations: dict[str, str] = field(default_factory=dict)
    """Of the Job."""

    def body(self) -> Json:
        """Return the entry of ``spec.replicatedJobs``."""
        pods = self.pods or HOSTS.get(self.topology, 1)
        container: Json = {"name": "worker", "image": "worker"}
        if self.topology:
            container["resources"] = {"limits": {"google.com/tpu": 4}}
        pod: Json = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "nodeSelector": select(self.topology) | self.selector,
            "containers": [container],
        }
        template = {"metadata": {"annotations": self.does}, "spec": pod}
        job = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template}
        return {
            "name": self.name,
            "replicas": self.replicas,
            "template": {"metadata": {"annotations": self.annotations}, "spec": job},
        }


def select(topology: str) -> dict[str, str]:
    """Return the node selectors of a v6e slice; none for pods without chips."""
    return {ACCELERATOR: "tpu-v6e-slice", TOPOLOGY: topology} if topology else {}


def jobset(name: str, *jobs: Job, annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    """Return a JobSet, by default of one 2x4 slice, exclusive by pool; `spec` has more fields."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": EXCLUSIVE if annotations is None else annotations},
        "spec": {"replicatedJobs": [job.body() for job in jobs or (Job(),)]} | spec,
    }


def alone(body: Json) -> Json:
    """Return the JobSet with slices that no other JobSet's pools can serve."""
    for job in body["spec"]["replicatedJobs"]:
        selectors = job["template"]["spec"]["template"]["spec"].get("nodeSelector")
        if selectors:
            selectors[LIFE] = body["metadata"]["name"]
    return body


def runs(virtual_seconds: float) -> dict[str, str]:
    """Return the annotation of pods that run for so long and succeed."""
    return {RUN_SECONDS: f"{virtual_seconds:g}"}


def fails(virtual_seconds: float = 20) -> dict[str, str]:
    """Return the annotations of pods that run for so long and fail, always."""
    return runs(virtual_seconds) | {EXIT_CODE: "1"}
