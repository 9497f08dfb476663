"""Whether a pod fits on a node, and if not, why, in the order and words of kube-scheduler.

Pure: nodes and pods in, reasons out. A node counts for the first filter that rejects it, in the
order of Kubernetes 1.34: unschedulable, taints, selector, resources, inter-pod affinity. Source:
https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from standins.cluster.objects.label_names import UNSCHEDULABLE_TAINT
from standins.cluster.objects.quantities import milli_units
from standins.cluster.objects.shapes import NodeView, PodAffinityTerm, PodSpec, PodView
from standins.cluster.store.selectors import Requirement, Selector, parse_expressions, parse_structured

UNSCHEDULABLE_NODE = "node(s) were unschedulable"
UNTOLERATED_TAINT = "node(s) had untolerated taint(s)"
SELECTOR_MISMATCH = "node(s) didn't match Pod's node affinity/selector"
AFFINITY_MISMATCH = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY_MISMATCH = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
TOO_MANY_PODS = "Too many pods"

_HARD_EFFECTS = {"NoSchedule", "NoExecute"}
_ONE = 1_000
_DEFAULT_MAX_PODS = 110 * _ONE


@dataclass(frozen=True)
class Rejection:
    """Why one node does not take a pod; `by_eviction`: whether evicting pods could change that."""

    reasons: tuple[str, ...]
    by_eviction: bool = False


@dataclass(frozen=True)
class Term:
    """A required inter-pod term, ready to match."""

    topology_key: str
    selector: Selector | None
    namespaces: frozenset[str] | None

    def matches(self, pod: PodFacts) -> bool:
        """Return whether the term selects this pod."""
        if self.selector is None or (self.namespaces is not None and pod.namespace not in self.namespaces):
            return False
        return self.selector.matches(pod.labels)


def _term(term: PodAffinityTerm, own_namespace: str) -> Term:
    namespaces: frozenset[str] | None = frozenset(term.namespaces or (own_namespace,))
    if term.namespace_selector is not None:
        # An empty selector means all namespaces. Others are read in the same way.
        namespaces = None
    return Term(term.topology_key, parse_structured(term.label_selector), namespaces)


@dataclass(frozen=True)
class PodFacts:
    """What scheduling needs to know of a pod."""

    uid: str
    namespace: str
    labels: Mapping[str, str]
    requests: Mapping[str, int]
    affinity: tuple[Term, ...]
    anti_affinity: tuple[Term, ...]


def pod_facts(pod: PodView) -> PodFacts:
    """Return the facts of a pod."""
    namespace = pod.metadata.namespace
    affinity = pod.spec.affinity
    terms = []
    for group in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else (None, None):
        required = group.required_during_scheduling_ignored_during_execution if group else []
        terms.append(tuple(_term(term, namespace) for term in required))
    return PodFacts(pod.metadata.uid, namespace, pod.metadata.labels, requests(pod.spec), terms[0], terms[1])


def requests(spec: PodSpec) -> dict[str, int]:
    """Return what a pod requests, in thousandths: its containers, or its largest init container."""
    total: Counter[str] = Counter()
    for container in spec.containers:
        total.update({name: milli_units(quantity) for name, quantity in container.resources.requests.items()})
    for container in spec.init_containers:
        for name, quantity in container.resources.requests.items():
            total[name] = max(total[name], milli_units(quantity))
    return {name: amount for name, amount in total.items() if amount}


@dataclass
class NodeFacts:
    """A node with the pods that are on it."""

    node: NodeView
    pods: dict[str, PodFacts] = field(default_factory=dict)
    used: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        """Return the node's name."""
        return self.node.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the node's labels."""
        return self.node.metadata.labels

    def allocatable(self, resource: str) -> int:
        """Return what the node offers of a resource, in thousandths."""
        offered = self.node.status.allocatable or self.node.status.capacity
        if resource == "pods" and resource not in offered:
            return _DEFAULT_MAX_PODS
        return milli_units(offered.get(resource, 0))

    def add(self, pod: PodFacts) -> None:
        """Count a pod as running here."""
        if pod.uid not in self.pods:
            self.pods[pod.uid] = pod
            self.used.update(pod.requests)

    def discard(self, uid: str) -> None:
        """No longer count a pod."""
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self.used.subtract(pod.requests)


