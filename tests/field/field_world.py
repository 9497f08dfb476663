"""An input of the field in a cluster: the workload, its pods that wait, and both functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from shared.edges.pods import Pod, read_workload, view_pod
from shared.engine.budget import Key
from shared.kinds.table import get_kind
from tests.builders import CLUSTER
from tests.engine.world import World
from tests.loop.bodies import Json, read_manifest

INPUTS = Path(__file__).parent / "inputs"
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
CREATED_AT = "2027-01-15T07:59:00Z"


def read_input(name: str, workload: str) -> Json:
    """Return one object of an input."""
    return read_manifest({"file": f"tests/field/inputs/{name}", "name": workload})


class FieldWorld(World):
    """A world with one workload of an input."""

    def __init__(self, body: Json, **options: Any) -> None:
        super().__init__(slices=0, **options)
        self.cluster.workloads.clear()
        self.body, self.kind = body, body["kind"]
        metadata = {"namespace": "default", "uid": f"uid-of-{self.name}", **body["metadata"]}
        view = read_workload(get_kind(self.kind), {**body, "metadata": metadata})
        self.cluster.workloads[self.kind, "default", self.name] = view
        self.key = Key(CLUSTER, self.kind, "default", self.name)

    @property
    def name(self) -> str:
        name: str = self.body["metadata"]["name"]
        return name

    def add_pod(self, name: str, spec: Json, owner: Json, labels: Json, annotations: Json | None = None) -> None:
        """A controller makes a pod, and the scheduler finds no node for it."""
        body = {
            "metadata": {
                "namespace": "default",
                "name": name,
                "uid": f"uid-of-{name}",
                "creationTimestamp": CREATED_AT,
                "labels": labels,
                "annotations": annotations or {},
                "ownerReferences": [{"controller": True, "uid": "of-its-controller", **owner}],
            },
            "spec": spec,
            "status": {"phase": "Pending", "conditions": [UNSCHEDULABLE]},
        }
        self.cluster.pods[name] = view_pod(msgspec.convert(body, Pod))

    def add_pods_of_jobset(self) -> None:
        """JobSet's and the Job controllers make all pods."""
        for part in self.body["spec"]["replicatedJobs"]:
            template = part["template"]["spec"]
            for index in range(part.get("replicas", 1)):
                job = f"{self.name}-{part['name']}-{index}"
                own = {
                    "jobset.sigs.k8s.io/jobset-name": self.name,
                    "jobset.sigs.k8s.io/jobset-uid": f"uid-of-{self.name}",
                    "jobset.sigs.k8s.io/job-key": f"key-of-{job}",
                }
                owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job}
                for host in range(template.get("parallelism", 1)):
                    place = {"batch.kubernetes.io/job-completion-index": str(host)}
                    self.add_pod(f"{job}-{host}", template["template"]["spec"], owner, own | place)
