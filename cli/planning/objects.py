"""What an object makes, how it asks for accelerators, and what Kubernetes refuses of it.

This is for a manifest before it is applied. Decisions for a live cluster do not use it, because the
workload itself exists there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.edges.pods import parse_quantity
from shared.kinds import read
from shared.kinds.read import UnexpectedValue
from shared.model import labels
from shared.model.decisions import Reason
from shared.model.errors import Rejected
from shared.model.labels import GPU_RESOURCE, TPU_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from shared.kinds.kind import Json


_SHOWN_MAX = 60
_TEXTS = ("labels", "annotations", "nodeSelector", "matchLabels", "rayStartParams")
"""Fields whose values are objects of texts wherever they are."""
_TEXT = (
    *("name", "namespace", "generateName", "image", "value", "key", "operator", "effect"),
    *("claimName", "secretName", "serviceAccountName", "priorityClassName", "schedulerName"),
    *("mountPath", "subPath", "hostname", "subdomain", "restartPolicy", "groupName"),
)
"""Fields that are texts wherever they are."""
_COUNTS = (
    *("replicas", "minReplicas", "maxReplicas", "numOfHosts", "parallelism", "completions"),
    *("size", "subGroupSize", "numSlices"),
)


class WrongField(ValueError):
    """A field of an object is missing or wrong; the text names it, its value and what is valid."""

    def __init__(self, field: str, got: Any, valid: str) -> None:
        self.field, self.got, self._valid = field, got, valid
        super().__init__(self.describe(""))

    def describe(self, written: str) -> str:
        """Return the text, with the value as the file has it if that is given."""
        if self._valid == "a text" and isinstance(self.got, bool | int | float):
            shown = (written or json.dumps(self.got))[:_SHOWN_MAX]
            what = "boolean" if isinstance(self.got, bool) else "number"
            return f'{self.field}: {shown} is a {what} in YAML; write it in quotes: "{shown}"'
        shown = self.got if isinstance(self.got, str) else json.dumps(self.got, ensure_ascii=False, default=str)
        what = "is missing" if self.got is None else f"is not valid (got {shown[:_SHOWN_MAX]!r})"
        return f"{self.field}: {what}; valid: {self._valid}"


def without_nulls(value: Any) -> Any:
    """Return an object without its keys whose value is null: the API server drops them too."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def check_object(body: dict[str, Any]) -> None:
    """Accept an object whose labels are texts, and whose counts and amounts are not negative."""
    for path, key, value in walk(body):
        for part, text in _list_texts(key, value):
            if not isinstance(text, str):
                raise WrongField(f"{path}{part}", text, "a text")
        numbers = {key: value} if key in _COUNTS else {}
        if key in _SIDES and isinstance(value, dict):
            numbers = {f"{key}.{name}": amount for name, amount in value.items()}
        for part, number in numbers.items():
            if str(number).startswith("-"):
                raise WrongField(f"{path}{part}", number, "0 or more")


