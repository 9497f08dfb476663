"""The rules of pods about a topology label of nodes: same value, another value, or spread.

They are Kubernetes' inter-pod affinity, anti-affinity and topology spread constraints:
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity,
https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from shared.core.labels import NODE_POOL, is_reserved

if TYPE_CHECKING:
    from collections.abc import Mapping

_OF_SOFTWARE = re.compile(r"(.*\.)?(nvidia\.com|networks\.io)")
"""Domains of labels that software gives to nodes, for example ``nvidia.com/gpu.clique``."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_OF_CONTROLLERS = ("controller-uid", "controller-revision-hash", "job-name", "pod-template-hash")
"""Labels without a domain that controllers add to the pods of a template."""


class TermKind(StrEnum):
    """The field of a pod's spec in which a term is."""

    AFFINITY = "spec.affinity.podAffinity"
    ANTI_AFFINITY = "spec.affinity.podAntiAffinity"
    SPREAD = "spec.topologySpreadConstraints"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement on a label of pods or of nodes."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.key} {self.operator} {', '.join(self.values)}".rstrip()

    def holds(self, own: Mapping[str, str]) -> bool:
        """Return whether labels satisfy it; an unknown operator is never satisfied."""
        if self.operator == "In":
            return own.get(self.key) in self.values
        if self.operator == "NotIn":
            return own.get(self.key) not in self.values
        if self.operator in ("Gt", "Lt"):
            sign = 1 if self.operator == "Gt" else -1
            numbers = [int(each) for each in (own.get(self.key, ""), *self.values) if _NUMBER.fullmatch(each)]
            return len(numbers) == 2 and sign * numbers[0] > sign * numbers[1]  # noqa: PLR2004 -- a label and a value
        return self.operator in ("Exists", "DoesNotExist") and (self.key in own) == (self.operator == "Exists")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyTerm:
    """One required term of a pod. Preferred terms never keep a pod off a node."""

    kind: TermKind
    key: str
    """Of the node label; nodes with the same value of it are together."""
    selector: tuple[Requirement, ...] | None = None
    """Of the other pods; None matches none, and an empty one matches all."""
    same_keys: tuple[str, ...] = ()
    """Labels in which the other pods have the pod's own value (``matchLabelKeys``)."""
    namespaces: tuple[str, ...] = ()
    """Of the other pods; none here and nothing selected means the pod's own namespace."""
    all_namespaces: bool = False
    some_namespaces: bool = False
    """The namespaces are selected by their labels, which are not known here."""
    domains_min: int = 1
    """How many values the label must have (``minDomains``)."""

    @property
    def needs_label(self) -> bool:
        """Return whether no node has the label unless its pool is made with it."""
        return needs_label(self.key)

    def matches(self, other: Mapping[str, str], own: Mapping[str, str]) -> bool:
        """Return whether a pod with its own labels selects another pod by the term."""
        if self.selector is None:
            return False
        same = all(other.get(key) == own.get(key) for key in self.same_keys)
        return same and all(each.holds(other) for each in self.selector)

    def may_match_itself(self, own: Mapping[str, str]) -> bool:
        """Return whether a pod selects itself, if a controller adds the labels that it lacks."""
        return self.selector is not None and all(
            each.holds(own) or (each.key not in own and _is_of_controllers(each.key)) for each in self.selector
        )

    def keeps_apart(self, key: str, own: Mapping[str, str]) -> bool:
        """Return whether two pods with the same labels may not share a value of a node label."""
        return self.kind == TermKind.ANTI_AFFINITY and self.key == key and self.may_match_itself(own)

    def covers(self, namespace: str) -> bool | None:
        """Return whether the term is about pods of the pod's own namespace; None if not known."""
        if self.all_namespaces or namespace in self.namespaces:
            return True
        if self.some_namespaces:
            return None
        return not self.namespaces


def make_exclusive(key: str, *same_keys: str) -> TopologyTerm:
    """Return the term by which a controller keeps the pods of a slice together.

    Args:
        key: of the node label.
        same_keys: labels that are the same for all pods of a slice, and for no others.
    """
    selector = tuple(Requirement(each, "Exists") for each in same_keys)
    return TopologyTerm(
        kind=TermKind.AFFINITY, key=key, selector=selector, same_keys=same_keys, all_namespaces=True
    )


def needs_label(key: str) -> bool:
    """Return whether no node has a label unless its pool is made with it."""
    return bool(key) and not is_reserved(key) and not _OF_SOFTWARE.fullmatch(key.rpartition("/")[0])


def is_of_pools(key: str) -> bool:
    """Return whether all nodes of a pool have one value of a label, and may be the only ones."""
    return key == NODE_POOL or needs_label(key)


def _is_of_controllers(key: str) -> bool:
    return "/" in key or key in _OF_CONTROLLERS
