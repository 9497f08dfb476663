"""Finds from a manifest which workload an object creates, for kinds whose objects create workloads.

This is for a manifest before it is applied. Decisions for a live cluster do not use it, because the
workload itself exists there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.kinds.objects import (
    UnexpectedValue,
    read_flag,
    read_number,
    read_object,
    read_objects,
    read_text,
    read_texts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.kinds.kind import Json

GENERATED = "xxxxx"
"""In place of the suffix that a controller or Kubernetes appends to a name; it is as long."""


@dataclass(frozen=True, slots=True)
class Made:
    """The workload that an object makes."""

    body: Json | None  # as a manifest; None if the object makes none
    note: str  # for the author: why it makes none, or what is particular to it. Empty for nothing.


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """A kind whose objects make one workload each."""

    name: str
    group: str
    versions: tuple[str, ...]
    make: Callable[[Json], Made]
    """Return what an object makes; raises `UnexpectedValue`. The object has a name and a
    namespace."""
    late: bool = False  # it is made from other objects, which come with it under `RUNTIMES`


def _name(body: Json) -> str:
    return read_text(body, "metadata", "name")


def _write(api: str, kind: str, name: str, body: Json, spec: Json) -> dict[str, Any]:
    """Return what an object makes, with the namespace, labels and annotations of its maker."""
    metadata = {
        "name": name,
        "namespace": read_text(body, "metadata", "namespace"),
        "labels": read_texts(body, "metadata", "labels"),
        "annotations": read_texts(body, "metadata", "annotations"),
    }
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


def _make_ray(body: Json, field: str, note: str) -> Made:
    spec = dict(read_object(body, "spec", field))
    if not spec:
        raise UnexpectedValue(f"spec.{field}", "nothing", "the spec of a RayCluster")
    if read_flag(body, "spec", "suspend"):
        spec["suspend"] = True
    if elsewhere := read_text(body, "spec", "managedBy"):
        spec["managedBy"] = elsewhere
    return Made(_write("ray.io/v1", "RayCluster", f"{_name(body)}-{GENERATED}", body, spec), note)


def _make_of_rayjob(body: Json) -> Made:
    """Return the RayCluster of a RayJob, as constructRayClusterForRayJob makes it.

    See https://github.com/ray-project/kuberay/blob/v1.6.1/ray-operator/controllers/ray/rayjob_controller.go.
    """
    chosen = read_texts(body, "spec", "clusterSelector")
    if chosen:
        named = ", ".join(f"{key}={value}" for key, value in sorted(chosen.items()))
        return Made(None, f"it makes no RayCluster, because spec.clusterSelector names one ({named})")
    return _make_ray(body, "rayClusterSpec", "")


def _make_of_rayservice(body: Json) -> Made:
    """Return the RayCluster of a RayService, as constructRayClusterForRayService makes it.

    See https://github.com/ray-project/kuberay/blob/v1.6.1/ray-operator/controllers/ray/rayservice_controller.go.
    """
    note = "an update makes a second RayCluster, so twice these pools until the first one is deleted"
    return _make_ray(body, "rayClusterConfig", note)


def _make_of_cronjob(body: Json) -> Made:
    template = read_object(body, "spec", "jobTemplate")
    home = {"namespace": read_text(body, "metadata", "namespace")}
    maker = {"metadata": {**read_object(template, "metadata"), **home}}
    job = _write("batch/v1", "Job", f"{_name(body)}-{GENERATED}", maker, read_object(template, "spec"))
    waits = read_flag(body, "spec", "suspend")
    stopped = "it is suspended and starts no Job until it is resumed; " if waits else ""
    return Made(job, f"{stopped}these pools are for each Job that it starts")


def _make_of_trainjob(body: Json) -> Made:
    """Return the JobSet of a TrainJob, as the builder of Kubeflow Trainer makes it of its runtime.

    https://github.com/kubeflow/trainer/blob/master/pkg/runtime/framework/plugins/jobset/builder.go;
    several slices share the nodes as in https://github.com/kubeflow/trainer/pull/3408.
    """
    named, runtime = _find_runtime(body)
    changed = any(read_objects(body, "spec", each) for each in ("podTemplateOverrides", "runtimePatches"))
    if not runtime:
        return Made(None, f"{_BY_TRAINER}, or give the {named} too")
    if changed or read_object(runtime, "spec", "mlPolicy", "mpi"):
        return Made(None, _BY_TRAINER)
    template = read_object(runtime, "spec", "template")
    nodes = read_number(runtime, "spec", "mlPolicy", "numNodes", default=1)
    nodes = read_number(body, "spec", "trainer", "numNodes", default=nodes)
    jobs = [_write_trainer(each, body, nodes) for each in read_objects(template, "spec", "replicatedJobs")]
    spec = {**read_object(template, "spec"), "suspend": read_flag(body, "spec", "suspend"), "replicatedJobs": jobs}
    jobset = _write("jobset.x-k8s.io/v1alpha2", "JobSet", _name(body), body, spec)
    for part in ("labels", "annotations"):
        jobset["metadata"][part] |= read_texts(template, "metadata", part) | read_texts(body, "spec", part)
    return Made(jobset, f"from the {named}")


def _find_runtime(body: Json) -> tuple[str, Json]:
    """Return the name of a TrainJob's runtime, and the runtime; empty if it is not there."""
    reference = read_object(body, "spec", "runtimeRef")
    kind, name = read_text(reference, "kind") or "ClusterTrainingRuntime", read_text(reference, "name")
    home = read_text(body, "metadata", "namespace") if kind == "TrainingRuntime" else "default"
    runtimes = {
        (each["kind"], _name(each), read_text(each, "metadata", "namespace") or "default"): each
        for each in read_objects(body, RUNTIMES)
    }
    return f"{kind} {name}", runtimes.get((kind, name, home), {})


