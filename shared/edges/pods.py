"""Pods and pod templates, decoded into the values of `shared.model.workloads` in one step.

Partial on purpose: fields that are not read are skipped without being built. Workloads are read by
their kind's entry (`shared.kinds`), which gets their JSON and a reader of pod templates from here.
Amounts: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from typing import Any

import msgspec

from shared.edges import kubernetes
from shared.kinds import read
from shared.kinds.kind import Json, Kind
from shared.kinds.read import UnexpectedValue
from shared.model.labels import GPU_RESOURCE, HOSTNAME, HUGE_PAGES, TPU_RESOURCE, rename
from shared.model.messages import OBJECT_NAME
from shared.model.times import parse_time
from shared.model.workloads import (
    PodTemplate,
    PodView,
    Requirement,
    TermKind,
    Toleration,
    TopologyTerm,
    WorkloadView,
)

_NOBODY = kubernetes.OwnerReference()


class Resources(kubernetes.Record):
    """Requests and limits; quantities are texts or numbers."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class Container(kubernetes.Record):
    """One container."""

    name: str = ""
    ports: list[kubernetes.JsonObject] | None = None
    resources: Resources | None = None
    restart_policy: str | None = None
    """``Always`` makes an init container a sidecar, which runs beside the others."""


class PodSpec(kubernetes.Record):
    """What a pod asks for."""

    node_name: str = ""
    host_network: bool = False
    node_selector: dict[str, str] | None = None
    affinity: kubernetes.JsonObject | None = None
    containers: tuple[Container, ...] = ()
    init_containers: list[Container] | None = None
    scheduling_gates: list[dict[str, str]] | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_spread_constraints: list[kubernetes.JsonObject] | None = None
    resource_claims: list[dict[str, Any]] | None = None
    resources: Resources | None = None
    overhead: dict[str, Any] | None = None
    volumes: list[kubernetes.JsonObject] | None = None


class PodStatus(kubernetes.Record):
    """What became of a pod."""

    phase: str = "Pending"
    nominated_node_name: str = ""
    conditions: list[kubernetes.Condition] | None = None


class Pod(kubernetes.Record):
    """A pod; its template is one without a status."""

    metadata: kubernetes.ObjectMeta = msgspec.field(default_factory=kubernetes.ObjectMeta)
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
        template=_view_template(meta, pod.spec),
        controller_kind=controller.kind,
        controller_name=controller.name,
        controller_uid=controller.uid,
        controller_api_version=controller.api_version,
        node_name=pod.spec.node_name,
        held=bool(status.nominated_node_name or pod.spec.scheduling_gates),
        phase=status.phase,
        created_at=parse_time(meta.creation_timestamp),
        deleting=meta.deletion_timestamp is not None,
        deleting_since=parse_time(meta.deletion_timestamp),
        unschedulable=refusal is not None,
        scheduler_message=refusal.message if refusal else "",
        unschedulable_since=parse_time(refusal.last_transition_time) if refusal else None,
    )


def _find_controller(meta: kubernetes.ObjectMeta) -> kubernetes.OwnerReference:
    """Return the controller; empty without one.

    The API server lets the name of an owner be any text, also a path to objects of others.
    """
    for each in meta.owner_references or ():
        if each.controller and OBJECT_NAME.fullmatch(each.name):
            return each
    return _NOBODY


def find_refusal(status: PodStatus) -> kubernetes.Condition | None:
    """Return the scheduler's word that it finds no node; None for any other reason."""
    for each in status.conditions or ():
        if each.type == "PodScheduled":
            refused = (each.status, each.reason) == ("False", "Unschedulable")
            return each if refused else None
    return None


def read_template(body: Json) -> PodTemplate:
    """Return a pod template from the JSON of a PodTemplateSpec, else `UnexpectedValue`."""
    # A manifest may have `metadata:` without a value, which the API server takes for absent.
    fields = {key: value for key, value in body.items() if value is not None}
    try:
        template = msgspec.convert(fields, Pod)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
        where = f"pod template{place.rstrip('`')}"
        raise UnexpectedValue(where, problem, "a PodTemplateSpec") from error
    # Some authors name the pods of a template, which has no effect.
    return _view_template(msgspec.structs.replace(template.metadata, name=""), template.spec)


def read_workload(kind: Kind, body: Json) -> WorkloadView:
    """Return a workload of one kind from the API's JSON, else `Unreadable`."""
    with kubernetes.reading(kind.name):
        return kind.read(body, read_template)


