"""One namespace of a real API server: workloads go in, and what the controllers made of them is
read back.
"""

import itertools
from typing import ClassVar, Self

from standins.controlplane.plane import ControlPlane
from standins.kit.kubernetes import STRATEGIC, exists
from tests.loop.bodies import POOL, Json, build_workload
from tests.loop.cloud import wait_for

TPU = "google.com/tpu"
SELECTOR = {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice", "cloud.google.com/gke-tpu-topology": "4x4"}
RESOURCES = {"cpu": "180", "memory": "720Gi", "pods": "15", TPU: "4"}
READY = {"capacity": RESOURCES, "allocatable": RESOURCES, "conditions": [{"type": "Ready", "status": "True"}]}
AT_ONCE = {"gracePeriodSeconds": 0}
_numbers = itertools.count()


def jobset(name: str, *, slices: int = 2, pods: int = 4) -> Json:
    """A JobSet of TPU slices, each of which wants a node pool of its own."""
    words = {"kind": "JobSet", "replicas": slices, "pods": pods, "queued": True}
    return build_workload(words | {"pod": {"nodeSelector": SELECTOR}}, name)


class World:
    """What a test does and sees in its own namespace, which is empty at the end of the block."""

    LIST: ClassVar = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
    """Where the workloads of this world are."""

    def __init__(self, plane: ControlPlane) -> None:
        self.api, self.namespace = plane.api, f"{type(self).__name__.lower()}-{next(_numbers)}"
        self.nodes: list[str] = []
        self.api.post("/api/v1/namespaces", json={"metadata": {"name": self.namespace}})
        account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default"
        wait_for("the namespace's default account", lambda: exists(self.api, account))

    @property
    def path(self) -> str:
        return self.LIST.format(self.namespace)

    def submit(self, body: Json) -> None:
        """Create a workload."""
        self.api.post(self.path, json=body)

    def read_all(self, path: str) -> list[Json]:
        return list(self.api.get(path).json()["items"])

    def pods(self) -> list[Json]:
        found = self.read_all(f"/api/v1/namespaces/{self.namespace}/pods")
        return sorted(found, key=lambda pod: pod["metadata"]["name"])

    def add_pool(
        self, pool: str, hosts: int = 4, *, labels: dict[str, str] | None = None, cordoned: bool = False
    ) -> None:
        """Register the nodes of a slice, as GKE's hosts do."""
        for host in range(hosts):
            name = f"{self.namespace}-{pool}-{host}"
            own = {POOL: f"{self.namespace}-{pool}", "kubernetes.io/hostname": name} | SELECTOR
            spec = {
                "taints": [{"key": TPU, "value": "present", "effect": "NoSchedule"}],
                "unschedulable": cordoned,
            }
            metadata = {"name": name, "labels": (labels or {}) | own}
            self.api.post("/api/v1/nodes", json={"metadata": metadata, "spec": spec, "status": READY})
            self.nodes.append(name)

    def finish(self, pod: Json, phase: str) -> None:
        """Report the end of a pod, as its kubelet would."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}/status"
        self.api.patch(path, json={"status": {"phase": phase}}, headers=STRATEGIC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Delete everything, so that the next test finds an empty cluster."""
        self.api.delete(self.path, params={"propagationPolicy": "Background"})
        wait_for("the end of all pods", self._has_no_pods)
        for name in self.nodes:
            self.api.delete(f"/api/v1/nodes/{name}")

    def _has_no_pods(self) -> bool:
        pods = self.pods()
        self.api.delete(f"/api/v1/namespaces/{self.namespace}/pods", params=AT_ONCE)
        return not pods and not self.read_all(self.path)
