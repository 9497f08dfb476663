"""Finds the node labels by which the nodes of a pool satisfy the topology terms of their pods.

A required term about a node label that GKE does not give, for example ``rack``, keeps a pod off
every new node. The nodes of one pool have one value of it, so the value is that of the slice, or
that of the workload if pods of several slices must be together.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING, NoReturn

from shared.core.demand.node_selectors import UnsupportedSelector
from shared.core.kinds.table import list_slices
from shared.core.labels import ZONE
from shared.core.topology_terms import TermKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.core.kinds.kind import SliceOfPod
    from shared.core.topology_terms import TopologyTerm
    from shared.core.workloads import PodTemplate, WorkloadView

ONE_FOR_ALL = "tpu-provisioner"
"""The value for terms that only spread pods: one for all pools, because a node with another value
would have to get as many pods."""
_VALUE_CHARACTERS = 63
_DIGEST_CHARACTERS = 10
_SEEN_SLICES = 2
"""Slices of one group differ only in their controllers' labels, so two of them show what all do."""
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclasses.dataclass(frozen=True, slots=True)
class _Neighbours:
    """The pods of the same workload, as their labels."""

    own: Mapping[str, str]
    """Of the pod itself."""
    beside: tuple[Mapping[str, str], ...]
    """Of the pods of its slice, itself included."""
    elsewhere: tuple[Mapping[str, str], ...]
    """Of pods of other slices."""


def read_topology_labels(
    template: PodTemplate, found: SliceOfPod, workload: WorkloadView, *, nodes: int
) -> dict[str, str]:
    """Return the node labels that the topology terms of a slice's pods need.

    Raises:
        UnsupportedSelector: no one value for the nodes of the pool satisfies the terms.
    """
    terms = [
        each
        for each in template.topology_terms
        if (each.needs_label and not template.list_values(each.key))
        or (each.key == ZONE and each.kind == TermKind.ANTI_AFFINITY)
    ]
    asked = {key: _shorten(f"{workload.namespace}_{workload.name}") for key in _list_asked(template, workload)}
    if not terms:
        return asked
    seen, several = _look_around(template, found, workload), _count_pods(found, nodes) > 1
    chosen = {
        key: _choose_value([each for each in terms if each.key == key], seen, workload, found, several=several)
        for key in sorted({each.key for each in terms})
    }
    chosen.pop(ZONE, None)  # the zone of a pool is chosen elsewhere, but its pods cannot be apart by it
    return asked | chosen


def _list_asked(template: PodTemplate, workload: WorkloadView) -> list[str]:
    """Return the keys by which pods of other templates of the workload must be with these pods."""
    others = [*(group.template for group in workload.groups), *workload.templates.values()]
    return [
        term.key
        for other in others
        for term in other.topology_terms
        if term.needs_label and term.kind == TermKind.AFFINITY and not template.list_values(term.key)
        if term.matches(template.labels, other.labels)
    ]


def _choose_value(
    terms: Sequence[TopologyTerm], seen: _Neighbours, workload: WorkloadView, found: SliceOfPod, *, several: bool
) -> str:
    together = [each for each in terms if each.kind == TermKind.AFFINITY]
    apart = [each for each in terms if each.kind == TermKind.ANTI_AFFINITY]
    for each in together:
        others = (*seen.beside, *seen.elsewhere)
        own = each.may_match_itself(seen.own) or any(each.matches(other, seen.own) for other in others)
        if not own or each.covers(workload.namespace) is False:
            _refuse_strangers(each)
    joined = any(each.matches(other, seen.own) for each in together for other in seen.elsewhere)
    near = (*(seen.beside if several else ()), *(seen.elsewhere if joined else ()))
    for each in apart:
        if each.covers(workload.namespace) and any(each.matches(other, seen.own) for other in near):
            _refuse_apart(each)
    domains = 1 if joined else max(found.group.replicas, 1) * (not found.group.elastic)
    for each in terms:
        if each.domains_min > max(domains, 1):
            _refuse_spread(each)
    if not together and not apart and all(each.domains_min == 1 for each in terms):
        return ONE_FOR_ALL
    selected = {value for group in workload.groups for value in group.template.list_values(terms[0].key)}
    if joined and len(selected) == 1:
        return selected.pop()
    return _shorten(f"{workload.namespace}_{workload.name if joined else found.name}")


def _look_around(template: PodTemplate, found: SliceOfPod, workload: WorkloadView) -> _Neighbours:
    """Return the labels of the workload's pods, as far as spec and controller give them.

    Pods without accelerators do not count: they run on nodes of which nothing is known.
    """
    few = tuple(
        dataclasses.replace(group, replicas=min(group.replicas, _SEEN_SLICES)) for group in workload.groups
    )
    others = [each for each in list_slices(dataclasses.replace(workload, groups=few)) if each.name != found.name]
    own = template.labels
    added = {key: value for key, value in own.items() if key not in found.group.template.labels}
    return _Neighbours(
        own=own,
        beside=(own, *(own | role.labels for role in workload.templates.values() if role.wants_accelerator)),
        elsewhere=tuple(
            added | each.group.template.labels for each in others if each.group.template.wants_accelerator
        ),
    )


def _count_pods(found: SliceOfPod, nodes: int) -> int:
    group = found.group
    return group.replicas if group.elastic else max(group.hosts, group.pods, nodes)


def _refuse_strangers(term: TopologyTerm) -> NoReturn:
    raise UnsupportedSelector(
        "the pods must be together by this node label with pods that get no node pool from this workload, and it "
        "is not known which value of it their nodes have",
        field=f"{term.kind} {term.key}",
        valid=f"a nodeSelector {term.key} with that value, which the new nodes then get too; or {_PREFERRED}",
    )


def _refuse_apart(term: TopologyTerm) -> NoReturn:
    raise UnsupportedSelector(
        "the pods of one node pool must be apart by this node label, and all nodes of a pool have one value of it",
        field=f"{term.kind} {term.key}",
        valid=f"topologyKey kubernetes.io/hostname, which keeps them on different nodes; or {_PREFERRED}",
    )


def _refuse_spread(term: TopologyTerm) -> NoReturn:
    raise UnsupportedSelector(
        "the pods must be spread over more values of this node label than they have node pools",
        field=f"{term.kind} {term.key} minDomains",
        value=str(term.domains_min),
        valid="no minDomains; or whenUnsatisfiable ScheduleAnyway",
    )


def _shorten(text: str) -> str:
    """Return a valid value of a node label, which a hash keeps apart if the text is too long."""
    if len(text) <= _VALUE_CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{text[: _VALUE_CHARACTERS - _DIGEST_CHARACTERS - 1]}-{digest}"
