"""Workloads of each kind and their pods as the API has them: a plain case, and overrides.

Each is ``default/train`` and asks for v6e: a Job of four indexed pods, a LeaderWorkerSet of two
groups and a RayCluster with a group ``tpu`` of two replicas of two hosts, each a slice; a
Deployment of three and a StatefulSet of four single hosts. Pods are as their controllers make them,
those of a LeaderWorkerSet as in
https://github.com/kubernetes-sigs/lws/blob/v0.7.0/pkg/webhooks/pod_webhook.go.
"""

import copy
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import structs

from shared.edges.pods import Pod, read_template, view_pod
from shared.kinds import jobset, raycluster
from shared.kinds import leaderworkerset as lws
from shared.kinds.job import JOB_NAME_ON_POD
from shared.kinds.kind import SliceOfPod, name_slice
from shared.kinds.replicas import POD_NAME, TEMPLATE_HASH
from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.workloads import PodView, SliceGroup, WorkloadView
from tests.builders import IN_ONE_POOL

Json = dict[str, Any]
WAITS = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
UID = "7a1c52d0-5b0e-4d62-8a52-3d9f0f0c1a07"
HASH = "5d9c7b6f8"
L4 = {labels.GPU_ACCELERATOR: "nvidia-l4"}


def a_body(
    topology: str | None = "4x4",
    *,
    chips: int = 4,
    gpus: object = 0,
    selectors: dict[str, str] | None = None,
    **requests: str,
) -> Json:
    """A template of pods on v6e hosts; `selectors` replaces all of its node selectors."""
    chosen = {labels.ACCELERATOR: "tpu-v6e-slice"} | ({labels.TOPOLOGY: topology} if topology else {})
    limits = {labels.TPU_RESOURCE: chips, labels.GPU_RESOURCE: gpus}
    asked = {key: str(value) for key, value in limits.items() if value} | requests
    free = [] if chips else [{"key": labels.TPU_RESOURCE, "operator": "Exists"}]
    container = {"name": "c", "resources": {"limits": asked}}
    selected = chosen if selectors is None else selectors
    return {"metadata": {}, "spec": {"nodeSelector": selected, "tolerations": free, "containers": [container]}}


def a_gpu_body(gpus: object = 1, *, selectors: dict[str, str] | None = None, **requests: str) -> Json:
    """A template of pods with GPUs, by default one L4."""
    return a_body(chips=0, gpus=gpus, selectors=selectors or L4, **requests)


SEVERAL_HOSTS, ONE_HOST = a_body(), a_body("2x2")
CHIPLESS, OF_CPU = a_body(chips=0), a_body(chips=0, selectors={})


def change(body: Json, selectors: dict[str, Any], **metadata: dict[str, str]) -> Json:
    """Return a body with other node selectors, those of None removed, and metadata added."""
    changed = copy.deepcopy(body)
    chosen = changed["spec"]["nodeSelector"] | selectors
    changed["spec"]["nodeSelector"] = {key: value for key, value in chosen.items() if value is not None}
    for field, values in metadata.items():
        changed["metadata"][field] = changed["metadata"].get(field, {}) | values
    return changed


def having(body: Json, **spec: Any) -> Json:
    """Return a template with other fields of its pods' spec."""
    return {**body, "spec": copy.deepcopy(body["spec"]) | spec}


def require(template: Json, key: str, *values: str) -> Json:
    """Return a template whose affinity requires one of these values of a node label."""
    expressions = [{"key": key, "operator": "In", "values": list(values)}]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return having(
        template, affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    )


def read(kind: str, spec: Json, *, status: Json | None = None, **metadata: Any) -> WorkloadView:
    """Read an object; a field of its spec that is None is left out."""
    plain = {"namespace": "default", "name": "train", "uid": UID}
    fields = {key: value for key, value in spec.items() if value is not None}
    body = {"metadata": plain | metadata, "spec": fields, "status": status or {}}
    return get_kind(kind).read(body, read_template)


def a_pod_of(
    controller: Json | None, template: Json | None, *, name: str, status: Json = WAITS, **metadata: Any
) -> PodView:
    """A pod of a controller, by default one for which the scheduler has no place."""
    owners = [{"controller": True, "uid": UID} | controller] if controller else []
    body = template or SEVERAL_HOSTS
    plain = {"namespace": "default", "name": name, "uid": f"uid-of-{name}", "ownerReferences": owners}
    own = body["metadata"] | {"labels": body["metadata"].get("labels", {}) | metadata.pop("labels", {})}
    written = {"metadata": own | plain | metadata, "spec": body["spec"], "status": status}
    return view_pod(msgspec.convert(written, Pod))


# --- Job and JobSet ---


def a_job(template: Json = SEVERAL_HOSTS, *, metadata: Json | None = None, **spec: Any) -> WorkloadView:
    plain = {"parallelism": 4, "completions": 4, "completionMode": "Indexed", "template": template}
    status = spec.pop("status", None)
    return read("Job", plain | spec, status=status, **metadata or {})


