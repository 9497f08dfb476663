"""The parts of pods and nodes that decisions read, decoded straight into `shared.model.workloads`.

Partial on purpose: fields that are not read are skipped without being built. Workloads are read by
their kind's entry (`shared.kinds`), which gets their JSON and a reader of pod templates from
here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from shared.edges import pod_requests
from shared.edges.kubernetes import (
    Condition,
    JsonObject,
    ObjectMeta,
    OwnerReference,
    Record,
    reading,
)
from shared.kinds.objects import UnexpectedValue, read_number
from shared.model.labels import rename
from shared.model.messages import OBJECT_NAME
from shared.model.times import parse_time
from shared.model.workloads import PodTemplate, PodView, Requirement, Toleration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.kinds.kind import Json, Kind
    from shared.model.workloads import WorkloadView

MIRROR_POD = "kubernetes.io/config.mirror"
_NOBODY = OwnerReference()


class Resources(Record):
    """Requests and limits; quantities are texts or numbers."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class Container(Record):
    """One container."""

    name: str = ""
    ports: list[JsonObject] | None = None
    resources: Resources | None = None
    restart_policy: str | None = None
    """``Always`` makes an init container a sidecar, which runs beside the others."""


class VolumeClaimSource(Record):
    """The PersistentVolumeClaim of a volume."""

    claim_name: str = ""


class Volume(Record):
    """One volume of a pod, as far as it has a PersistentVolumeClaim."""

    name: str = ""
    persistent_volume_claim: VolumeClaimSource | None = None
    ephemeral: dict[str, Any] | None = None
    """Kubernetes makes its claim when the pod exists:
    https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#persistentvolumeclaim-naming."""


class PodSpec(Record):
    """What a pod asks for."""

    node_name: str = ""
    host_network: bool = False
    node_selector: dict[str, str] | None = None
    affinity: JsonObject | None = None
    containers: tuple[Container, ...] = ()
    init_containers: list[Container] | None = None
    scheduling_gates: list[dict[str, str]] | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_spread_constraints: list[JsonObject] | None = None
    resource_claims: list[dict[str, Any]] | None = None
    resources: Resources | None = None
    overhead: dict[str, Any] | None = None
    volumes: list[Volume] | None = None


class PodStatus(Record):
    """What became of a pod."""

    phase: str = "Pending"
    nominated_node_name: str = ""
    conditions: list[Condition] | None = None


class Pod(Record):
    """A pod; its template is one without a status."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


# What msgspec learns of a struct it keeps on the struct: learnt here, at import, while there is one
# thread (`shared.edges.kubernetes.decoder_of` says why).
_LEARNT = msgspec.json.Decoder(Pod)


def view_pod(pod: Pod) -> PodView:
    """Return a pod as decisions see it."""
    meta, status = pod.metadata, pod.status
    controller, refusal = _find_controller(meta), find_refusal(status)
    return PodView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        template=_view_template(meta, pod.spec, pod=meta.name),
        controller_kind=controller.kind,
        controller_name=controller.name,
        controller_uid=controller.uid,
        controller_api_version=controller.api_version,
        node_name=pod.spec.node_name,
        nominated_node=status.nominated_node_name,
        phase=status.phase,
        created_at=parse_time(meta.creation_timestamp),
        deleting=meta.deletion_timestamp is not None,
        deleting_since=parse_time(meta.deletion_timestamp),
        gates=tuple(gate.get("name", "") for gate in pod.spec.scheduling_gates or ()),
        unschedulable=refusal is not None,
        scheduler_message=refusal.message if refusal else "",
        unschedulable_since=parse_time(refusal.last_transition_time) if refusal else None,
    )


def _find_controller(meta: ObjectMeta) -> OwnerReference:
    """Return the controller; empty without one.

    The API server lets the name of an owner be any text, also a path to objects of others.
    """
    for each in meta.owner_references or ():
        if each.controller and OBJECT_NAME.fullmatch(each.name):
            return each
    return _NOBODY


def find_refusal(status: PodStatus) -> Condition | None:
    """Return the scheduler's word that it finds no node; None for any other reason."""
    for each in status.conditions or ():
        if each.type == "PodScheduled":
            refused = (each.status, each.reason) == ("False", "Unschedulable")
            return each if refused else None
    return None


