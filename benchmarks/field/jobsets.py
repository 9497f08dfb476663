"""The JobSets of the runs. Pure."""

import math
from typing import Any

Json = dict[str, Any]
HOSTS, CHIPS = 4, 4
"""Of one v6e slice of 4x4 chips."""
_POOL_LABEL = "cloud.google.com/gke-nodepool"
_RUN_SECONDS = "local.tpu-provisioner/run-seconds"
_JOBS_MAX = 100
"""Slices of one JobSet of the fan-out."""


def build_jobset(slices: int, run_seconds: float) -> Json:
    """Return a JobSet of v6e slices of 4x4 chips, as the examples of both provisioners have it."""
    return _jobset(f"field-{slices}", slices, hosts=HOSTS, topology="4x4", run_seconds=run_seconds)


def build_crowd(leaders: int, run_seconds: float) -> list[Json]:
    """Return JobSets with so many slices of one host in all, so that each pod is a leader."""
    sizes = [min(_JOBS_MAX, leaders - first) for first in range(0, leaders, _JOBS_MAX)]
    assert sum(sizes) == leaders
    assert len(sizes) == math.ceil(leaders / _JOBS_MAX)
    return [
        _jobset(f"crowd-{number}", size, hosts=1, topology="2x2", run_seconds=run_seconds)
        for number, size in enumerate(sizes)
    ]


def _jobset(name: str, slices: int, *, hosts: int, topology: str, run_seconds: float) -> Json:
    container = {"name": "trainer", "image": "trainer", "resources": {"limits": {"google.com/tpu": CHIPS}}}
    selector = {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": topology,
    }
    pod = {
        "metadata": {"annotations": {_RUN_SECONDS: f"{run_seconds:g}"}},
        "spec": {"restartPolicy": "Never", "nodeSelector": selector, "containers": [container]},
    }
    job = {
        "parallelism": hosts,
        "completions": hosts,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": pod,
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": _POOL_LABEL},
        },
        "spec": {
            "failurePolicy": {"maxRestarts": 3},
            "replicatedJobs": [{"name": "s", "replicas": slices, "template": {"spec": job}}],
        },
    }
