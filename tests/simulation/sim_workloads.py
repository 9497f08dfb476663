"""The workloads of a scenario: their objects as the API has them, and the pods that they want."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from shared.edges.pods import read_template, read_workload
from shared.kinds import jobset, leaderworkerset, raycluster
from shared.kinds.job import JOB_NAME_ON_POD
from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.times import format_time
from shared.model.workloads import PodTemplate, WorkloadView

Json = dict[str, Any]
NAMESPACE = "default"
TEMPLATE_HASH = "pod-template-hash"
POD_NAME = "statefulset.kubernetes.io/pod-name"

ELASTIC_KINDS = ("Deployment", "StatefulSet", "Pod")
SURGE_SHARE = 0.25  # of the pods of a Deployment so many more run while they are replaced


@dataclass(frozen=True, slots=True)
class Shape:
    """What the pods of a slice ask for, and what GKE's machines for it are."""

    accelerator: str
    topology: str
    units: int  # chips or GPUs of each pod
    hosts: int
    machine_type: str
    gpu: bool = False

    @property
    def selectors(self) -> dict[str, str]:
        """Return the node selectors of its pods."""
        if self.gpu:
            return {labels.GPU_ACCELERATOR: self.accelerator}
        return {labels.ACCELERATOR: self.accelerator, labels.TOPOLOGY: self.topology}


SHAPES = {
    "one": Shape("tpu-v4-podslice", "2x2x1", 4, 1, "ct4p-hightpu-4t"),
    "one-other": Shape("tpu-v6e-slice", "2x2", 4, 1, "ct6e-standard-4t"),
    "two": Shape("tpu-v4-podslice", "2x2x2", 4, 2, "ct4p-hightpu-4t"),
    "two-other": Shape("tpu-v6e-slice", "2x4", 4, 2, "ct6e-standard-4t"),
    "gpu": Shape("nvidia-l4", "", 1, 1, "g2-standard-4", gpu=True),
    "gpu-other": Shape("nvidia-tesla-t4", "", 1, 1, "n1-standard-4", gpu=True),
}
OTHER = {"one": "one-other", "two": "two-other", "gpu": "gpu-other"} | {
    "one-other": "one",
    "two-other": "two",
    "gpu-other": "gpu",
}


