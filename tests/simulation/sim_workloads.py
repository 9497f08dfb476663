"""The workloads of a scenario: their objects as the API has them, and the pods that they want."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from shared.edges.pods import read_workload
from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.times import format_time
from shared.model.workloads import WorkloadView

Json = dict[str, Any]
NAMESPACE = "default"
KINDS: dict[str, Json] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
ELASTIC_KINDS = ("Deployment", "StatefulSet", "Pod")
SURGE_SHARE = 0.25  # of the pods of a Deployment so many more run while they are replaced


@dataclass(frozen=True, slots=True)
class PodPlan:
    key: str  # stays the same when the pod is made anew
    slice_name: str  # pods of one slice share it; of an elastic pool, it is the workload's name
    name: str
    body: Json  # as its controller makes it, but for what is its own
    pool_key: str  # pods with it share one pool, which no pod with another such key may use


@dataclass(frozen=True, slots=True)
class Shape:
    """What the pods of a slice ask for, and what GKE's machines for it are."""

    name: str
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


_SHAPES = (
    Shape("one", "tpu-v4-podslice", "2x2x1", 4, 1, "ct4p-hightpu-4t"),
    Shape("one-other", "tpu-v6e-slice", "2x2", 4, 1, "ct6e-standard-4t"),
    Shape("two", "tpu-v4-podslice", "2x2x2", 4, 2, "ct4p-hightpu-4t"),
    Shape("two-other", "tpu-v6e-slice", "2x4", 4, 2, "ct6e-standard-4t"),
    Shape("gpu", "nvidia-l4", "", 1, 1, "g2-standard-4", gpu=True),
    Shape("gpu-other", "nvidia-tesla-t4", "", 1, 1, "n1-standard-4", gpu=True),
)
SHAPES = {each.name: each for each in _SHAPES}
SINGLE_HOSTS = {each.machine_type: each for each in _SHAPES if each.hosts == 1}
OTHER = {name: name.removesuffix("-other") if name.endswith("-other") else f"{name}-other" for name in SHAPES}


