"""Required terms about the node label of a topology, decoded into `shared.model.topology_terms`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from shared.edges.kubernetes_objects import Record
from shared.model.labels import HOSTNAME
from shared.model.topology_terms import Requirement, TermKind, TopologyTerm

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