def a_pod_of_job(index: str | None = "0", template: Json | None = None, **owner: Any) -> PodView:
    own = {JOB_NAME_ON_POD: "train"} | ({} if index is None else {labels.COMPLETION_INDEX: index})
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": "train"} | owner
    return a_pod_of(controller, template, name="train-0-abcde", labels=own)


def a_jobset(
    *jobs: Json, status: Json | None = None, annotations: dict[str, str] | None = None, **spec: Any
) -> WorkloadView:
    return read("JobSet", {"replicatedJobs": list(jobs)} | spec, status=status, annotations=annotations)


def a_replicated_job(
    name: str, template: Json, *, pods: int = 0, annotations: Json | None = None, **fields: int
) -> Json:
    """Without a number of pods the API server's defaults hold."""
    counts = {"parallelism": pods, "completions": pods} if pods else {}
    job = {"metadata": {"annotations": annotations}, "spec": counts | {"template": template}}
    return {"name": name, "template": job} | fields


def a_pod_of_jobset(template: Json | None = None, *, index: int = 0) -> PodView:
    own = {jobset.JOBSET_NAME_ON_POD: "train", labels.COMPLETION_INDEX: "0"}
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": f"train-workers-{index}", "uid": "of-the-job"}
    return a_pod_of(controller, template, name="train-0", labels=own)


# --- LeaderWorkerSet ---


def a_leaderworkerset(
    worker: Json = SEVERAL_HOSTS,
    *,
    leader: Json | None = None,
    size: int | None = 4,
    replicas: int | None = 2,
    subgroups: Json | None = None,
    surge: Any = None,
    **fields: Any,
) -> WorkloadView:
    """The leader is one of the hosts, unless overridden."""
    inner = {"size": size, "workerTemplate": worker, "leaderTemplate": leader, "subGroupPolicy": subgroups}
    template = {key: value for key, value in inner.items() if value is not None}
    rollout = None if surge is None else {"rollingUpdateConfiguration": {"maxSurge": surge}}
    spec = {"replicas": replicas, "leaderWorkerTemplate": template, "rolloutStrategy": rollout}
    return read("LeaderWorkerSet", spec, **fields)


def a_member(
    worker: int = 0,
    template: Json | None = None,
    *,
    group: int = 0,
    leader_asks: bool = False,
    subgroup: int | None = None,
    **overrides: Any,
) -> PodView:
    """A pod of a group; number 0 is its leader."""
    leader = f"train-{group}"
    own = {lws.SET_NAME: "train", lws.GROUP_INDEX: str(group), lws.WORKER_INDEX: str(worker)}
    if subgroup is not None:
        own[lws.SUBGROUP_INDEX] = str(subgroup)
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": leader if worker else "train"}
    asking = {"annotations": {lws.LEADER_ASKS_FOR_CHIPS: "true"}} if leader_asks and worker else {}
    plain = {"name": f"{leader}-{worker}" if worker else leader, "labels": own}
    return a_pod_of(owner, template, **{**plain, **asking, **overrides})


# --- Deployment and StatefulSet ---


def a_deployment(
    template: Json = ONE_HOST, *, shown: int = 0, deleted: str | None = None, **spec: Any
) -> WorkloadView:
    """`shown` are the pods that its status counts."""
    plain = {"replicas": 3, "template": template}
    return read("Deployment", plain | spec, status={"replicas": shown}, deletionTimestamp=deleted)


def a_server(template: Json = ONE_HOST, *, pod_labels: dict[str, str] | None = None, **owner: Any) -> PodView:
    """A pod of the Deployment."""
    controller = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"train-{HASH}"} | owner
    own = {TEMPLATE_HASH: HASH} if pod_labels is None else pod_labels
    return a_pod_of(controller, template, name=f"train-{HASH}-x2x4z", labels=own)


def a_stateful_set(template: Json = ONE_HOST, **spec: Any) -> WorkloadView:
    return read("StatefulSet", {"replicas": 4, "template": template} | spec)


def a_shard(ordinal: int = 0, template: Json = ONE_HOST, **owner: Any) -> PodView:
    """A pod of the StatefulSet."""
    name = f"train-{ordinal}"
    controller = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "train"} | owner
    return a_pod_of(controller, template, name=name, labels={POD_NAME: name})


# --- RayCluster ---


def a_group(name: str = "tpu", *, topology: str = "2x4", **fields: Any) -> Json:
    plain = {"groupName": name, "replicas": 2, "minReplicas": 0, "maxReplicas": 4, "numOfHosts": 2}
    group = plain | {"template": a_body(topology)} | fields
    return {key: value for key, value in group.items() if value is not None}


def a_raycluster(*groups: Json, conditions: Any = (), owners: Any = None, **spec: Any) -> WorkloadView:
    status = {"availableWorkerReplicas": 5, "conditions": list(conditions)}
    body = {"workerGroupSpecs": list(groups or [a_group()]), **spec}
    return read("RayCluster", body, status=status, generation=3, ownerReferences=owners)


