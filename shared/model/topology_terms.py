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

from shared.model.labels import is_reserved

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
            numbers = [
                int(each)
                for each in (own.get(self.key, ""), *self.values)
                if _NUMBER.fullmatch(each)
            ]
            return len(numbers) == 2 and sign * numbers[0] > sign * numbers[1]  # noqa: PLR2004 -- a label and a value
        return self.operator in ("Exists", "DoesNotExist") and (self.key in own) == (
            self.operator == "Exists"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyTerm:
    """One required term of a pod. Preferred terms never keep a pod off a node."""

    kind: TermKind
    key: str
    """Of the node label; nodes with the same value of it are together."""
    selector: tuple[Requirement, ...] | None = None
    """Of the other pods; None matches none, and an empty one matches all."""
    domains_min: int = 1
    """How many values the label must have (``minDomains``)."""

    def may_match_itself(self, own: Mapping[str, str]) -> bool:
        """Return whether a pod selects itself, if a controller adds the labels that it lacks."""
        return self.selector is not None and all(
            each.holds(own) or (each.key not in own and _is_of_controllers(each.key))
            for each in self.selector
        )

    def keeps_apart(self, key: str, own: Mapping[str, str]) -> bool:
        """Return whether two pods with the same labels may not share a value of a node label."""
        return (
            self.kind == TermKind.ANTI_AFFINITY and self.key == key and self.may_match_itself(own)
        )


def make_exclusive(key: str) -> TopologyTerm:
    """Return the term by which a controller keeps the pods of a slice together by a node label."""
    return TopologyTerm(kind=TermKind.AFFINITY, key=key)


def is_own(key: str) -> bool:
    """Return whether a node label is of a person's own: no node has it unless a pool gets it."""
    return bool(key) and not is_reserved(key) and not _OF_SOFTWARE.fullmatch(key.rpartition("/")[0])


def _is_of_controllers(key: str) -> bool:
    return "/" in key or key in _OF_CONTROLLERS