@dataclass(slots=True)
class Workload:
    """One workload as it is now."""

    kind: str
    name: str
    uid: str
    shape: Shape
    replicas: int
    pinned: bool
    spot: bool = False
    tolerates: bool = True  # its pods tolerate the taint of spot nodes
    generation: int = 1
    suspended: bool = False
    suspended_at: float = 0.0  # when it was told to suspend last
    suspended_since: float | None = None  # of its condition
    terminal: str = ""
    terminal_since: float | None = None
    deleting_since: float | None = None
    restarts: int = 0
    active: int = 0
    queued: bool = False  # Kueue decides when it is suspended
    check_seconds: int = 1800  # for how long our check holds a part of its pools
    finished: frozenset[int] = frozenset()  # slices of it that have ended while it lives
    lent: bool = False  # pods of others have run on a pool of it
    version: int = 0
    made_at: float = 0.0
    changed_at: float = 0.0  # when what it wants last changed
    _view: WorkloadView | None = None
    _template: PodTemplate | None = None

    def touch(self) -> None:
        """Forget what was read of it: it has changed."""
        self.version += 1
        self._view = None

    def respec(self) -> None:
        """Forget its template too."""
        self.generation += 1
        self._view = self._template = None

    @property
    def view(self) -> WorkloadView:
        """Return it as the product's own reader sees it."""
        if self._view is None:
            self._view = read_workload(get_kind(self.kind), self.build_body())
        return self._view

    @property
    def template(self) -> PodTemplate:
        """Return the template of its pods, without what controllers add."""
        if self._template is None:
            self._template = read_template(self.build_template())
        return self._template

    @property
    def elastic(self) -> bool:
        """Return whether its pods share one pool of changing size."""
        sliced = self.kind in ("JobSet", "LeaderWorkerSet") and self.pinned
        return (self.shape.gpu and not sliced) or (self.kind in ELASTIC_KINDS and self.shape.hosts == 1)

    @property
    def over(self) -> bool:
        """Return whether it wants no pods."""
        return bool(self.terminal or self.suspended or self.deleting_since is not None)

    def count_slices(self) -> int:
        """Return how many pools it may have now, if it has slices."""
        slices = len({plan.slice_name for plan in list_wanted(self)})
        if self.kind == "Deployment":
            return slices + math.ceil(self.replicas * SURGE_SHARE)
        return slices + (slices > 0 and self.kind == "LeaderWorkerSet" and self.restarts > 0)

    def count_nodes(self) -> int:
        """Return for how many pods at a time an elastic pool must have nodes."""
        pods = len(list_wanted(self))
        return pods + math.ceil(pods * SURGE_SHARE) * (self.kind == "Deployment")

    def build_template(self) -> Json:
        """Return its PodTemplateSpec."""
        resource = labels.GPU_RESOURCE if self.shape.gpu else labels.TPU_RESOURCE
        selectors = dict(self.shape.selectors)
        if self.spot:
            selectors[labels.SPOT] = "true"
        asked = {"requests": {resource: str(self.shape.units)}, "limits": {resource: str(self.shape.units)}}
        metadata: Json = {}
        if self.kind == "LeaderWorkerSet" and self.pinned:
            metadata["annotations"] = {leaderworkerset.EXCLUSIVE_TOPOLOGY: labels.NODE_POOL}
        spec: Json = {"nodeSelector": selectors, "containers": [{"resources": asked}]}
        if self.kind == "RayCluster" and self.shape.hosts > 1 and self.pinned:
            term = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": labels.NODE_POOL}]}
            spec["affinity"] = {"podAffinity": term, "podAntiAffinity": term}
        return {"metadata": metadata, "spec": spec}

    def build_body(self) -> Json:
        """Return the object as the API has it."""
        metadata: Json = {
            "name": self.name,
            "namespace": NAMESPACE,
            "uid": self.uid,
            "generation": self.generation,
            "resourceVersion": str(self.version),
            "creationTimestamp": format_time(self.made_at),
            "annotations": {labels.CAPACITY_CHECK_SECONDS: str(self.check_seconds)} if self.queued else {},
        }
        if self.deleting_since is not None:
            metadata["deletionTimestamp"] = format_time(self.deleting_since)
        return _BODIES[self.kind](self, metadata)

    def list_conditions(self, suspended: str = "Suspended") -> list[Json]:
        """Return the conditions that hold."""
        rows = [(self.terminal, self.terminal_since)] if self.terminal else []
        if self.suspended_since is not None:
            rows.append((suspended, self.suspended_since))
        return [{"type": kind, "status": "True", "lastTransitionTime": format_time(since)} for kind, since in rows]


def _build_jobset(made: Workload, metadata: Json) -> Json:
    if made.pinned:
        metadata["annotations"] |= {
            jobset.EXCLUSIVE_TOPOLOGY: labels.NODE_POOL,
            jobset.NODE_SELECTOR_STRATEGY: "true",
        }
    job = {"parallelism": made.shape.hosts, "completions": made.shape.hosts, "template": made.build_template()}
    replicated = {"name": "w", "replicas": made.replicas, "template": {"spec": job}}
    status: Json = {"conditions": made.list_conditions(), "restarts": made.restarts}
    status["replicatedJobsStatus"] = [{"name": "w", "active": made.active, "succeeded": len(made.finished)}]
    spec = {"suspend": made.suspended, "replicatedJobs": [replicated]}
    return {"metadata": metadata, "spec": spec, "status": status}


def _count_most(made: Workload) -> int:
    """Return the most replicas of a worker group; one where the pods of two could mix."""
    return 8 if made.pinned or made.shape.hosts == 1 else 1


def _build_ray(made: Workload, metadata: Json) -> Json:
    group = {
        "groupName": "g",
        "replicas": made.replicas,
        "minReplicas": 0,
        "maxReplicas": _count_most(made),
        "numOfHosts": made.shape.hosts,
        "template": made.build_template(),
    }
    status = {"availableWorkerReplicas": made.active, "conditions": made.list_conditions("RayClusterSuspended")}
    spec = {"suspend": made.suspended, "workerGroupSpecs": [group]}
    return {"metadata": metadata, "spec": spec, "status": status}