def a_worker(
    template: Json | None = None,
    *,
    group: str = "tpu",
    node_type: str = "worker",
    pod_labels: dict[str, str] | None = None,
    affinity: bool = False,
    **owner: Any,
) -> PodView:
    """A pod of the RayCluster; an affinity keeps the slices on pools of their own."""
    own = {raycluster.CLUSTER: "train", raycluster.GROUP: group, raycluster.NODE_TYPE: node_type}
    controller = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "train"} | owner
    body = template or a_body("2x4")
    pod = a_pod_of(controller, body, name="train-tpu-worker-x7f2k", labels=own | (pod_labels or {}))
    terms = IN_ONE_POOL if affinity else ()
    return structs.replace(pod, template=structs.replace(pod.template, topology_terms=terms))


def indexed(slot: int, host: int = 0, replica: str = "tpu-abcde") -> dict[str, str]:
    """The labels by which KubeRay names the replica of a pod."""
    return {
        raycluster.REPLICA_INDEX: str(slot),
        raycluster.REPLICA_NAME: replica,
        raycluster.HOST_INDEX: str(host),
    }


def webhooked(slot: int, group: str = "tpu") -> dict[str, str]:
    """The label by which the webhook for TPUs does."""
    return {raycluster.REPLICA_OF_WEBHOOK: f"{group}-{slot}"}


# --- Pod ---


def a_bare_pod(
    template: Json = ONE_HOST, *, phase: str = "Pending", metadata: Json | None = None, **own: Any
) -> WorkloadView:
    """A bare pod as the workload that it is; what it has of its own is metadata."""
    fields = template["metadata"] | own | (metadata or {})
    return read("Pod", template["spec"], status=WAITS | {"phase": phase}, **fields)


def a_pod_of_nobody(template: Json = ONE_HOST, **owner: Any) -> PodView:
    """A pod without a controller, or with one that no kind has."""
    controller = {"apiVersion": "kubeflow.org/v1", "name": "train"} | owner if owner else None
    return a_pod_of(controller, template, name="train", uid=UID)


# --- any kind ---


BUILDERS: dict[str, Callable[..., WorkloadView]] = {
    "Job": a_job,
    "LeaderWorkerSet": a_leaderworkerset,
    "Deployment": a_deployment,
    "StatefulSet": a_stateful_set,
    "JobSet": a_jobset,
    "Pod": a_bare_pod,
}
PODS: dict[str, Callable[..., PodView]] = {
    "Job": a_pod_of_job,
    "LeaderWorkerSet": a_member,
    "Deployment": a_server,
    "StatefulSet": a_shard,
    "JobSet": a_pod_of_jobset,
    "Pod": a_pod_of_nobody,
}
HOSTS = 4
SLICED = ("JobSet", "RayCluster", "LeaderWorkerSet", "Job", "StatefulSet")
"""The kinds whose pods form a slice of several hosts."""
ALL = (*SLICED, "Deployment", "Pod")


def a_workload(kind: str, template: Json, *, hosts: int = HOSTS, leader: Json | None = None) -> WorkloadView:
    """One slice of so many hosts, or so many single hosts; `leader` is the leaders' template."""
    size = hosts + (leader is not None)
    builders: dict[str, Callable[[], WorkloadView]] = {
        "JobSet": lambda: a_jobset(a_replicated_job("workers", template, pods=hosts)),
        "RayCluster": lambda: a_raycluster(
            a_group(replicas=1, maxReplicas=1, numOfHosts=hosts, template=template)
        ),
        "LeaderWorkerSet": lambda: a_leaderworkerset(template, replicas=1, size=size, leader=leader),
        "Job": lambda: a_job(template, parallelism=hosts, completions=hosts),
        "Deployment": lambda: a_deployment(template, replicas=hosts),
        "StatefulSet": lambda: a_stateful_set(template, replicas=hosts, podManagementPolicy="Parallel"),
        "Pod": lambda: a_bare_pod(template),
    }
    return builders[kind]()


def a_leader(kind: str, template: Json) -> PodView:
    """The waiting leader pod of the workload's first slice."""
    return a_worker(template, pod_labels=indexed(0)) if kind == "RayCluster" else PODS[kind](template=template)


def list_slices(workload: WorkloadView) -> list[SliceOfPod]:
    """The slices of the spec by name, as live pods would name them, and each elastic group once."""
    return [
        SliceOfPod(name=name_slice(workload, group, slot), group=group)
        for group in get_kind(workload.kind).list_groups(workload)
        for slot in _list_slots(workload, group)
    ]


def _list_slots(workload: WorkloadView, group: SliceGroup) -> list[str]:
    only = group.slots is None and workload.kind in ("Job", "StatefulSet")
    return [""] if group.elastic or (only and group.replicas) else [str(each) for each in range(group.replicas)]