class Topology:
    """Which pods are in which domain, for the inter-pod rules of one pod."""

    def __init__(self, pod: PodFacts, nodes: Iterable[NodeFacts]) -> None:
        self._pod = pod
        self._wanted: list[set[str]] = [set() for _ in pod.affinity]
        self._avoided: list[set[str]] = [set() for _ in pod.anti_affinity]
        self._repelled: set[tuple[str, str]] = set()
        for node in nodes:
            for other in node.pods.values():
                self._look_at(node, other)

    def _look_at(self, node: NodeFacts, other: PodFacts) -> None:
        # A pod counts for affinity only if all terms select it, for anti-affinity if one does:
        # updateWithAffinityTerms and updateWithAntiAffinityTerms of the plugin InterPodAffinity.
        if all(term.matches(other) for term in self._pod.affinity):
            for term, values in zip(self._pod.affinity, self._wanted, strict=True):
                _note(node, term, values)
        for term, values in zip(self._pod.anti_affinity, self._avoided, strict=True):
            if term.matches(other):
                _note(node, term, values)
        for term in other.anti_affinity:
            value = node.labels.get(term.topology_key)
            if value is not None and term.matches(self._pod):
                self._repelled.add((term.topology_key, value))

    def rejection(self, node: NodeFacts) -> Rejection | None:
        """Return why the inter-pod rules keep the pod off a node, or None."""
        if not self._affinity_holds(node):
            return Rejection((AFFINITY_MISMATCH,))
        for term, values in zip(self._pod.anti_affinity, self._avoided, strict=True):
            if node.labels.get(term.topology_key) in values:
                return Rejection((ANTI_AFFINITY_MISMATCH,), by_eviction=True)
        if any(node.labels.get(key) == value for key, value in self._repelled):
            return Rejection((EXISTING_ANTI_AFFINITY,), by_eviction=True)
        return None

    def _affinity_holds(self, node: NodeFacts) -> bool:
        if not self._pod.affinity:
            return True
        values = [node.labels.get(term.topology_key) for term in self._pod.affinity]
        if any(value is None for value in values):
            return False
        if all(value in found for value, found in zip(values, self._wanted, strict=True)):
            return True
        # The first pod of a group that wants to be with itself may go anywhere.
        nobody_yet = not any(self._wanted)
        return nobody_yet and all(term.matches(self._pod) for term in self._pod.affinity)


def _note(node: NodeFacts, term: Term, values: set[str]) -> None:
    value = node.labels.get(term.topology_key)
    if value is not None:
        values.add(value)


def node_rejection(pod: PodView, facts: PodFacts, node: NodeFacts) -> Rejection | None:
    """Return why a node does not take a pod, or None; `Topology` has the inter-pod rules."""
    if node.node.spec.unschedulable and not _tolerates(pod, UNSCHEDULABLE_TAINT["key"]):
        return Rejection((UNSCHEDULABLE_NODE,))
    for taint in node.node.spec.taints:
        if taint.effect in _HARD_EFFECTS and not any(t.tolerates(taint) for t in pod.spec.tolerations):
            return Rejection((UNTOLERATED_TAINT,))
    if not matches_node_selection(pod, node.node):
        return Rejection((SELECTOR_MISMATCH,))
    return _resource_rejection(facts, node)


def _tolerates(pod: PodView, key: str) -> bool:
    return any(t.operator == "Exists" and t.key in {"", key} for t in pod.spec.tolerations)


def matches_node_selection(pod: PodView, node: NodeView) -> bool:
    """Return whether nodeSelector and required node affinity accept a node."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if required is None:
        return True
    names = {"metadata.name": node.metadata.name}
    return any(
        (term.match_expressions or term.match_fields)
        and _all_hold(term.match_expressions, labels)
        and _all_hold(term.match_fields, names)
        for term in required.node_selector_terms
    )


def _all_hold(expressions: list[dict[str, Any]], values: Mapping[str, str]) -> bool:
    found: tuple[Requirement, ...] = parse_expressions(expressions)
    return all(requirement.matches(values) for requirement in found)


def _resource_rejection(facts: PodFacts, node: NodeFacts) -> Rejection | None:
    reasons = []
    hopeless = False
    if len(node.pods) * _ONE + _ONE > node.allocatable("pods"):
        reasons.append(TOO_MANY_PODS)
    for resource, amount in facts.requests.items():
        offered = node.allocatable(resource)
        if amount > offered - node.used[resource]:
            reasons.append(f"Insufficient {resource}")
            hopeless = hopeless or amount > offered
    return Rejection(tuple(reasons), by_eviction=not hopeless) if reasons else None


def unschedulable_message(total: int, rejections: Iterable[Rejection]) -> str:
    """Return the message of PodScheduled for a pod that fits on none of `total` nodes."""
    if total == 0:
        return "no nodes available to schedule pods"
    head = f"0/{total} nodes are available"
    reasons: Counter[str] = Counter()
    evictable = 0
    for rejection in rejections:
        reasons.update(rejection.reasons)
        evictable += rejection.by_eviction
    counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    verdicts = [(evictable, "No preemption victims found for incoming pod")]
    verdicts.append((total - evictable, "Preemption is not helpful for scheduling"))
    helpful = ", ".join(f"{count} {verdict}" for count, verdict in verdicts if count)
    return f"{head}: {counted}. no new claims to deallocate, preemption: {head}: {helpful}."
