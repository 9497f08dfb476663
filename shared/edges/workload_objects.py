"""The parts of pods, nodes and JobSets that decisions read, decoded straight into `shared.core.workloads`.

Partial on purpose: fields that nobody reads are skipped without being built.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from shared.core.labels import JOBSET_CONTROLLER, TPU_RESOURCE
from shared.core.workloads import JobSetView, PodTemplate, PodView, ReplicatedJobView
from shared.edges.kubernetes_objects import Condition, ObjectMeta, Record

MIRROR_POD = "kubernetes.io/config.mirror"


class Resources(Record):
    """Requests and limits; quantities are texts or numbers."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class Container(Record):
    """One container."""

    resources: Resources | None = None
    restart_policy: str | None = None
    """``Always`` makes an init container a sidecar, which runs beside the others."""


class Expression(Record):
    """One requirement on a node label."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class Term(Record):
    """Requirements that hold together."""

    match_expressions: list[Expression] | None = None


class RequiredNodes(Record):
    """Alternatives; with more than one term nothing is required for certain."""

    node_selector_terms: tuple[Term, ...] = ()


class NodeAffinity(Record):
    """Only what is required; preferences do not decide a shape."""

    required: RequiredNodes | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(Record):
    """Only node affinity."""

    node_affinity: NodeAffinity | None = None


class PodSpec(Record):
    """What a pod asks for."""

    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    containers: tuple[Container, ...] = ()
    init_containers: list[Container] | None = None
    scheduling_gates: list[dict[str, str]] | None = None


class PodStatus(Record):
    """What became of a pod."""

    phase: str = "Pending"
    nominated_node_name: str = ""
    conditions: list[Condition] | None = None


class Pod(Record):
    """A pod."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class Node(Record):
    """A node, of which only the name is read."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class Template(Record):
    """A pod template."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)


class JobSpec(Record):
    """A Job's spec."""

    parallelism: int | None = None
    completions: int | None = None
    template: Template = msgspec.field(default_factory=Template)


class JobTemplate(Record):
    """A Job template."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: JobSpec = msgspec.field(default_factory=JobSpec)


class ReplicatedJob(Record):
    """One replicated job."""

    name: str = ""
    replicas: int | None = None
    template: JobTemplate = msgspec.field(default_factory=JobTemplate)


class JobSetSpec(Record):
    """A JobSet's spec."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    suspend: bool | None = None
    managed_by: str | None = None


class JobSetStatus(Record):
    """A JobSet's status."""

    conditions: list[Condition] | None = None


class JobSet(Record):
    """A JobSet, ``jobset.x-k8s.io/v1alpha2``."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: JobSetSpec = msgspec.field(default_factory=JobSetSpec)
    status: JobSetStatus = msgspec.field(default_factory=JobSetStatus)


def view_pod(pod: Pod) -> PodView:
    """Return a pod as decisions see it."""
    meta, status = pod.metadata, pod.status
    controller = next((owner for owner in meta.owner_references or () if owner.controller), None)
    scheduled = next((each for each in status.conditions or () if each.type == "PodScheduled"), None)
    unschedulable = bool(scheduled and scheduled.status == "False" and scheduled.reason == "Unschedulable")
    return PodView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        template=_view_template(meta, pod.spec),
        controller_kind=controller.kind if controller else "",
        controller_name=controller.name if controller else "",
        node_name=pod.spec.node_name,
        nominated_node=status.nominated_node_name,
        phase=status.phase,
        deleting=meta.deletion_timestamp is not None,
        gated=bool(pod.spec.scheduling_gates),
        unschedulable=unschedulable,
        unschedulable_since=parse_time(scheduled.last_transition_time) if scheduled and unschedulable else None,
    )


def view_jobset(jobset: JobSet) -> JobSetView:
    """Return a JobSet as decisions see it."""
    meta, spec = jobset.metadata, jobset.spec
    held = {each.type: each for each in jobset.status.conditions or () if each.status == "True"}
    ended = held.get("Completed") or held.get("Failed")
    suspended = held.get("Suspended")
    return JobSetView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        annotations=meta.annotations or {},
        replicated_jobs=tuple(_view_replicated_job(job) for job in spec.replicated_jobs),
        deleting=meta.deletion_timestamp is not None,
        suspended=bool(spec.suspend),
        suspended_since=parse_time(suspended.last_transition_time) if suspended else None,
        terminal=ended.type if ended else "",
        terminal_since=parse_time(ended.last_transition_time) if ended else None,
        managed_elsewhere=spec.managed_by not in (None, "", JOBSET_CONTROLLER),
    )


def parse_time(text: str | None) -> float | None:
    """Return the unix seconds of an RFC 3339 time; None when there is none or it cannot be read."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _view_replicated_job(job: ReplicatedJob) -> ReplicatedJobView:
    spec = job.template.spec
    return ReplicatedJobView(
        name=job.name,
        replicas=1 if job.replicas is None else job.replicas,
        parallelism=1 if spec.parallelism is None else spec.parallelism,
        completions=spec.completions,
        annotations=job.template.metadata.annotations or {},
        template=_view_template(spec.template.metadata, spec.template.spec),
    )


def _view_template(meta: ObjectMeta, spec: PodSpec) -> PodTemplate:
    started = [each for each in spec.init_containers or () if each.restart_policy != "Always"]
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    return PodTemplate(
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        node_selector=spec.node_selector or {},
        node_affinity=_read_affinity(spec.affinity),
        container_chips=tuple(_read_chips(each) for each in (*spec.containers, *sidecars)),
        init_container_chips=tuple(_read_chips(each) for each in started),
    )


def _read_affinity(affinity: Affinity | None) -> dict[str, tuple[str, ...]]:
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    if required is None or len(required.node_selector_terms) != 1:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for expression in required.node_selector_terms[0].match_expressions or ():
        known = found.get(expression.key, ())
        if expression.operator == "In":
            values = tuple(value for value in expression.values or () if not known or value in known)
            found[expression.key] = values
        elif expression.operator == "Exists":
            found[expression.key] = known
    return found


def _read_chips(container: Container) -> int:
    """Return a container's chips: the request, else the limit (which Kubernetes copies to the request)."""
    resources = container.resources or Resources()
    value = (resources.requests or {}).get(TPU_RESOURCE, (resources.limits or {}).get(TPU_RESOURCE, 0))
    text = str(value)
    # Extended resources are whole numbers; anything else is refused by Kubernetes itself.
    return int(text) if text.isascii() and text.isdigit() else 0
