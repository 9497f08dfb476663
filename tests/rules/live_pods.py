"""A workload of each kind and its leader pod, as the API has them, from one pod template each.

The pod is made from the template, as the kind's controller makes it, and a test may change either.
"""

import copy
from typing import Any

import msgspec

from shared.edges.pods import Pod, read_workload, view_pod
from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.decisions import Decision
from shared.model.workloads import PodView, WorkloadView
from shared.needs.ways import Demand
from shared.settings import Settings
from tests.builders import CLUSTER, settings
from tests.demands import decide_demand, plan_demands

WAITS = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
UID = "5e7d3a52-4f0c-4b7e-9a52-0d9f0f0c1a01"
HOSTS = 4
SLICED = ("JobSet", "RayCluster", "LeaderWorkerSet", "Job", "StatefulSet")
"""The kinds whose pods form a slice of several hosts."""
ALL = (*SLICED, "Deployment", "Pod")
_JOBSET, _LWS, _RAY = "jobset.sigs.k8s.io/", "leaderworkerset.sigs.k8s.io/", "ray.io/"

Json = dict[str, Any]


def a_body(*, chips: int = 4, gpus: int = 0, selectors: dict[str, str] | None = None, **requests: str) -> Json:
    """A pod template of v6e 4x4 hosts; `selectors` replaces all of its node selectors."""
    chosen = {labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "4x4"} if selectors is None else selectors
    limits = {labels.TPU_RESOURCE: chips, labels.GPU_RESOURCE: gpus}
    asked = {key: str(value) for key, value in limits.items() if value} | requests
    free = [] if chips else [{"key": labels.TPU_RESOURCE, "operator": "Exists"}]
    spec = {"nodeSelector": chosen, "tolerations": free, "containers": [{"resources": {"limits": asked}}]}
    return {"metadata": {}, "spec": spec}


def a_pod_body(*, topology: str | None = "2x2", chips: int = 4) -> Json:
    """A pod template of v6e hosts that tolerates nothing, by default a single host."""
    selector = {labels.ACCELERATOR: "tpu-v6e-slice"} | ({labels.TOPOLOGY: topology} if topology else {})
    resources = {"limits": {labels.TPU_RESOURCE: str(chips)}} if chips else {}
    return {"spec": {"nodeSelector": selector, "containers": [{"name": "c", "resources": resources}]}}


L4 = {labels.GPU_ACCELERATOR: "nvidia-l4"}


def a_gpu_body(gpus: Any = 1, *, selector: dict[str, str] | None = None, **requests: Any) -> Json:
    """A pod template with GPUs, by default one L4."""
    resources = {"limits": {labels.GPU_RESOURCE: gpus} | requests}
    return {"spec": {"nodeSelector": selector or L4, "containers": [{"name": "c", "resources": resources}]}}


OF_CPU = a_body(chips=0, selectors={})
ONE_HOST = a_body(selectors={labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "2x2"})


def a_workload(
    kind: str, template: Json, *, hosts: int = HOSTS, leader: Json | None = None, **more: dict[str, str]
) -> WorkloadView:
    """One slice of so many hosts, or so many single hosts; `leader` is the leaders' template.

    What is more goes to the metadata.
    """
    job = {"parallelism": hosts, "completions": hosts, "completionMode": "Indexed", "template": template}
    ray = {"groupName": "tpu", "replicas": 1, "maxReplicas": 1, "numOfHosts": hosts, "template": template}
    group = {"size": hosts + (leader is not None), "workerTemplate": template}
    spec: Json = {
        "JobSet": {"replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": job}}]},
        "RayCluster": {"workerGroupSpecs": [ray]},
        "LeaderWorkerSet": {
            "replicas": 1,
            "leaderWorkerTemplate": group | ({"leaderTemplate": leader} if leader else {}),
        },
        "Job": job,
        "Deployment": {"replicas": hosts, "template": template},
        "StatefulSet": {"replicas": hosts, "podManagementPolicy": "Parallel", "template": template},
        "Pod": template["spec"],
    }[kind]
    own = copy.deepcopy(template["metadata"]) if kind == "Pod" else {}
    metadata = own | {"namespace": "default", "name": "train", "uid": UID} | more
    return read_workload(get_kind(kind), {"metadata": metadata, "spec": spec, "status": {}})


