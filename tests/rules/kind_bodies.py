"""Workloads and their pods as the API has them, for tests: a plain case of a kind, and overrides.

A Job ``train`` of four indexed pods and a LeaderWorkerSet ``serve`` of two groups, on 4x4 slices of
v6e; a Deployment of three and a StatefulSet of four single hosts; a RayCluster ``llm`` with a
worker group ``tpu`` of two replicas of two hosts. Pods of LeaderWorkerSets are as in
https://github.com/kubernetes-sigs/lws/blob/v0.7.0/pkg/webhooks/pod_webhook.go.
"""

from typing import Any

from shared.edges.pods import read_template, read_workload
from shared.kinds import leaderworkerset as lws
from shared.kinds.job import JOB, JOB_NAME_ON_POD
from shared.kinds.jobset import JOBSET
from shared.kinds.kind import Kind
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
from shared.kinds.replicas import DEPLOYMENT, POD_NAME, STATEFULSET, TEMPLATE_HASH
from shared.model import labels
from shared.model.workloads import PodTemplate, PodView, WorkloadView
from tests.builders import IN_ONE_POOL
from tests.rules.live_pods import a_pod_body, a_pod_of

Json = dict[str, Any]
UID = "7a1c52d0-5b0e-4d62-8a52-3d9f0f0c1a07"
EARLIER_UID = "0b6a1a52-3f0e-4c57-9d8c-6a3c7c1f2d00"
HASH = "5d9c7b6f8"
ONE_HOST, SEVERAL_HOSTS, CHIPLESS = a_pod_body(), a_pod_body(topology="4x4"), a_pod_body(topology="4x4", chips=0)
OF_CPU: Json = {"spec": {"nodeSelector": {}, "containers": [{"name": "c", "resources": {}}]}}


def read(kind: Kind, name: str, spec: Json, *, status: Json | None = None, **metadata: Any) -> WorkloadView:
    """Read an object; a field of its spec that is None is left out."""
    body = {
        "metadata": {"namespace": "default", "name": name, "uid": UID} | metadata,
        "spec": {key: value for key, value in spec.items() if value is not None},
        "status": status or {},
    }
    return kind.read(body, read_template)


# --- Job and JobSet ---


def a_job(
    *, template: Json | None = None, status: Json | None = None, metadata: Json | None = None, **spec: Any
) -> WorkloadView:
    plain = {
        "parallelism": 4,
        "completions": 4,
        "completionMode": "Indexed",
        "template": template or SEVERAL_HOSTS,
    }
    return read(JOB, "train", plain | spec, status=status, **metadata or {})


def a_pod_of_job(index: str | None = "0", *, template: Json | None = None, **owner: Any) -> PodView:
    pod_labels = {JOB_NAME_ON_POD: "train"} | ({} if index is None else {labels.COMPLETION_INDEX: index})
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": UID} | owner
    body = template or SEVERAL_HOSTS
    return a_pod_of(controller, body, name="train-0-abcde", uid="", labels=pod_labels, status={})


def a_jobset(status: Json | None = None, **spec: Any) -> WorkloadView:
    """JobSet ``ml/train``."""
    metadata = {"name": "train", "namespace": "ml", "uid": "u"}
    return read_workload(JOBSET, {"metadata": metadata, "spec": spec, "status": status or {}})


# --- LeaderWorkerSet ---


def a_leaderworkerset(
    *,
    size: int | None = 4,
    replicas: int | None = 2,
    worker: Json | None = None,
    leader: Json | None = None,
    subgroups: Json | None = None,
    surge: Any = None,
    **fields: Any,
) -> WorkloadView:
    """The leader is one of the hosts, unless overridden."""
    inner = {
        "size": size,
        "workerTemplate": worker or SEVERAL_HOSTS,
        "leaderTemplate": leader,
        "subGroupPolicy": subgroups,
    }
    template = {key: value for key, value in inner.items() if value is not None}
    rollout = None if surge is None else {"rollingUpdateConfiguration": {"maxSurge": surge}}
    spec = {"replicas": replicas, "leaderWorkerTemplate": template, "rolloutStrategy": rollout}
    return read(lws.LEADERWORKERSET, "serve", spec, **fields)


