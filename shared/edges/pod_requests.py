"""What a pod asks beside its selectors: resources, as Kubernetes adds them up, and neighbours.

Amounts: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from shared.edges.kubernetes import read_values
from shared.kinds.objects import read_number, read_object, read_objects, read_text, read_texts
from shared.model.labels import GPU_RESOURCE, HOSTNAME, HUGE_PAGES, TPU_RESOURCE, rename
from shared.model.workloads import Requirement, TermKind, TopologyTerm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from shared.kinds.objects import Json

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


@lru_cache(maxsize=1024)
def parse_quantity(text: str) -> Decimal | None:
    """Return an amount that is not below zero; None for a text that is no such amount."""
    parts = _QUANTITY.fullmatch(text)
    if parts is None or (parts[3] and parts[3] not in _SCALES):
        return None
    return Decimal(parts[1]).scaleb(int(parts[2] or 0)) * _SCALES.get(parts[3] or "", Decimal(1))


_ACCELERATORS = (TPU_RESOURCE, GPU_RESOURCE)
_UNITS_MAX = 1_000_000
"""More accelerators than this for one pod are a mistake."""


Quantities = tuple[tuple[str, str], ...]
"""The amounts that one container requests, by resource."""


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of a pod and of its containers."""

    groups: tuple[tuple[Quantities, ...], ...]
    """Those that run together; and each init container, after the sidecars that run beside it."""
    of_pod: Quantities
    limits_of_pod: Quantities
    overhead: Quantities


_FUSE = "gke-gcsfuse/"
FUSE_SIDECAR = "gke-gcsfuse-sidecar"
_OF_FUSE = (("cpu", "250m"), ("memory", "256Mi"), ("ephemeral-storage", "5Gi"))
"""What the sidecar of Cloud Storage FUSE requests:
https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-sidecar."""


def ask_for_fuse(annotations: Mapping[str, str]) -> Quantities:
    """Return the requests of the sidecar that GKE adds to a pod with this annotation.

    A limit without a request counts as one; the limit 0 means none.
    """
    if annotations.get(f"{_FUSE}volumes", "").lower() not in ("true", "t", "1"):
        return ()
    resources = dict(_OF_FUSE)
    for side in ("limit", "request"):
        written = {name: annotations.get(f"{_FUSE}{name}-{side}", "0") for name in resources}
        resources |= {name: amount for name, amount in written.items() if amount != "0"}
    return tuple(resources.items())


@lru_cache(maxsize=1024)
def add_up(requests: Requests) -> Mapping[str, Any]:
    """Return the amounts as Kubernetes adds them up, once for all pods that request the same.

    They have the names of the fields of `PodTemplate`.

    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers.
    """
    groups = [[dict(each) for each in group] for group in requests.groups]
    single = [*groups[0], *(group[-1] for group in groups[1:])]
    chips, gpus = (
        max(sum(_read_units(each, resource) for each in group) for group in groups)
        for resource in _ACCELERATORS
    )
    return {
        "chips": chips,
        "gpus": gpus,
        "cpu_millis": _add_up(requests, "cpu", Decimal("0.001")),
        "memory_bytes": _add_up(requests, "memory"),
        "storage_bytes": _add_up(requests, "ephemeral-storage"),
        "other_resources": tuple(_list_others(single)),
        "unreadable_amounts": tuple(_list_unreadable(single)),
    }


def _add_up(requests: Requests, resource: str, unit: Decimal = Decimal(1)) -> int:
    """Return how many units a pod needs of its node at one time, rounded up."""
    of_pod, overhead = dict(requests.of_pod), _read_amount(dict(requests.overhead), resource)
    if resource in of_pod:
        return math.ceil((_read_amount(of_pod, resource) + overhead) / unit)
    sums = [
        sum((_read_amount(dict(each), resource) for each in group), Decimal(0))
        for group in requests.groups
    ]
    most = max(sums) or _read_amount(dict(requests.limits_of_pod), resource)
    return math.ceil((most + overhead) / unit)


def _list_others(single: Iterable[Mapping[str, str]]) -> dict[str, None]:
    """Return the extended resources beside accelerators: those whose names have a domain."""
    return dict.fromkeys(
        resource
        for each in single
        for resource in each
        if "/" in resource and resource not in _ACCELERATORS and _read_amount(each, resource)
    )


def _list_unreadable(single: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield the amounts of accelerators that are not whole, and of huge pages beside them."""
    beside = any(resource in each for each in single for resource in _ACCELERATORS)
    for each in single:
        for resource, amount in each.items():
            part = resource in _ACCELERATORS and not _is_whole(parse_quantity(amount))
            huge = beside and resource.startswith(HUGE_PAGES) and _read_amount(each, resource)
            if part or huge:
                yield f"{resource}={amount}"


def _read_amount(resources: Mapping[str, str], resource: str) -> Decimal:
    return parse_quantity(resources.get(resource, "0")) or Decimal(0)


def _read_units(resources: Mapping[str, str], resource: str) -> int:
    amount = _read_amount(resources, resource)
    return int(amount) if _is_whole(amount) else 0


def _is_whole(amount: Decimal | None) -> bool:
    return amount is not None and amount == amount.to_integral_value() and amount <= _UNITS_MAX


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def read_node_terms(affinity: Json) -> tuple[tuple[Requirement, ...], ...]:
    """Return the alternatives of required node affinity, with the present names of labels."""
    terms = read_objects(affinity, "nodeAffinity", _REQUIRED, "nodeSelectorTerms")
    return tuple(tuple(_read_requirements(each, rename)) for each in terms)


def read_topology_terms(
    affinity: Json, spread: Sequence[Json], *, host_ports: bool
) -> tuple[TopologyTerm, ...]:
    """Return the terms that can keep a pod off a node; a port of the host is there for one pod."""
    terms = [
        TopologyTerm(
            kind=kind, key=rename(read_text(each, "topologyKey")), selector=_read_selector(each)
        )
        for kind in (TermKind.AFFINITY, TermKind.ANTI_AFFINITY)
        for each in read_objects(affinity, kind.rpartition(".")[2], _REQUIRED)
    ]
    for each in spread:
        if read_text(each, "whenUnsatisfiable") in ("", "DoNotSchedule"):
            key, least = rename(read_text(each, "topologyKey")), read_number(each, "minDomains")
            terms.append(TopologyTerm(kind=TermKind.SPREAD, key=key, domains_min=max(least, 1)))
    if host_ports:
        terms.append(TopologyTerm(kind=TermKind.ANTI_AFFINITY, key=HOSTNAME, selector=()))
    return tuple(terms)


def _read_selector(term: Json) -> tuple[Requirement, ...] | None:
    """Return which pods a term is about: None for none, and no requirement for all."""
    if term.get("labelSelector") is None:
        return None
    selector = read_object(term, "labelSelector")
    labels = read_texts(selector, "matchLabels").items()
    equal = (Requirement(key, "In", (value,)) for key, value in labels)
    return (*equal, *_read_requirements(selector, str))


def _read_requirements(selector: Json, name: Callable[[str], str]) -> Iterator[Requirement]:
    for each in read_objects(selector, "matchExpressions"):
        key, operator = name(read_text(each, "key")), read_text(each, "operator")
        yield Requirement(key, operator, read_values(each))
