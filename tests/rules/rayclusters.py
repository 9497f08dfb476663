"""RayClusters and their workers as the API has them, for tests: a plain case, and overrides.

The plain case: RayCluster ``default/llm`` with a worker group ``tpu`` of two replicas of two v6e
hosts each.
"""

from typing import Any

from shared.edges.pods import read_template
from shared.kinds.raycluster import (
    CLUSTER,
    GROUP,
    HOST_INDEX,
    NODE_TYPE,
    RAYCLUSTER,
    REPLICA_INDEX,
    REPLICA_NAME,
    REPLICA_OF_WEBHOOK,
)
from shared.model import labels
from shared.model.workloads import PodTemplate, PodView, WorkloadView
from tests.builders import IN_ONE_POOL

UID = "0b6a1a52-3f0e-4c57-9d8c-6a3c7c1f2d11"
EARLIER_UID = "0b6a1a52-3f0e-4c57-9d8c-6a3c7c1f2d00"
SUSPENDED = {"type": "RayClusterSuspended", "status": "True", "lastTransitionTime": "2027-01-15T08:00:00Z"}


def a_group(name: str = "tpu", *, topology: str = "2x4", chips: int = 4, **fields: Any) -> dict[str, Any]:
    selector = {labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: topology}
    container = {"name": "ray-worker", "resources": {"limits": {"google.com/tpu": str(chips)}}}
    plain = {"groupName": name, "replicas": 2, "minReplicas": 0, "maxReplicas": 4, "numOfHosts": 2}
    template = {"spec": {"containers": [container], "nodeSelector": selector}}
    return {key: value for key, value in {**plain, "template": template, **fields}.items() if value is not None}


def a_body(*groups: dict[str, Any], conditions: list[Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"namespace": "default", "name": "llm", "uid": UID, "generation": 3},
        "spec": {"workerGroupSpecs": list(groups or [a_group()]), **spec},
        "status": {"availableWorkerReplicas": 5, "conditions": conditions or []},
    }


def a_raycluster(*groups: dict[str, Any], **spec: Any) -> WorkloadView:
    return RAYCLUSTER.read(a_body(*groups, **spec), read_template)


def a_worker(
    *,
    name: str = "llm-tpu-worker-x7f2k",
    group: str = "tpu",
    pod_labels: dict[str, str] | None = None,
    selector: dict[str, str] | None = None,
    affinity: bool = False,
    **overrides: Any,
) -> PodView:
    base = {CLUSTER: "llm", GROUP: group, NODE_TYPE: "worker"}
    chosen = {labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "2x4", **(selector or {})}
    template = PodTemplate(
        labels=base | (pod_labels or {}),
        selection={key: (value,) for key, value in chosen.items()},
        topology_terms=IN_ONE_POOL if affinity else (),
        chips=4,
    )
    plain = {
        "namespace": "default",
        "name": name,
        "uid": f"uid-of-{name}",
        "template": template,
        "controller_kind": "RayCluster",
        "controller_name": "llm",
        "controller_uid": UID,
    }
    return PodView(**{**plain, **overrides})


def indexed(slot: int, host: int = 0, replica: str = "tpu-abcde") -> dict[str, str]:
    return {REPLICA_INDEX: str(slot), REPLICA_NAME: replica, HOST_INDEX: str(host)}


def webhooked(slot: int, group: str = "tpu") -> dict[str, str]:
    return {REPLICA_OF_WEBHOOK: f"{group}-{slot}"}


def name_of(pod: PodView, workload: WorkloadView | None = None) -> str | None:
    """The name of a pod's slice; None for none."""
    found = RAYCLUSTER.find_slice(pod, workload or a_raycluster())
    return found.name if found else None
