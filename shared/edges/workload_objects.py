"""The parts of pods and nodes that decisions read, decoded straight into `shared.core.workloads`.

Partial on purpose: fields that nobody reads are skipped without being built. Workloads are read by their kind's
entry (`shared.core.kinds`), which gets their JSON and a reader of pod templates from here.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import msgspec

from shared.core.kinds.objects import UnexpectedValue, read_text
from shared.core.labels import NODE_POOL, TPU_RESOURCE
from shared.core.times import parse_time
from shared.core.workloads import PodTemplate, PodView
from shared.edges.kubernetes_errors import Unreadable
from shared.edges.kubernetes_objects import Condition, ObjectMeta, Record

if TYPE_CHECKING:
    from shared.core.kinds.kind import Json, Kind, ParentKind
    from shared.core.workloads import Parent, WorkloadView

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


class PodTerm(Record):
    """Where other pods must, or must not, be; of whom it speaks is not read."""

    topology_key: str = ""


class PodAffinity(Record):
    """Only what is required."""

    required: list[PodTerm] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(Record):
    """What a pod requires of its node and of its neighbours."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


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


# What msgspec learns of a struct it keeps on the struct: learnt here, at import, while there is one thread
# (`shared.edges.kubernetes_watch.decoder_of` says why).
_LEARNT = msgspec.json.Decoder(Template)


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
        controller_uid=controller.uid if controller else "",
        controller_api_version=controller.api_version if controller else "",
        node_name=pod.spec.node_name,
        nominated_node=status.nominated_node_name,
        phase=status.phase,
        deleting=meta.deletion_timestamp is not None,
        gated=bool(pod.spec.scheduling_gates),
        unschedulable=unschedulable,
        unschedulable_since=parse_time(scheduled.last_transition_time) if scheduled and unschedulable else None,
    )


def read_template(body: Json) -> PodTemplate:
    """Return a pod template from the JSON of a PodTemplateSpec.

    Raises:
        UnexpectedValue: a field has an unexpected type.
    """
    try:
        found = msgspec.convert(body, Template)
    except msgspec.ValidationError as error:
        raise UnexpectedValue("pod template", str(error), "a PodTemplateSpec") from error
    return _view_template(found.metadata, found.spec)


def read_workload(kind: Kind, body: Json) -> WorkloadView:
    """Return a workload of one kind from the API's JSON.

    Raises:
        Unreadable: a field has an unexpected type.
    """
    try:
        return kind.read(body, read_template)
    except UnexpectedValue as error:
        raise Unreadable(f"{kind.name}: {error}") from error


def read_parent_now(kind: ParentKind, parent: Parent, body: Json) -> Parent | None:
    """Return what made a workload from its own JSON; None when it is another one of the same name.

    Raises:
        Unreadable: a field has an unexpected type.
    """
    try:
        uid, keeps = read_text(body, "metadata", "uid"), kind.judge(body)
    except UnexpectedValue as error:
        raise Unreadable(f"{kind.name}: {error}") from error
    return dataclasses.replace(parent, keeps=keeps) if uid == parent.uid else None


def _view_template(meta: ObjectMeta, spec: PodSpec) -> PodTemplate:
    started = [each for each in spec.init_containers or () if each.restart_policy != "Always"]
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    return PodTemplate(
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        node_selector=spec.node_selector or {},
        node_affinity=_read_affinity(spec.affinity),
        node_pool_affinity=_stays_in_pool(spec.affinity),
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


def _stays_in_pool(affinity: Affinity | None) -> bool:
    sides = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    return bool(sides) and all(
        side is not None and any(term.topology_key == NODE_POOL for term in side.required or ()) for side in sides
    )


def _read_chips(container: Container) -> int:
    """Return a container's chips: the request, else the limit (which Kubernetes copies to the request)."""
    resources = container.resources or Resources()
    value = (resources.requests or {}).get(TPU_RESOURCE, (resources.limits or {}).get(TPU_RESOURCE, 0))
    text = str(value)
    # Extended resources are whole numbers; anything else is refused by Kubernetes itself.
    return int(text) if text.isascii() and text.isdigit() else 0
