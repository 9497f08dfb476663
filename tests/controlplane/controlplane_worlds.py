"""One namespace of a real API server: JobSets go in, what became of them is read through the deployed client."""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from shared.core.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.edges.kubernetes_api import KubernetesApi

Json = dict[str, Any]
T = TypeVar("T")

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
POOL = "cloud.google.com/gke-nodepool"
INDEX = "batch.kubernetes.io/job-completion-index"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
TPU = "google.com/tpu"
SELECTOR = {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
    "cloud.google.com/gke-tpu-topology": "4x4",
}
START_SECONDS_MAX = 300
"""For a test that may start a plane with further controllers: their definitions are megabytes, and cores few."""
STRATEGIC = "application/strategic-merge-patch+json"
_JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie, which nobody waited for, does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(what: str, look: Callable[[], T], *, seconds: float = 90) -> T:
    """Return what `look` finds as soon as that is something."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.05)
    return found


def jobset(name: str, *, slices: int = 2, pods: int = 4, **extra: Any) -> Json:
    """A JobSet of TPU slices, each of which wants a node pool of its own."""
    container = {"name": "worker", "image": "worker", "resources": {"limits": {TPU: 4}}}
    template = {"spec": {"restartPolicy": "Never", "nodeSelector": SELECTOR, "containers": [container]}}
    job = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": {EXCLUSIVE: POOL}},
        "spec": {"replicatedJobs": [{"name": "slice", "replicas": slices, "template": {"spec": job}}]} | extra,
    }


class World:
    """What a test does and sees in its own namespace."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self.api, self.namespace = api, namespace
        self.nodes: list[str] = []
        api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        wait_for("the namespace's default account", self._has_account)

    def submit(self, body: Json) -> Json:
        """Create a JobSet and return what the API server stored."""
        return self.api.create(_JOBSETS.format(self.namespace), body, dict)

    def jobset(self, name: str) -> Json:
        return self.api.get(f"{_JOBSETS.format(self.namespace)}/{name}", dict)

    def pods(self) -> list[Json]:
        found = self.api.get(f"/api/v1/namespaces/{self.namespace}/pods", dict)["items"]
        return sorted(found, key=lambda pod: pod["metadata"]["name"])

    def phases(self) -> list[str]:
        return [pod["status"]["phase"] for pod in self.pods()]

    def events(self, reason: str) -> list[str]:
        """The messages of all Events with a reason."""
        found = self.api.get(f"/api/v1/namespaces/{self.namespace}/events", dict)["items"]
        return [event["message"] for event in found if event["reason"] == reason]

    def unschedulable(self) -> list[Json]:
        """The pods of which the scheduler has said that there is no place for them."""
        return [
            pod
            for pod in self.pods()
            for each in pod["status"].get("conditions", ())
            if each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable"
        ]

    def add_pool(
        self, pool: str, hosts: int = 4, *, labels: dict[str, str] | None = None, cordoned: bool = False
    ) -> None:
        """Register the nodes of a slice as GKE's hosts do: the object, then its status.

        Args:
            pool: Named after the namespace and this.
            hosts: How many nodes.
            labels: What the pool's creator asked for besides.
            cordoned: Whether they take no pods.
        """
        for host in range(hosts):
            name = f"{self.namespace}-{pool}-{host}"
            own = {POOL: f"{self.namespace}-{pool}", "kubernetes.io/hostname": name} | SELECTOR
            spec = {
                "taints": [{"key": TPU, "value": "present", "effect": "NoSchedule"}],
                "unschedulable": cordoned,
            }
            body = {"metadata": {"name": name, "labels": (labels or {}) | own}, "spec": spec}
            self.api.create("/api/v1/nodes", body)
            self.api.patch(f"/api/v1/nodes/{name}/status", {"status": _ready_status()}, STRATEGIC)
            self.nodes.append(name)

    def finish(self, pod: Json, phase: str) -> None:
        """Report the end of a pod, as its kubelet would."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}/status"
        self.api.patch(path, {"status": {"phase": phase}}, STRATEGIC)

    def delete(self, name: str) -> None:
        self.api.delete(f"{_JOBSETS.format(self.namespace)}/{name}", propagation="Foreground")

    def clear(self) -> None:
        """Delete everything, so that the next test finds an empty cluster."""
        self.remove_all(_JOBSETS.format(self.namespace))
        wait_for("the end of all pods", self._has_no_pods)
        for name in self.nodes:
            self.api.delete(f"/api/v1/nodes/{name}")

    def remove_all(self, folder: str, *, grace_seconds: int | None = None) -> None:
        """Delete every object of a list; one that ends by itself between the list and its deletion is fine."""
        for each in self.api.get(folder, dict)["items"]:
            with contextlib.suppress(NotFound):
                path = f"{folder}/{each['metadata']['name']}"
                self.api.delete(path, propagation="Background", grace_seconds=grace_seconds)

    def _has_no_pods(self) -> bool:
        pods = self.pods()
        self.remove_all(f"/api/v1/namespaces/{self.namespace}/pods", grace_seconds=0)
        return not pods and not self.api.get(_JOBSETS.format(self.namespace), dict)["items"]

    def _has_account(self) -> bool:
        try:
            self.api.get(f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default", msgspec.Raw)
        except NotFound:
            return False
        return True


def _ready_status() -> Json:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    resources = {"cpu": "180", "memory": "720Gi", "pods": "15", TPU: "4"}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
    }
    ready |= {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return {"capacity": resources, "allocatable": resources, "conditions": [ready]}
