"""One namespace of a cluster whose nodes come and go as an autoscaler says.

The autoscaler is given to it: what it does is told by Kubernetes' objects and by the groups alone,
so that any other program in its place can be held to the same scenarios.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from standins.controlplane.api_client import MERGE, STRATEGIC
from standins.controlplane.tests.controlplane_worlds import World, wait_for, wait_for_count
from tests.cluster.scaled_groups import ScaledGroups

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from standins.autoscaler_real.node_groups import NodeGroups
    from standins.autoscaler_real.program import Pace
    from standins.controlplane.plane import ControlPlane

Json = dict[str, Any]
Running = AbstractContextManager[object]

TPU, GPU = "google.com/tpu", "nvidia.com/gpu"
TPU_HOST = {"cpu": "180", "memory": "720Gi", "pods": "110", TPU: "4"}
GPU_HOST = {"cpu": "208", "memory": "1800Gi", "pods": "110", GPU: "8"}
KEPT = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
STAYS = "cluster-autoscaler.kubernetes.io/safe-to-evict"
AUTOSCALER = "cluster-autoscaler"
MOVED = "deleting pod for node scale down"


class Program(Protocol):
    """Starts an autoscaler of these groups, for the cluster of a kubeconfig."""

    def __call__(self, kubeconfig: Path, groups: NodeGroups, folder: Path, pace: Pace) -> Running: ...


class ScalingWorld(World):
    """Jobs whose pods want the nodes of one group each."""

    LIST: ClassVar = "/apis/batch/v1/namespaces/{}/jobs"

    def __init__(self, plane: ControlPlane, program: Program, folder: Path, pace: Pace) -> None:
        super().__init__(plane)
        self.groups = ScaledGroups(plane.api)
        self._plane, self._program, self._folder, self._pace = plane, program, folder, pace

    def autoscaler(self, **changes: float) -> Running:
        """Return what starts and ends the autoscaler, with some of its pace changed.

        A scenario lays out its cluster before.
        """
        pace = replace(self._pace, **changes)
        return self._program(self._plane.kubeconfig, self.groups, self._folder, pace)

    def clear(self) -> None:
        super().clear()
        self.groups.remove_all()

    def add_slice(self, name: str = "slice", *, hosts: int = 4, capacity: int = 99) -> str:
        """Add the group of a TPU slice, which grows all or nothing; return its name."""
        return self._add(name, TPU_HOST, hosts, capacity, all_or_nothing=True)

    def add_elastic(self, name: str = "elastic", *, nodes: int = 3) -> str:
        """Add a group of hosts with 8 GPUs; return its name."""
        return self._add(name, GPU_HOST, nodes, 99)

    def add_tpu_hosts(self, name: str = "hosts", *, nodes: int = 3) -> str:
        """Add a group of TPU hosts that nothing binds together; return its name."""
        return self._add(name, TPU_HOST, nodes, 99)

    def run(
        self,
        job: str,
        group: str,
        accelerators: dict[str, int],
        *,
        pods: int = 1,
        annotations: dict[str, str] | None = None,
    ) -> None:
        """Submit a Job whose pods want nodes of a group, with so many accelerators each."""
        container = {"name": "main", "image": "main", "resources": {"limits": accelerators}}
        spec = {
            "restartPolicy": "Never",
            "nodeSelector": {"cloud.google.com/gke-nodepool": group},
            "containers": [container],
            "tolerations": [{"key": GPU, "operator": "Exists"}],
        }
        template = {"metadata": {"annotations": annotations or {}}, "spec": spec}
        self.submit(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": job},
                "spec": {"parallelism": pods, "completions": pods, "template": template},
            }
        )

    def run_on(
        self,
        job: str,
        node: str,
        group: str,
        accelerators: dict[str, int],
        *,
        annotations: dict[str, str] | None = None,
    ) -> str:
        """Let a Job's one pod run on this node and on no other, which it does not ask for.

        Return the pod's name.
        """
        others = [each for each in self.groups.nodes(group) if each != node]
        for each in others:
            self._cordon(each, value=True)
        self.run(job, group, accelerators, annotations=annotations)
        (pod,) = self.wait_bound(job, 1)
        for each in others:
            self._cordon(each, value=False)
        assert pod["spec"]["nodeName"] == node
        return str(pod["metadata"]["name"])

    def wait_bound(self, job: str, count: int) -> list[Json]:
        """Return the pods of a Job once so many have nodes and run, as a kubelet reports it."""
        pods = wait_for_count(f"{count} bound pods of {job}", count, lambda: self.bound_of(job))
        for pod in pods:
            self.finish(pod, "Running")
        return pods

    def bound_of(self, job: str) -> list[Json]:
        return [
            each
            for each in self.bound()
            if each["metadata"]["labels"]["job-name"] == job and "deletionTimestamp" not in each["metadata"]
        ]

    def fill(self, group: str, size: int) -> list[str]:
        """Let a group have so many nodes before the autoscaler looks; return them."""
        self.groups.resize(group, size)
        nodes = self.groups.nodes(group)
        wait_for("nodes without the taint of new ones", lambda: all(map(self._is_usable, nodes)))
        return nodes

    def keep(self, node: str, *, value: str | None = "true") -> None:
        """Say by the autoscaler's own annotation that a node stays, or may go (None)."""
        self.api.patch(f"/api/v1/nodes/{node}", json={"metadata": {"annotations": {KEPT: value}}}, headers=MERGE)

    def is_leaving(self, pod: str) -> bool:
        """Return whether somebody deletes or has deleted a pod."""
        return not any(
            each["metadata"]["name"] == pod and "deletionTimestamp" not in each["metadata"] for each in self.pods()
        )

    def told(self) -> list[tuple[str, str, str]]:
        """Return what the autoscaler told of the pods: type, reason and message of each Event."""
        found = self.read_all(f"/api/v1/namespaces/{self.namespace}/events")
        return [
            (each["type"], each["reason"], each["message"])
            for each in found
            if each["involvedObject"]["kind"] == "Pod" and each["source"].get("component") == AUTOSCALER
        ]

    def watch_for(self, seconds: float, look: Callable[[], object]) -> float | None:
        """Return after how many seconds a look finds something, None when it never does."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            if look():
                return passed
            time.sleep(0.1)
        return None

    def _add(
        self, name: str, resources: dict[str, str], maximum: int, capacity: int, *, all_or_nothing: bool = False
    ) -> str:
        full = f"{self.namespace}-{name}"
        self.groups.add(
            full, maximum=maximum, resources=resources, capacity=capacity, all_or_nothing=all_or_nothing
        )
        return full

    def _cordon(self, node: str, *, value: bool) -> None:
        self.api.patch(f"/api/v1/nodes/{node}", json={"spec": {"unschedulable": value}}, headers=STRATEGIC)

    def _is_usable(self, node: str) -> bool:
        taints = self.api.get(f"/api/v1/nodes/{node}").json()["spec"].get("taints", [])
        return not any(each["key"].startswith("node.kubernetes.io/") for each in taints)