def a_leader(kind: str, body: Json) -> PodView:
    """The waiting leader pod of the workload's first slice, with this body."""
    index = {labels.COMPLETION_INDEX: "0"}
    answer, owner = {
        "JobSet": ({f"{_JOBSET}jobset-name": "train", **index}, ("batch/v1", "Job", "train-workers-0")),
        "RayCluster": (
            {f"{_RAY}cluster": "train", f"{_RAY}group": "tpu", f"{_RAY}node-type": "worker"}
            | {f"{_RAY}worker-group-replica-index": "0", f"{_RAY}replica-host-index": "0"},
            ("ray.io/v1", "RayCluster", "train"),
        ),
        "LeaderWorkerSet": (
            {f"{_LWS}name": "train", f"{_LWS}group-index": "0", f"{_LWS}worker-index": "0"},
            ("apps/v1", "StatefulSet", "train"),
        ),
        "Job": ({"batch.kubernetes.io/job-name": "train", **index}, ("batch/v1", "Job", "train")),
        "Deployment": ({"pod-template-hash": "abc"}, ("apps/v1", "ReplicaSet", "train-abc")),
        "StatefulSet": ({"statefulset.kubernetes.io/pod-name": "train-0"}, ("apps/v1", "StatefulSet", "train")),
        "Pod": ({}, None),
    }[kind]
    metadata = body["metadata"] | {"labels": body["metadata"].get("labels", {}) | answer}
    if owner is None:
        return a_pod_of(None, body, name="train", uid=UID, **metadata)
    version, of_kind, name = owner
    uid = UID if of_kind != "Job" or kind == "Job" else "of-the-job"
    controller = {"apiVersion": version, "kind": of_kind, "name": name, "uid": uid}
    return a_pod_of(controller, body, name="train-0", uid="of-the-pod", **metadata)


def a_pod_of(
    controller: Json | None, template: Json, *, name: str, status: Json = WAITS, **metadata: Any
) -> PodView:
    """A pod as its controller makes it from a template, for which the scheduler has no place."""
    owners = [{"controller": True} | controller] if controller else []
    plain = {"namespace": "default", "name": name, "uid": f"uid-of-{name}", "ownerReferences": owners}
    body = {"metadata": plain | metadata, "spec": template["spec"], "status": status}
    return view_pod(msgspec.convert(body, Pod))


def change(body: Json, selectors: dict[str, str | None], **metadata: dict[str, str]) -> Json:
    """Return a body with other node selectors, those of None removed, and metadata added."""
    changed = copy.deepcopy(body)
    chosen = changed["spec"]["nodeSelector"] | selectors
    changed["spec"]["nodeSelector"] = {key: value for key, value in chosen.items() if value is not None}
    for field, values in metadata.items():
        changed["metadata"][field] = changed["metadata"].get(field, {}) | values
    return changed


def require(template: Json, key: str, *values: str) -> Json:
    """Return a template whose affinity requires one of these values of a node label."""
    expressions = [{"key": key, "operator": "In", "values": list(values)}]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    changed = copy.deepcopy(template)
    changed["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return changed


def plan(workload: WorkloadView) -> list[Demand | Decision]:
    """Return what the rule says of each need of the spec."""
    return plan_demands(workload)


def decide(pod: PodView, workload: WorkloadView, use: Settings | None = None) -> Demand | Decision:
    """Return what the rule says of the pod."""
    return decide_demand(CLUSTER, pod, workload, use or settings())