def _build_lws(made: Workload, metadata: Json) -> Json:
    if made.pinned:
        metadata["annotations"][leaderworkerset.EXCLUSIVE_TOPOLOGY] = labels.NODE_POOL
    template = {"size": made.shape.hosts, "workerTemplate": made.build_template()}
    spec = {"replicas": made.replicas, "leaderWorkerTemplate": template}
    return {"metadata": metadata, "spec": spec, "status": {"replicas": min(made.active, made.replicas)}}


def _build_job(made: Workload, metadata: Json) -> Json:
    pods = made.replicas if made.shape.hosts == 1 else made.shape.hosts
    spec: Json = {"completionMode": "Indexed", "parallelism": pods, "completions": pods, "suspend": made.suspended}
    spec["template"] = made.build_template()
    status: Json = {"active": made.active, "conditions": made.list_conditions()}
    return {"metadata": metadata, "spec": spec, "status": status}


def _build_deployment(made: Workload, metadata: Json) -> Json:
    spec = {"replicas": made.replicas, "template": made.build_template()}
    return {"metadata": metadata, "spec": spec, "status": {"replicas": made.active}}


def _build_set(made: Workload, metadata: Json) -> Json:
    pods = made.replicas if made.shape.hosts == 1 else made.shape.hosts * min(made.replicas, 1)
    spec = {"replicas": pods, "podManagementPolicy": "Parallel", "template": made.build_template()}
    return {"metadata": metadata, "spec": spec, "status": {"replicas": made.active}}


def _build_pod(made: Workload, metadata: Json) -> Json:
    body = made.build_template()
    body["metadata"] = metadata
    body["status"] = {"phase": made.terminal or "Pending"}
    return body


_BODIES: dict[str, Callable[[Workload, Json], Json]] = {
    "JobSet": _build_jobset,
    "RayCluster": _build_ray,
    "LeaderWorkerSet": _build_lws,
    "Job": _build_job,
    "Deployment": _build_deployment,
    "StatefulSet": _build_set,
    "Pod": _build_pod,
}


@dataclass(frozen=True, slots=True)
class PodPlan:
    """One pod that a workload wants."""

    key: str  # stays the same when the pod is made anew
    slice_name: str  # pods of one slice share it; of an elastic pool, it is the workload's name
    name: str
    template: PodTemplate
    controller_kind: str = ""
    controller_name: str = ""
    controller_uid: str = ""
    api_version: str = "apps/v1"
    pool_key: str = ""  # pods with it share one pool, which no pod with another such key may use


def list_pods(made: Workload) -> list[PodPlan]:
    """Return the pods that a workload wants now."""
    return [] if made.over else list_wanted(made)


def list_wanted(made: Workload) -> list[PodPlan]:
    """Return the pods of a workload's spec, whether it is suspended or over."""
    return list(_PLANS[made.kind](made))


def _say(made: Workload, given: dict[str, str], notes: dict[str, str] | None = None) -> PodTemplate:
    known = made.template
    return replace(known, labels=known.labels | given, annotations=known.annotations | (notes or {}))


def _plan_jobset(made: Workload) -> Iterator[PodPlan]:
    for index in (each for each in range(made.replicas) if each not in made.finished):
        job = f"{made.name}-w-{index}"
        pinned = f"{NAMESPACE}_{job}"
        for host in range(made.shape.hosts):
            fields = {
                jobset.JOBSET_NAME_ON_POD: made.name,
                jobset.JOBSET_UID_ON_POD: made.uid,
                jobset.REPLICATED_JOB_ON_POD: "w",
                "jobset.sigs.k8s.io/job-index": str(index),
                "jobset.sigs.k8s.io/restart-attempt": str(made.restarts),
                jobset.JOB_KEY: f"key-of-{job}",
                JOB_NAME_ON_POD: job,
                labels.COMPLETION_INDEX: str(host),
            }
            template = _say(made, fields, {jobset.EXCLUSIVE_TOPOLOGY: labels.NODE_POOL} if made.pinned else None)
            if made.pinned:
                template = replace(template, selection=template.selection | {jobset.NAMESPACED_JOB: (pinned,)})
            name, uid = f"{job}-{host}", f"{made.uid}-{made.restarts}-{index}"
            key = pinned if made.pinned else ""
            yield PodPlan(f"{name}/{made.restarts}", job, name, template, "Job", job, uid, "batch/v1", key)