def _list_texts(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values of a field that have to be texts, each with its path."""
    if key in _TEXTS and isinstance(value, dict):
        yield from ((f"{key}.{name}", each) for name, each in value.items())
    elif key in _TEXT and not isinstance(value, dict):  # the image of a volume is an object
        yield key, value
    elif key in ("command", "args") and isinstance(value, list):
        yield from ((f"{key}[{number}]", each) for number, each in enumerate(value))


def walk(value: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield each key or index of an object with the path before it and its value."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield path, key, each
            yield from walk(each, f"{path}{key}.")
    elif isinstance(value, list):
        place = path.removesuffix(".")
        for number, each in enumerate(value):
            yield place, f"[{number}]", each
            yield from walk(each, f"{place}[{number}].")


_SIDES = ("limits", "requests")
_SELECTORS = (
    *(labels.ACCELERATOR, labels.GPU_ACCELERATOR, labels.TOPOLOGY, labels.GPU_NODE),
    "nvidia.com/gpu.product",
)
_ASKS = re.compile(
    rf"nodeSelector\.({'|'.join(map(re.escape, _SELECTORS))})$"
    rf"|(limits|requests)\.({TPU_RESOURCE}|{GPU_RESOURCE}|tpu|gpu|nvidia\.com/mig-.*)$"
    r"|deviceClassName$"
)
"""Fields that ask for accelerators; some operators have short names of their own."""
_MACHINES = re.compile(rf"nodeSelector\.{labels.INSTANCE_TYPE} (ct[0-9]|tpu|a[2-9]-|g[2-9]-)")
"""Machine types with TPUs or GPUs, by their first letters."""


def find_requests(body: Mapping[str, Any]) -> str:
    """Return the first way by which an object asks for accelerators; empty for none."""
    for path, key, value in walk(body):
        if _ASKS.search(f"{path}{key}") or _MACHINES.search(f"{path}{key} {value}"):
            return f"{key}: {value}"
        # A term of node affinity is an object with the label's name under ``key``.
        if isinstance(value, dict) and value.get("key") in _SELECTORS and value.get("operator") == "In":
            return f"{value['key']}: {', '.join(map(str, value.get('values', ())))}"
    return ""


_QUANTITIES = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_PARTS_MAX = 64
_VALID_QUANTITY = "a number with a suffix like m, k, M, G, Mi, Gi or Ti, without a space"


def list_refusals(body: Mapping[str, Any]) -> Iterator[Rejected]:
    """Yield what Kubernetes refuses of an object, or of what its controller makes of it."""
    for path, key, value in walk(body):
        if key in ("resources", "resourcesPerNode") and isinstance(value, dict):
            yield from _list_wrong_amounts(f"{path}{key}", value)
        elif key == "leaderWorkerTemplate" and isinstance(value, dict):
            yield from _list_subgroups(f"{path}{key}.subGroupPolicy.subGroupSize", value)


def _list_wrong_amounts(path: str, resources: dict[str, Any]) -> Iterator[Rejected]:
    """Yield what ValidateContainerResourceRequirements of Kubernetes refuses."""
    limits, requests = (read.fields(resources, side) for side in _SIDES)
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            # What is wrong with an amount of accelerators is refused as for a live pod.
            if name not in (TPU_RESOURCE, GPU_RESOURCE):
                yield from _list_unreadable(f"{path}.{side}.{name}", name, amount)
    for name, amount in requests.items():
        problem, valid = _compare(name, amount, limits.get(name))
        if problem:
            yield Rejected(
                Reason.MANIFEST_INVALID, problem, field=f"{path}.requests.{name}", value=str(amount), valid=valid
            )


def _list_unreadable(field: str, name: str, amount: Any) -> Iterator[Rejected]:
    number = parse_quantity(str(amount))
    if number is None:
        problem = f"quantity {str(amount)!r} is not valid: {_QUANTITIES}"
        yield Rejected(Reason.MANIFEST_INVALID, problem, field=field, valid=_VALID_QUANTITY)
    elif _is_extended(name) and number % 1:
        yield Rejected(Reason.MANIFEST_INVALID, "must be an integer", field=field, value=str(amount))


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def _compare(name: str, request: Any, limit: Any) -> tuple[str, str]:
    """Return what is wrong with a request beside its limit, and what is valid; or nothing."""
    extended = _is_extended(name) or name.startswith(labels.HUGE_PAGES)
    if limit is None:
        problem = "Limit must be set for non overcommitable resources"
        return (problem, f"limits.{name}: {request}") if extended else ("", "")
    least, most = parse_quantity(str(request)), parse_quantity(str(limit))
    if least is None or most is None:
        return "", ""
    if extended and least != most:
        return f"must be equal to {name} limit of {limit}", str(limit)
    if least > most:
        return f"must be less than or equal to {name} limit of {limit}", f"at most {limit}"
    return "", ""


def _list_subgroups(field: str, template: dict[str, Any]) -> Iterator[Rejected]:
    """Yield what the webhook of sets of leaders and workers refuses: validateUpdateSubGroupPolicy.

    https://github.com/kubernetes-sigs/lws/tree/v0.7.0/pkg/webhooks
    """
    policy, size = read.fields(template, "subGroupPolicy"), template.get("size", 1)
    part = policy.get("subGroupSize")
    if not isinstance(part, int) or not isinstance(size, int):
        return
    excluded = policy.get("subGroupPolicyType") == "LeaderExcluded"
    problem = _find_uneven(size, part, excluded=excluded)
    if problem:
        parts = range(1, min(size, _PARTS_MAX) + 1)
        valid = ", ".join(str(each) for each in parts if not _find_uneven(size, each, excluded=excluded))
        yield Rejected(Reason.MANIFEST_INVALID, problem, field=f"{field} {part}", valid=valid)


def _find_uneven(size: int, part: int, *, excluded: bool) -> str:
    if part < 1:
        return "subGroupSize must be equal or greater than 1"
    if size < part:
        return f"subGroupSize cannot be larger than size {size}"
    if excluded and (size - 1) % part:
        return f"size-1 must be divisible by it when using LeaderExcluded (size {size})"
    uneven = size % part and (size - 1) % part
    return f"size {size} or size - 1 must be divisible by it" if uneven else ""


GENERATED = "xxxxx"
"""In place of the suffix that a controller or Kubernetes appends to a name; it is as long."""


@dataclass(frozen=True, slots=True)
class Made:
    """The workload that an object makes."""

    body: Json | None  # as a manifest; None if the object makes none
    note: str  # for the author: why it makes none, or what is particular to it. Empty for nothing.


@dataclass(frozen=True, slots=True)
class Maker:
    """A kind whose objects make one workload each."""

    name: str
    group: str
    versions: tuple[str, ...]
    make: Callable[[Json, Mapping[tuple[str, str, str], Json]], Made]
    """Return what an object makes; raises `UnexpectedValue`. The object has a name and a namespace.
    With it come all objects of the files, by kind, namespace and name."""


def _name(body: Json) -> str:
    return read.text(body, "metadata", "name")


def _write(api: str, kind: str, name: str, body: Json, spec: Json) -> dict[str, Any]:
    """Return what an object makes, with the namespace, labels and annotations of its maker."""
    metadata = {
        "name": name,
        "namespace": read.text(body, "metadata", "namespace"),
        "labels": read.texts(body, "metadata", "labels"),
        "annotations": read.texts(body, "metadata", "annotations"),
    }
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


def _make_ray(body: Json, field: str, note: str) -> Made:
    spec = dict(read.fields(body, "spec", field))
    if not spec:
        raise UnexpectedValue(f"spec.{field}", "nothing", "the spec of a RayCluster")
    if read.flag(body, "spec", "suspend"):
        spec["suspend"] = True
    if elsewhere := read.text(body, "spec", "managedBy"):
        spec["managedBy"] = elsewhere
    return Made(_write("ray.io/v1", "RayCluster", f"{_name(body)}-{GENERATED}", body, spec), note)


def _make_of_rayjob(body: Json, _: object) -> Made:
    """Return the RayCluster of a RayJob, as constructRayClusterForRayJob makes it.

    See https://github.com/ray-project/kuberay/blob/v1.6.1/ray-operator/controllers/ray/rayjob_controller.go.
    """
    chosen = read.texts(body, "spec", "clusterSelector")
    if chosen:
        named = ", ".join(f"{key}={value}" for key, value in sorted(chosen.items()))
        return Made(None, f"it makes no RayCluster, because spec.clusterSelector names one ({named})")
    return _make_ray(body, "rayClusterSpec", "")


def _make_of_rayservice(body: Json, _: object) -> Made:
    """Return the RayCluster of a RayService, as constructRayClusterForRayService makes it.

    See https://github.com/ray-project/kuberay/blob/v1.6.1/ray-operator/controllers/ray/rayservice_controller.go.
    """
    note = "an update makes a second RayCluster, so twice these pools until the first one is deleted"
    return _make_ray(body, "rayClusterConfig", note)


def _make_of_cronjob(body: Json, _: object) -> Made:
    template = read.fields(body, "spec", "jobTemplate")
    home = {"namespace": read.text(body, "metadata", "namespace")}
    maker = {"metadata": {**read.fields(template, "metadata"), **home}}
    job = _write("batch/v1", "Job", f"{_name(body)}-{GENERATED}", maker, read.fields(template, "spec"))
    waits = read.flag(body, "spec", "suspend")
    stopped = "it is suspended and starts no Job until it is resumed; " if waits else ""
    return Made(job, f"{stopped}these pools are for each Job that it starts")


def _make_of_trainjob(body: Json, defined: Mapping[tuple[str, str, str], Json]) -> Made:
    """Return the JobSet of a TrainJob, as the builder of Kubeflow Trainer makes it of its runtime.

    https://github.com/kubeflow/trainer/blob/master/pkg/runtime/framework/plugins/jobset/builder.go;
    several slices share the nodes as in https://github.com/kubeflow/trainer/pull/3408.
    """
    reference = read.fields(body, "spec", "runtimeRef")
    kind, name = read.text(reference, "kind") or "ClusterTrainingRuntime", read.text(reference, "name")
    home = read.text(body, "metadata", "namespace") if kind == "TrainingRuntime" else "default"
    runtime = defined.get((kind, home, name))
    changed = any(read.objects(body, "spec", each) for each in ("podTemplateOverrides", "runtimePatches"))
    if not runtime:
        return Made(None, f"{_BY_TRAINER}, or give the {kind} {name} too")
    if changed or read.fields(runtime, "spec", "mlPolicy", "mpi"):
        return Made(None, _BY_TRAINER)
    template = read.fields(runtime, "spec", "template")
    nodes = read.number(runtime, "spec", "mlPolicy", "numNodes", default=1)
    nodes = read.number(body, "spec", "trainer", "numNodes", default=nodes)
    jobs = [_write_trainer(each, body, nodes) for each in read.objects(template, "spec", "replicatedJobs")]
    spec = {**read.fields(template, "spec"), "suspend": read.flag(body, "spec", "suspend"), "replicatedJobs": jobs}
    jobset = _write("jobset.x-k8s.io/v1alpha2", "JobSet", _name(body), body, spec)
    for part in ("labels", "annotations"):
        jobset["metadata"][part] |= read.texts(template, "metadata", part) | read.texts(body, "spec", part)
    return Made(jobset, f"from the {kind} {name}")


def _write_trainer(job: Json, body: Json, nodes: int) -> Json:
    """Return a replicated job of a runtime with the nodes and the resources of a TrainJob."""
    step = read.texts(job, "template", "metadata", "labels").get("trainer.kubeflow.org/trainjob-ancestor-step")
    pods = read.fields(job, "template", "spec", "template")
    resources = read.fields(body, "spec", "trainer", "resourcesPerNode")
    containers = [
        {**each, "resources": resources} if resources and read.text(each, "name") == "node" else each
        for each in read.objects(pods, "spec", "containers")
    ]
    spec = dict(read.fields(job, "template", "spec"))
    spec["template"] = {**pods, "spec": {**read.fields(pods, "spec"), "containers": containers}}
    if step == "trainer":
        slices = max(read.number(job, "replicas", default=1), 1)
        if nodes % slices:
            raise UnexpectedValue("spec.trainer.numNodes", nodes, f"a multiple of its {slices} slices")
        spec |= {"parallelism": nodes // slices, "completions": nodes // slices}
    return {**job, "template": {**read.fields(job, "template"), "spec": spec}}


_BY_TRAINER = "Trainer makes a JobSet of it, which gets its pools; plan that JobSet"
_BY_PATHWAYS = "its controller makes a JobSet of it, which gets its pools; plan that JobSet"
_RAY = ("v1", "v1alpha1")
MAKERS = (
    Maker("RayJob", "ray.io", _RAY, _make_of_rayjob),
    Maker("RayService", "ray.io", _RAY, _make_of_rayservice),
    Maker("TrainJob", "trainer.kubeflow.org", ("v1alpha1",), _make_of_trainjob),
    Maker("CronJob", "batch", ("v1",), _make_of_cronjob),
    Maker("PathwaysJob", "pathways-job.pathways.domain", ("v1",), lambda *_: Made(None, _BY_PATHWAYS)),
)
