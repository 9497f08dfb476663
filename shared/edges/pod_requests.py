"""What a pod asks beside its selectors: resources, as Kubernetes adds them up, and neighbours.

Amounts: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/.
"""

from __future__ import annotations

import dataclasses
import math
import re
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from shared.edges.kubernetes_objects import Record
from shared.model.labels import GPU_RESOURCE, HOSTNAME, HUGE_PAGES, TPU_RESOURCE
from shared.model.topology_terms import Requirement, TermKind, TopologyTerm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
    found = _QUANTITY.fullmatch(text)
    if found is None or (found[3] and found[3] not in _SCALES):
        return None
    return Decimal(found[1]).scaleb(int(found[2] or 0)) * _SCALES.get(found[3] or "", Decimal(1))


_UNITS_MAX = 1_000_000
"""More accelerators than this for one pod are a mistake."""


@dataclasses.dataclass(frozen=True, slots=True)
class Requests:
    """The requests of a pod and of its containers, as Kubernetes adds them up.

    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers.
    """

    together: tuple[dict[str, Any], ...]
    before: tuple[tuple[dict[str, Any], ...], ...]
    """Each init container, after the sidecars that run beside it."""
    of_pod: dict[str, Any]
    limits_of_pod: dict[str, Any]
    overhead: dict[str, Any]

    def count(self, resource: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the whole units of the containers, and beside each init container."""
        read = _read_units(resource)
        return tuple(map(read, self.together)), tuple(sum(map(read, each)) for each in self.before)

    def total(self, resource: str, unit: Decimal) -> int:
        """Return how many units the pod needs of its node at one time, rounded up."""
        sums = (
            sum((_read_amount(each, resource) for each in beside), Decimal(0))
            for beside in (self.together, *self.before)
        )
        most = (
            _read_amount(self.of_pod, resource)
            if resource in self.of_pod
            else max(sums) or _read_amount(self.limits_of_pod, resource)
        )
        return math.ceil((most + _read_amount(self.overhead, resource)) / unit)

    def list_others(self) -> tuple[str, ...]:
        """Return the extended resources beside accelerators: those whose names have a domain."""
        return tuple(
            dict.fromkeys(
                resource
                for each in (*self.together, *(each[-1] for each in self.before))
                for resource in each
                if "/" in resource
                and resource not in (TPU_RESOURCE, GPU_RESOURCE)
                and _read_amount(each, resource)
            )
        )

    def list_unreadable(self) -> tuple[str, ...]:
        """Return the amounts of accelerators that are not whole, and of huge pages beside them."""
        each_asked = (*self.together, *(each[-1] for each in self.before))
        beside = any(
            resource in each for each in each_asked for resource in (TPU_RESOURCE, GPU_RESOURCE)
        )
        return tuple(
            f"{resource}={amount}"
            for each in each_asked
            for resource, amount in each.items()
            if (
                resource in (TPU_RESOURCE, GPU_RESOURCE)
                and not _is_whole(parse_quantity(str(amount)))
            )
            or (beside and resource.startswith(HUGE_PAGES) and _read_amount(each, resource))
        )


def _read_amount(asked: dict[str, Any], resource: str) -> Decimal:
    return parse_quantity(str(asked.get(resource, 0))) or Decimal(0)


def _read_units(resource: str) -> Callable[[dict[str, Any]], int]:
    def read(asked: dict[str, Any]) -> int:
        amount = _read_amount(asked, resource)
        return int(amount) if _is_whole(amount) else 0

    return read


def _is_whole(amount: Decimal | None) -> bool:
    return amount is not None and amount == amount.to_integral_value() and amount <= _UNITS_MAX


_STRICT = "DoNotSchedule"


class Expression(Record):
    """One requirement on a label, of a node or of a pod."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Record):
    """A selector of pods; an empty one selects all."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Expression] | None = None


class PodTerm(Record):
    """Where other pods must, or must not, be."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None


class PodAffinity(Record):
    """Only what is required."""

    required: list[PodTerm] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class SpreadConstraint(Record):
    """How evenly pods are spread."""

    topology_key: str = ""
    when_unsatisfiable: str = _STRICT
    min_domains: int | None = None


def read_topology_terms(
    beside: PodAffinity | None,
    away: PodAffinity | None,
    spread: Sequence[SpreadConstraint],
    *,
    host_ports: bool,
) -> tuple[TopologyTerm, ...]:
    """Return the terms that can keep a pod off a node; a port of the host is there for one pod."""
    return (
        *_read_terms(TermKind.AFFINITY, beside),
        *_read_terms(TermKind.ANTI_AFFINITY, away),
        *(
            TopologyTerm(
                kind=TermKind.SPREAD, key=each.topology_key, domains_min=each.min_domains or 1
            )
            for each in spread
            if each.when_unsatisfiable == _STRICT
        ),
        *[TopologyTerm(kind=TermKind.ANTI_AFFINITY, key=HOSTNAME, selector=())] * host_ports,
    )


def _read_terms(kind: TermKind, side: PodAffinity | None) -> Iterator[TopologyTerm]:
    for each in (side.required if side else None) or ():
        selector = None if each.label_selector is None else _read_selector(each.label_selector)
        yield TopologyTerm(kind=kind, key=each.topology_key, selector=selector)


def _read_selector(found: LabelSelector) -> tuple[Requirement, ...]:
    return (
        *(Requirement(key, "In", (value,)) for key, value in (found.match_labels or {}).items()),
        *(
            Requirement(each.key, each.operator, tuple(each.values or ()))
            for each in found.match_expressions or ()
        ),
    )