def _view_template(meta: kubernetes.ObjectMeta, spec: PodSpec) -> PodTemplate:
    terms = read.objects(spec.affinity or {}, "nodeAffinity", _REQUIRED, "nodeSelectorTerms")
    node_terms = tuple(tuple(_read_requirements(each, rename)) for each in terms)
    annotations = meta.annotations or {}
    return PodTemplate(
        labels=meta.labels or {},
        annotations=annotations,
        selection=_read_affinity(node_terms) | _read_selector(spec.node_selector or {}),
        node_terms=node_terms,
        topology_terms=tuple(_list_topology_terms(spec)),
        claims_devices=bool(spec.resource_claims),
        volume_claims=tuple(_list_volume_claims(spec, meta.name)),
        tolerations=spec.tolerations or (),
        **_read_requests(spec, annotations),
    )


def _list_volume_claims(spec: PodSpec, pod: str) -> Iterator[str]:
    """Yield the names of the PersistentVolumeClaims of a pod; it has no name in a template.

    Kubernetes makes that of an ephemeral volume when the pod exists:
    https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#persistentvolumeclaim-naming.
    """
    for volume in spec.volumes or ():
        if claim := read.text(volume, "persistentVolumeClaim", "claimName"):
            yield claim
        elif volume.get("ephemeral") is not None and pod:
            yield f"{pod}-{read.text(volume, 'name')}"


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


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
            allowed = before or each.values
            required[each.key] = tuple(value for value in each.values if value in allowed)
        elif each.operator == "Exists":
            required[each.key] = before
    return required


def _list_topology_terms(spec: PodSpec) -> Iterator[TopologyTerm]:
    """Yield the terms that can keep a pod off a node; a port of the host is there for one pod."""
    for kind in (TermKind.AFFINITY, TermKind.ANTI_AFFINITY):
        for each in read.objects(spec.affinity or {}, kind.rpartition(".")[2], _REQUIRED):
            key, selector = rename(read.text(each, "topologyKey")), _read_pods(each)
            yield TopologyTerm(kind=kind, key=key, selector=selector)
    for each in spec.topology_spread_constraints or ():
        if read.text(each, "whenUnsatisfiable") in ("", "DoNotSchedule"):
            yield TopologyTerm(kind=TermKind.SPREAD, key=rename(read.text(each, "topologyKey")))
    if _takes_ports(spec):
        yield TopologyTerm(kind=TermKind.ANTI_AFFINITY, key=HOSTNAME, selector=())


def _takes_ports(spec: PodSpec) -> bool:
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    ports = [port for each in (*spec.containers, *sidecars) for port in each.ports or ()]
    return any(spec.host_network or read.number(port, "hostPort") for port in ports)


def _read_pods(term: Json) -> tuple[Requirement, ...] | None:
    """Return which pods a term is about: None for none, and no requirement for all."""
    if term.get("labelSelector") is None:
        return None
    selector = read.fields(term, "labelSelector")
    equal = read.texts(selector, "matchLabels").items()
    of_labels = (Requirement(key, "In", (value,)) for key, value in equal)
    return (*of_labels, *_read_requirements(selector, str))


def _read_requirements(selector: Json, name: Callable[[str], str]) -> Iterator[Requirement]:
    for each in read.objects(selector, "matchExpressions"):
        key, operator = name(read.text(each, "key")), read.text(each, "operator")
        yield Requirement(key, operator, kubernetes.read_values(each))


_QUANTITY = re.compile(
    r"(\+?(?:[0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30}))(?:[eE]([+-]?[0-9]{1,2})|([a-zA-Z]{1,2}))?"
)
_SCALES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal("1e3"),
    **{prefix: Decimal(1000) ** power for power, prefix in enumerate("MGTPE", start=2)},
    **{f"{prefix}i": Decimal(1024) ** power for power, prefix in enumerate("KMGTPE", start=1)},
}
_ACCELERATORS = (TPU_RESOURCE, GPU_RESOURCE)
_UNITS_MAX = 1_000_000  # more accelerators than this for one pod are a mistake
_ZERO = Decimal(0)
Amounts = tuple[tuple[str, str], ...]
"""What a container, or a pod itself, requests: each resource with its quantity."""


@lru_cache(maxsize=1024)
def parse_quantity(text: str) -> Decimal | None:
    """Return an amount that is not below zero; None for a text that is no such amount."""
    parts = _QUANTITY.fullmatch(text)
    if parts is None or (parts[3] and parts[3] not in _SCALES):
        return None
    return Decimal(parts[1]).scaleb(int(parts[2] or 0)) * _SCALES.get(parts[3] or "", Decimal(1))


_FUSE, _FUSE_SIDECAR = "gke-gcsfuse/", "gke-gcsfuse-sidecar"
_OF_FUSE = {"cpu": "250m", "memory": "256Mi", "ephemeral-storage": "5Gi"}
"""What the sidecar of Cloud Storage FUSE requests, which GKE adds to pods with an annotation:
https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-sidecar."""