def a_member(
    worker: int = 0,
    *,
    group: int = 0,
    template: Json | None = None,
    leader_asks: bool = False,
    subgroup: int | None = None,
    **overrides: Any,
) -> PodView:
    """A pod of a group; number 0 is its leader."""
    leader = f"serve-{group}"
    pod_labels = {lws.SET_NAME: "serve", lws.GROUP_INDEX: str(group), lws.WORKER_INDEX: str(worker)}
    if subgroup is not None:
        pod_labels[lws.SUBGROUP_INDEX] = str(subgroup)
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": leader if worker else "serve"}
    plain = {
        "name": f"{leader}-{worker}" if worker else leader,
        "uid": f"uid-of-{group}-{worker}",
        "labels": pod_labels,
        "annotations": {lws.LEADER_ASKS_FOR_CHIPS: "true"} if leader_asks and worker else {},
    }
    return a_pod_of(owner, template or SEVERAL_HOSTS, status={}, **plain | overrides)


# --- Deployment and StatefulSet ---


def a_deployment(*, template: Json | None = None, shown: int = 0, deleted: str = "", **spec: Any) -> WorkloadView:
    more = {"deletionTimestamp": deleted} if deleted else {}
    plain = {"replicas": 3, "template": template or ONE_HOST}
    return read(DEPLOYMENT, "serve", plain | spec, status={"replicas": shown}, **more)


def a_server(*, template: Json | None = None, pod_labels: dict[str, str] | None = None, **owner: Any) -> PodView:
    """A pod of the Deployment."""
    controller = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"serve-{HASH}"} | owner
    found = {TEMPLATE_HASH: HASH} if pod_labels is None else pod_labels
    return a_pod_of(controller, template or ONE_HOST, name=f"serve-{HASH}-x2x4z", labels=found)


def a_stateful_set(**spec: Any) -> WorkloadView:
    return read(STATEFULSET, "shard", {"replicas": 4, "template": ONE_HOST} | spec)


def a_shard(ordinal: int = 0, *, template: Json | None = None, **owner: Any) -> PodView:
    """A pod of the StatefulSet."""
    name = f"shard-{ordinal}"
    controller = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "shard", "uid": UID} | owner
    return a_pod_of(controller, template or ONE_HOST, name=name, labels={POD_NAME: name})


# --- RayCluster ---


def a_group(name: str = "tpu", *, topology: str = "2x4", chips: int = 4, **fields: Any) -> Json:
    plain = {"groupName": name, "replicas": 2, "minReplicas": 0, "maxReplicas": 4, "numOfHosts": 2}
    template = a_pod_body(topology=topology, chips=chips)
    return {key: value for key, value in {**plain, "template": template, **fields}.items() if value is not None}


def a_ray_body(*groups: Json, conditions: list[Any] | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"namespace": "default", "name": "llm", "uid": UID, "generation": 3},
        "spec": {"workerGroupSpecs": list(groups or [a_group()]), **spec},
        "status": {"availableWorkerReplicas": 5, "conditions": conditions or []},
    }


def a_raycluster(*groups: Json, **spec: Any) -> WorkloadView:
    return RAYCLUSTER.read(a_ray_body(*groups, **spec), read_template)


def a_worker(
    *,
    name: str = "llm-tpu-worker-x7f2k",
    group: str = "tpu",
    pod_labels: dict[str, str] | None = None,
    selector: dict[str, str] | None = None,
    affinity: bool = False,
    **overrides: Any,
) -> PodView:
    chosen = {labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "2x4", **(selector or {})}
    template = PodTemplate(
        labels={CLUSTER: "llm", GROUP: group, NODE_TYPE: "worker"} | (pod_labels or {}),
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