@dataclass(slots=True)
class Workload:
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
    _wanted: tuple[object, list[PodPlan]] = (None, [])  # what it depends on, and the pods

    def touch(self) -> None:
        """Forget what was read of it: it has changed."""
        self.version += 1
        self._view = None

    @property
    def view(self) -> WorkloadView:
        """Return it as the product's own reader sees it."""
        if self._view is None:
            self._view = read_workload(get_kind(self.kind), self.build_body())
        return self._view

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
        slices = len({plan.slice_name for plan in self.list_wanted()})
        if self.kind == "Deployment":
            return slices + math.ceil(self.replicas * SURGE_SHARE)
        return slices + (slices > 0 and self.kind == "LeaderWorkerSet" and self.restarts > 0)

    def count_pools(self) -> int:
        return 1 if self.elastic else self.count_slices()

    def count_nodes(self) -> int:
        """Return for how many pods at a time an elastic pool must have nodes."""
        pods = len(self.list_wanted())
        return pods + math.ceil(pods * SURGE_SHARE) * (self.kind == "Deployment")

    def can(self, verb: str) -> bool:
        return verb in KINDS[self.kind]["verbs"].split()

    @property
    def pins(self) -> Json:
        """Return what keeps each of its slices on a pool of its own."""
        several = self.shape.hosts > 1 or self.kind != "RayCluster"
        return KINDS[self.kind].get("pinned", {}) if self.pinned and several else {}

    def build_template(self) -> Json:
        asks = {labels.GPU_RESOURCE if self.shape.gpu else labels.TPU_RESOURCE: str(self.shape.units)}
        selectors = self.shape.selectors | ({labels.SPOT: "true"} if self.spot else {})
        spec: Json = {"nodeSelector": selectors, "containers": [{"resources": {"requests": asks, "limits": asks}}]}
        more: Json = self.pins.get("template", {})
        return {"metadata": more.get("metadata", {}), "spec": spec | more.get("spec", {})}

    def build_body(self) -> Json:
        checks = {labels.CAPACITY_CHECK_SECONDS: str(self.check_seconds)} if self.queued else {}
        metadata: Json = {
            "name": self.name,
            "namespace": NAMESPACE,
            "uid": self.uid,
            "generation": self.generation,
            "resourceVersion": str(self.version),
            "creationTimestamp": format_time(self.made_at),
            "annotations": checks | self.pins.get("metadata", {}),
        }
        if self.deleting_since is not None:
            metadata["deletionTimestamp"] = format_time(self.deleting_since)
        template = self.build_template()
        values = self._list_values() | {
            "suspended": self.suspended,
            "active": self.active,
            "shown": min(self.active, self.replicas),
            "succeeded": len(self.finished),
            "conditions": self.list_conditions(),
            "phase": self.terminal or "Pending",
            "template": template,
            "spec": template["spec"],
        }
        return {"metadata": metadata} | {part: fill(KINDS[self.kind][part], values) for part in ("spec", "status")}

    def list_conditions(self) -> list[Json]:
        rows = [(self.terminal, self.terminal_since)] if self.terminal else []
        if self.suspended_since is not None:
            rows.append((KINDS[self.kind].get("suspended", "Suspended"), self.suspended_since))
        return [{"type": kind, "status": "True", "lastTransitionTime": format_time(since)} for kind, since in rows]

    def _list_values(self) -> Json:
        """Return what object and pods say of it."""
        hosts = self.shape.hosts
        return {
            "name": self.name,
            "uid": self.uid,
            "replicas": self.replicas,
            "hosts": hosts,
            "restarts": self.restarts,
            "most": self._count_most(),
            "pods": self._count_slices() * hosts,
            "accelerator": self.shape.accelerator,
            "hash": f"{self.shape.accelerator.replace('-', '')}{self.restarts}",
        }

    def _count_most(self) -> int:
        """Return the most replicas of a worker group; one where the pods of two could mix."""
        return 8 if self.pinned or self.shape.hosts == 1 else 1

    def _count_slices(self) -> int:
        """Return for how many slices its controller makes pods; one kind has several hosts once."""
        if self.kind in ("Job", "StatefulSet") and self.shape.hosts > 1:
            return 1 if self.kind == "Job" else min(self.replicas, 1)
        return min(self.replicas, self._count_most()) if self.kind == "RayCluster" else self.replicas

    def list_wanted(self) -> list[PodPlan]:
        """Return the pods of its spec, whether it is suspended or over."""
        state = self.replicas, self.restarts, self.finished, self.shape
        if self._wanted[0] != state:
            slices = [index for index in range(self._count_slices()) if index not in self.finished]
            values = self._list_values()
            pods = [self._plan_pod(values, index, host) for index in slices for host in range(self.shape.hosts)]
            self._wanted = state, pods
        return self._wanted[1]

    def _plan_pod(self, values: Json, index: int, host: int) -> PodPlan:
        """Return one pod of a slice."""
        row = {"labels": {}, "annotations": {}, "selection": {}, "key": ""} | KINDS[self.kind] | self.pins
        several = self.shape.hosts > 1
        values = values | {"index": index, "host": host, "ordinal": index * self.shape.hosts + host}
        values |= {"suffix": f"-{host}" if host else "", "host_of_several": host if several else ""}
        values["slice"] = fill(row["slice"], values)
        values["parent"] = values["slice"] if host else self.name
        values["pod"] = fill(row["pod"], values)
        version, kind, name, uid = fill(row["controller"], values)
        owner = {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}
        body = self.build_template()
        body["metadata"] = {
            "labels": {key: text for key, text in fill(row["labels"], values).items() if text},
            "annotations": body["metadata"].get("annotations", {}) | row["annotations"],
            "ownerReferences": [owner] if kind else [],
        }
        body["spec"]["nodeSelector"] |= fill(row["selection"], values)
        return PodPlan(fill(row["age"], values), values["slice"], values["pod"], body, fill(row["key"], values))

    def list_pods(self) -> list[PodPlan]:
        """Return the pods that it wants now."""
        return [] if self.over else self.list_wanted()


def fill(part: Any, values: Json) -> Any:
    """Return a part of a manifest with values in the place of their names."""
    if isinstance(part, dict):
        return {key: fill(each, values) for key, each in part.items()}
    if isinstance(part, list):
        return [fill(each, values) for each in part]
    if not isinstance(part, str):
        return part
    return values[part[1:]] if part.startswith("$") else part.format_map(values)