def _plan_ray(made: Workload) -> Iterator[PodPlan]:
    for index in range(min(made.replicas, _count_most(made))):
        for host in range(made.shape.hosts):
            fields = {
                raycluster.CLUSTER: made.name,
                raycluster.GROUP: "g",
                raycluster.NODE_TYPE: raycluster.WORKER,
                raycluster.REPLICA_INDEX: str(index),
            }
            if made.shape.hosts > 1:
                fields[raycluster.HOST_INDEX] = str(host)
            slice_name = f"{made.name}-g-{index}"
            key = slice_name if made.pinned and made.shape.hosts > 1 else ""
            template, name = _say(made, fields), f"{made.name}-g-worker-{index}{host}"
            age = f"{name}/{made.restarts}/{made.shape.accelerator}"
            owner = "RayCluster", made.name, made.uid, raycluster.RAYCLUSTER.api_version
            yield PodPlan(age, slice_name, name, template, *owner, key)


def _plan_lws(made: Workload) -> Iterator[PodPlan]:
    for index in range(made.replicas):
        leader = f"{made.name}-{index}"
        for host in range(made.shape.hosts):
            fields = {
                leaderworkerset.SET_NAME: made.name,
                leaderworkerset.GROUP_INDEX: str(index),
                leaderworkerset.WORKER_INDEX: str(host),
            }
            notes = {leaderworkerset.LEADER_ASKS_FOR_CHIPS: "true"}
            name, owner = (f"{leader}-{host}", leader) if host else (leader, made.name)
            key, template = leader if made.pinned else "", _say(made, fields, notes)
            age = f"{name}/{made.restarts}/{made.shape.accelerator}"
            uid = f"{made.uid}-{owner}"
            yield PodPlan(age, leader, name, template, "StatefulSet", owner, uid, "apps/v1", key)


def _plan_job(made: Workload) -> Iterator[PodPlan]:
    several = made.shape.hosts > 1
    count = made.shape.hosts if several else made.replicas
    for index in range(count):
        pod_labels = {JOB_NAME_ON_POD: made.name, labels.COMPLETION_INDEX: str(index)}
        name = f"{made.name}-{index}"
        slice_name = made.name if several else name
        template = _say(made, pod_labels)
        key = f"{name}/{made.restarts}"
        yield PodPlan(key, slice_name, name, template, "Job", made.name, made.uid, "batch/v1")


def _plan_deployment(made: Workload) -> Iterator[PodPlan]:
    age = f"{made.shape.accelerator.replace('-', '')}{made.restarts}"
    template = _say(made, {TEMPLATE_HASH: age})
    owner = f"{made.name}-{age}"
    for index in range(made.replicas):
        name, uid = f"{owner}-{index}", f"{made.uid}-{age}"
        yield PodPlan(name, made.name, name, template, "ReplicaSet", owner, uid)


def _plan_set(made: Workload) -> Iterator[PodPlan]:
    several = made.shape.hosts > 1
    count = made.shape.hosts * min(made.replicas, 1) if several else made.replicas
    for index in range(count):
        name = f"{made.name}-{index}"
        key = f"{name}/{made.restarts}/{made.shape.accelerator}"
        template = _say(made, {POD_NAME: name})
        yield PodPlan(key, made.name, name, template, "StatefulSet", made.name, made.uid)


def _plan_pod(made: Workload) -> Iterator[PodPlan]:
    yield PodPlan(made.name, made.name, made.name, made.template, api_version="")


_PLANS: dict[str, Callable[[Workload], Iterator[PodPlan]]] = {
    "JobSet": _plan_jobset,
    "RayCluster": _plan_ray,
    "LeaderWorkerSet": _plan_lws,
    "Job": _plan_job,
    "Deployment": _plan_deployment,
    "StatefulSet": _plan_set,
    "Pod": _plan_pod,
}
