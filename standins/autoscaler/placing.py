"""Which pods fit on which nodes, those that are there and those that a group would add.

Selectors, node affinity, taints, resources, and inter-pod affinity and anti-affinity, as
kube-scheduler's filters read them; the reasons are in its words.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from standins.autoscaler.picture import Node, Pod, Term

MISMATCH = "node(s) didn't match Pod's node affinity/selector"
UNTOLERATED = "node(s) had untolerated taint(s)"
UNFRIENDLY = "node(s) didn't match pod affinity/anti-affinity rules"
HOSTNAME = "kubernetes.io/hostname"
_HARD = ("NoSchedule", "NoExecute")
_ANY_NUMBER = 110.0


@dataclass
class Row:
    """A node and the pods on it."""

    node: Node
    labels: Mapping[str, str]
    pods: list[Pod] = field(default_factory=list)
    guards: list[Pod] = field(default_factory=list)
    """Those that keep others away."""
    used: Counter[str] = field(default_factory=Counter)

    def add(self, pod: Pod) -> None:
        """Put a pod on the node."""
        self.pods.append(pod)
        if pod.anti_affinity:
            self.guards.append(pod)
        self.used.update(pod.requests)

    def discard(self, pod: Pod) -> None:
        """Take a pod off the node."""
        self.pods.remove(pod)
        if pod.anti_affinity:
            self.guards.remove(pod)
        self.used.subtract(pod.requests)


class Placing:
    """Nodes with pods on them, on which more pods can be tried."""

    def __init__(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        self.rows: dict[str, Row] = {}
        for node in nodes:
            self.add(node, node.name)
        for pod in pods:
            if pod.node in self.rows:
                self.rows[pod.node].add(pod)

    def add(self, node: Node, name: str) -> Row:
        """Add a node without pods under a name, and return it."""
        row = Row(node, {**node.labels, HOSTNAME: name})
        self.rows[name] = row
        return row

    def place(self, pod: Pod, rows: Iterable[Row] | None = None) -> Row | None:
        """Put a pod on the first of some rows (default: all) that takes it; None when none does."""
        for row in self.rows.values() if rows is None else rows:
            if not self.find_reason(pod, row):
                row.add(pod)
                return row
        return None

    def find_reason(self, pod: Pod, row: Row) -> str:
        """Return why a node does not take a pod, empty when it does."""
        if not matches_node(pod, row.labels):
            return MISMATCH
        hard = (taint for taint in row.node.taints if taint.effect in _HARD)
        if not all(any(each.tolerates(taint) for each in pod.tolerations) for taint in hard):
            return UNTOLERATED
        for name, amount in pod.requests.items():
            if amount > row.node.allocatable.get(name, 0.0) - row.used[name]:
                return f"Insufficient {name}"
        if len(row.pods) + 1 > row.node.allocatable.get("pods", _ANY_NUMBER):
            return "Too many pods"
        return "" if self._is_friendly(pod, row) else UNFRIENDLY

    def _is_friendly(self, pod: Pod, row: Row) -> bool:
        if any(self._is_near(term, row) for term in pod.anti_affinity):
            return False
        for term in pod.affinity:
            first = term.selects(pod) and not any(map(term.selects, self._pods()))
            if term.topology_key not in row.labels or not (first or self._is_near(term, row)):
                return False
        return not any(
            term.selects(pod) and _same(term.topology_key, other, row)
            for other in self.rows.values()
            for placed in other.guards
            for term in placed.anti_affinity
        )

    def _is_near(self, term: Term, row: Row) -> bool:
        return any(
            term.selects(placed)
            for other in self.rows.values()
            if _same(term.topology_key, other, row)
            for placed in other.pods
        )

    def _pods(self) -> Iterable[Pod]:
        return (pod for row in self.rows.values() for pod in row.pods)


def matches_node(pod: Pod, labels: Mapping[str, str]) -> bool:
    """Return whether a pod's selector and its required node affinity accept a node's labels."""
    if any(labels.get(key) != value for key, value in pod.selector.items()):
        return False
    terms = pod.node_terms
    return not terms or any(all(each.matches(labels) for each in term) for term in terms)


def _same(key: str, one: Row, other: Row) -> bool:
    return key in one.labels and one.labels[key] == other.labels.get(key)