def _list_added(annotations: Mapping[str, str], names: Collection[str]) -> list[Amounts]:
    """Return the requests of that sidecar, if it will be added to containers of these names.

    A limit without a request counts as one; the limit 0 means none.
    """
    wants = annotations.get(f"{_FUSE}volumes", "").lower() in ("true", "t", "1")
    if not wants or _FUSE_SIDECAR in names:
        return []
    amounts = dict(_OF_FUSE)
    for side in ("limit", "request"):
        written = {name: annotations.get(f"{_FUSE}{name}-{side}", "0") for name in amounts}
        amounts |= {name: amount for name, amount in written.items() if amount != "0"}
    return [tuple(amounts.items())]


def _read_requests(spec: PodSpec, annotations: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the amounts of a pod by the names of the fields of `PodTemplate`."""
    containers = (*spec.containers, *(spec.init_containers or ()))
    running = _list_added(annotations, {each.name for each in containers})
    beside: list[tuple[Amounts, ...]] = []
    for each in spec.init_containers or ():
        amounts = _list_amounts(each.resources)
        if each.restart_policy == "Always":
            running.append(amounts)
        else:
            beside.append((*running, amounts))
    together = (*(_list_amounts(each.resources) for each in spec.containers), *running)
    groups, of_pod = (together, *beside), spec.resources or Resources()
    return _add_up(groups, _freeze(of_pod.requests), _freeze(of_pod.limits), _freeze(spec.overhead))


def _list_amounts(resources: Resources | None) -> Amounts:
    """Return a container's requests. A limit without a request counts as one."""
    if resources is None:
        return ()
    return _freeze({**(resources.limits or {}), **(resources.requests or {})})


def _freeze(amounts: dict[str, Any] | None) -> Amounts:
    return tuple((name, str(amount)) for name, amount in (amounts or {}).items())


@lru_cache(maxsize=1024)
def _add_up(
    groups: tuple[tuple[Amounts, ...], ...], requests: Amounts, limits: Amounts, overhead: Amounts
) -> Mapping[str, Any]:
    """Return the amounts as Kubernetes adds them up, once for all pods that request the same.

    A group is what runs at one time: the containers with the sidecars, and each init container with
    the sidecars before it. What the pod itself requests counts instead.
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    sums = [_sum(chain.from_iterable(group)) for group in groups]
    most = {name: max(each.get(name, _ZERO) for each in sums) for group in sums for name in group}
    of_pod, limit, beside = _sum(requests), _sum(limits), _sum(overhead)

    def need(resource: str, unit: Decimal = Decimal(1)) -> int:
        amount = of_pod.get(resource, most.get(resource) or limit.get(resource, _ZERO))
        return math.ceil((amount + beside.get(resource, _ZERO)) / unit)

    return {
        "chips": int(most.get(TPU_RESOURCE, _ZERO)),
        "gpus": int(most.get(GPU_RESOURCE, _ZERO)),
        "cpu_millis": need("cpu", Decimal("0.001")),
        "memory_bytes": need("memory"),
        "storage_bytes": need("ephemeral-storage"),
        "other_resources": tuple(each for each in most if _is_extended(each) and most[each]),
        "unreadable_amounts": tuple(_list_unreadable(chain.from_iterable(groups))),
    }


def _list_unreadable(containers: Iterable[Amounts]) -> Iterator[str]:
    """Yield the amounts of accelerators that no node has, and of huge pages beside them."""
    amounts = dict.fromkeys(chain.from_iterable(containers))
    accelerated = any(name in _ACCELERATORS for name, _ in amounts)
    for name, text in amounts:
        huge = accelerated and name.startswith(HUGE_PAGES) and parse_quantity(text)
        if huge or not _is_readable(name, text):
            yield f"{name}={text}"


def _is_extended(resource: str) -> bool:
    """Return whether a resource is none of Kubernetes' own, beside accelerators."""
    return "/" in resource and resource not in _ACCELERATORS


def _sum(amounts: Iterable[tuple[str, str]]) -> dict[str, Decimal]:
    """Return how much of each resource is requested; what cannot be read counts as nothing."""
    sums: dict[str, Decimal] = {}
    for name, text in amounts:
        amount = parse_quantity(text) if _is_readable(name, text) else None
        sums[name] = sums.get(name, _ZERO) + (amount or _ZERO)
    return sums


def _is_readable(resource: str, text: str) -> bool:
    """Return whether an amount is one that a node may have: whole, for accelerators."""
    if resource not in _ACCELERATORS:
        return True
    amount = parse_quantity(text)
    return amount is not None and amount == amount.to_integral_value() and amount <= _UNITS_MAX