def _write_trainer(job: Json, body: Json, nodes: int) -> Json:
    """Return a replicated job of a runtime with the nodes and the resources of a TrainJob."""
    step = read_texts(job, "template", "metadata", "labels").get("trainer.kubeflow.org/trainjob-ancestor-step")
    pods = read_object(job, "template", "spec", "template")
    resources = read_object(body, "spec", "trainer", "resourcesPerNode")
    containers = [
        {**each, "resources": resources} if resources and read_text(each, "name") == "node" else each
        for each in read_objects(pods, "spec", "containers")
    ]
    spec = dict(read_object(job, "template", "spec"))
    spec["template"] = {**pods, "spec": {**read_object(pods, "spec"), "containers": containers}}
    if step == "trainer":
        slices = max(read_number(job, "replicas", default=1), 1)
        if nodes % slices:
            raise UnexpectedValue("spec.trainer.numNodes", nodes, f"a multiple of its {slices} slices")
        spec |= {"parallelism": nodes // slices, "completions": nodes // slices}
    return {**job, "template": {**read_object(job, "template"), "spec": spec}}


def _leave_to_controller(_body: Json) -> Made:
    return Made(None, "its controller makes a JobSet of it, which gets its pools; plan that JobSet")


_BY_TRAINER = "Trainer makes a JobSet of it, which gets its pools; plan that JobSet"
RUNTIMES = "runtimes"
"""The key under which a TrainJob has the runtimes of the same files here, for `Maker.make`."""
_RAY = ("v1", "v1alpha1")
MAKERS = (
    Maker(name="RayJob", group="ray.io", versions=_RAY, make=_make_of_rayjob),
    Maker(name="RayService", group="ray.io", versions=_RAY, make=_make_of_rayservice),
    Maker(
        name="TrainJob", group="trainer.kubeflow.org", versions=("v1alpha1",), make=_make_of_trainjob, late=True
    ),
    Maker(name="CronJob", group="batch", versions=("v1",), make=_make_of_cronjob),
    Maker(name="PathwaysJob", group="pathways-job.pathways.domain", versions=("v1",), make=_leave_to_controller),
)