def read_template(body: Json) -> PodTemplate:
    """Return a pod template from the JSON of a PodTemplateSpec, else `UnexpectedValue`."""
    try:
        # A manifest may have `metadata:` without a value, which the API server takes for absent.
        template = msgspec.convert(
            {key: value for key, value in body.items() if value is not None}, Pod
        )
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
        raise UnexpectedValue(
            f"pod template{place.rstrip('`')}", problem, "a PodTemplateSpec"
        ) from error
    return _view_template(template.metadata, template.spec)


def read_workload(kind: Kind, body: Json) -> WorkloadView:
    """Return a workload of one kind from the API's JSON, else `Unreadable`."""
    with reading(kind.name):
        return kind.read(body, read_template)


def _view_template(meta: ObjectMeta, spec: PodSpec, *, pod: str = "") -> PodTemplate:
    affinity, spread = spec.affinity or {}, spec.topology_spread_constraints or ()
    node_terms, containers = pod_requests.read_node_terms(affinity), _list_running(spec)
    ports = _takes_ports(spec, containers)
    return PodTemplate(
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        selection=_read_affinity(node_terms) | _read_selector(spec.node_selector or {}),
        node_terms=node_terms,
        topology_terms=pod_requests.read_topology_terms(affinity, spread, host_ports=ports),
        claims_devices=bool(spec.resource_claims),
        volume_claims=tuple(_list_volume_claims(spec, pod)),
        tolerations=spec.tolerations or (),
        **pod_requests.add_up(_list_requests(meta.annotations or {}, spec, containers)),
    )


def _list_running(spec: PodSpec) -> list[Container]:
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    return [*spec.containers, *sidecars]


def _takes_ports(spec: PodSpec, containers: Sequence[Container]) -> bool:
    """Return whether ports of the host are taken, so that it can have one such pod only."""
    ports = [port for each in containers for port in each.ports or ()]
    return any(spec.host_network or read_number(port, "hostPort") for port in ports)


def _list_requests(
    annotations: dict[str, str], spec: PodSpec, containers: Sequence[Container]
) -> pod_requests.Requests:
    """Return what the containers of a pod request, those with the sidecars that run together."""
    running: list[pod_requests.Quantities] = []
    groups = [tuple(_read_requests(each.resources) for each in containers)]
    fuse = pod_requests.ask_for_fuse(annotations)
    if fuse and all(each.name != pod_requests.FUSE_SIDECAR for each in containers):
        groups = [(*groups[0], fuse)]
    for each in spec.init_containers or ():
        requests = _read_requests(each.resources)
        if each.restart_policy == "Always":
            running.append(requests)
        else:
            groups.append((*running, requests))
    of_pod = spec.resources or Resources()
    return pod_requests.Requests(
        groups=tuple(groups),
        of_pod=_list_amounts(of_pod.requests),
        limits_of_pod=_list_amounts(of_pod.limits),
        overhead=_list_amounts(spec.overhead),
    )


def _list_volume_claims(spec: PodSpec, pod: str) -> Iterator[str]:
    """Yield the names of the PersistentVolumeClaims of a pod; it has no name in a template."""
    for volume in spec.volumes or ():
        if volume.persistent_volume_claim and volume.persistent_volume_claim.claim_name:
            yield volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None and pod:
            yield f"{pod}-{volume.name}"


def _read_selector(selector: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Return a node selector with the present names of labels.

    If it asks for another value under each name, both stay, so that it is refused.
    """
    return {
        rename(key) if selector.get(rename(key), value) == value else key: (value,)
        for key, value in selector.items()
    }


def _read_affinity(terms: tuple[tuple[Requirement, ...], ...]) -> dict[str, tuple[str, ...]]:
    """Return what a single term requires, by key; the operator Exists has no values."""
    required: dict[str, tuple[str, ...]] = {}
    for each in terms[0] if len(terms) == 1 else ():
        before = required.get(each.key, ())
        if each.operator == "In":
            required[each.key] = tuple(
                value for value in each.values if value in (before or each.values)
            )
        elif each.operator == "Exists":
            required[each.key] = before
    return required


def _read_requests(resources: Resources | None) -> pod_requests.Quantities:
    """Return a container's requests. A limit without a request counts as one."""
    if resources is None:
        return ()
    return _list_amounts({**(resources.limits or {}), **(resources.requests or {})})


def _list_amounts(amounts: dict[str, Any] | None) -> pod_requests.Quantities:
    return tuple((resource, str(amount)) for resource, amount in (amounts or {}).items())
