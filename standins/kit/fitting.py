"""Whether a pod fits on a node, and if not, why, in the order and words of kube-scheduler.

The embedded cluster's scheduler, the autoscaler and the simulator share it. Pure: a node counts for
the first filter that rejects it, in the order of Kubernetes 1.34: unschedulable, taints, selector,
resources, inter-pod affinity. Preferences are ignored. Source:
https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any

Json = dict[str, Any]

UNSCHEDULABLE_NODE = "node(s) were unschedulable"
UNTOLERATED_TAINT = "node(s) had untolerated taint(s)"
SELECTOR_MISMATCH = "node(s) didn't match Pod's node affinity/selector"
AFFINITY_MISMATCH = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY_MISMATCH = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
TOO_MANY_PODS = "Too many pods"

HOSTNAME = "kubernetes.io/hostname"
KEEPS = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_NODE_NAME = "metadata.name"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_HARD_EFFECTS = ("NoSchedule", "NoExecute")
_PODS_MAX = 110
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i))?")
_SCALE = {None: Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")}
_SCALE |= {unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", start=1)}
_SCALE |= {f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", start=1)}


@lru_cache(maxsize=4_096)
def read_quantity(quantity: str | float) -> int:
    """Return a resource quantity such as `500m`, `1Gi` or `1e3` in thousandths, rounded up.

    Raises ValueError when the text is not a quantity.
    Grammar: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
    """
    parts = _QUANTITY.fullmatch(str(quantity))
    if parts is None:
        raise ValueError(f"{quantity!r} is not a quantity; valid: a number with a suffix such as m, k or Gi")
    amount = Decimal(parts[1] + (parts[2] or "")) * _SCALE[parts[3]] * 1_000
    return int(amount.to_integral_value(rounding=ROUND_CEILING))


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label, with the operators of Kubernetes' node affinity."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels fulfil this condition; `NotIn` also accepts an absent label."""
        value = labels.get(self.key)
        if self.operator in ("Exists", "DoesNotExist"):
            return (value is not None) == (self.operator == "Exists")
        if self.operator in ("In", "NotIn"):
            return (value in self.values) == (self.operator == "In")
        if value is None or not value.removeprefix("-").isdigit():
            return False
        bound = int(self.values[0])
        return int(value) > bound if self.operator == "Gt" else int(value) < bound


def meets(labels: Mapping[str, str], requirements: Iterable[Requirement]) -> bool:
    """Return whether labels fulfil all conditions."""
    return all(each.matches(labels) for each in requirements)


@dataclass(frozen=True, slots=True)
class Term:
    """A required inter-pod term. `requirements` None: it selects no pod; `namespaces` None: all."""

    topology_key: str
    requirements: tuple[Requirement, ...] | None
    namespaces: frozenset[str] | None

    def selects(self, pod: Pod) -> bool:
        """Return whether the term selects a pod."""
        if self.requirements is None or (self.namespaces is not None and pod.namespace not in self.namespaces):
            return False
        return meets(pod.labels, self.requirements)


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a pod; an empty key or effect tolerates all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether it tolerates a taint."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


_CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that has not finished."""

    namespace: str
    name: str
    uid: str
    node: str = ""
    unschedulable: bool = False  # Pending, and the scheduler found no node for it
    labels: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, int] = field(default_factory=dict)
    """In the unit of the nodes' `allocatable`: thousandths, where both are read."""
    selector: Mapping[str, str] = field(default_factory=dict)
    node_terms: tuple[tuple[Requirement, ...], ...] = ()
    """Required node affinity: any of these, each with all of its requirements; empty: any node."""
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    movable: bool = True  # whether the autoscaler may evict it
    daemon: bool = False

    def matches_node(self, labels: Mapping[str, str]) -> bool:
        """Return whether its selector and its required node affinity accept a node's labels."""
        if any(labels.get(key) != value for key, value in self.selector.items()):
            return False
        return not self.node_terms or any(term and meets(labels, term) for term in self.node_terms)

    def tolerates(self, taint: Taint) -> bool:
        """Return whether one of its tolerations covers a taint."""
        return any(each.tolerates(taint) for each in self.tolerations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the cluster; `kept`: its annotation forbids to remove it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)
    pods_max: int = _PODS_MAX
    unschedulable: bool = False
    ready: bool = True
    kept: bool = False


class Row:
    """A node and the pods on it."""

    def __init__(self, node: Node, name: str) -> None:
        self.name = name
        self.pods: dict[str, Pod] = {}
        self.used: Counter[str] = Counter()
        self.change(node)

    def change(self, node: Node) -> None:
        """Let the node be another one, with the same pods."""
        self.node = node
        self.labels: Mapping[str, str] = {HOSTNAME: self.name, **node.labels, _NODE_NAME: self.name}

    def add(self, pod: Pod) -> None:
        """Put a pod on the node."""
        self.pods[pod.uid] = pod
        self.used.update(pod.requests)

    def discard(self, pod: Pod) -> None:
        """Take a pod off the node."""
        if self.pods.pop(pod.uid, None) is not None:
            self.used.subtract(pod.requests)


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why one node does not take a pod; `by_eviction`: whether evicting pods could change that."""

    reasons: tuple[str, ...]
    by_eviction: bool = False


class Placing:
    """Nodes with pods on them, on which more pods can be tried."""

    def __init__(self, nodes: Iterable[Node] = (), pods: Iterable[Pod] = ()) -> None:
        self.rows: dict[str, Row] = {}
        for node in nodes:
            self.add(node, node.name)
        for pod in pods:
            if pod.node in self.rows:
                self.rows[pod.node].add(pod)

    def add(self, node: Node, name: str) -> Row:
        """Add a node without pods under a name, and return it."""
        row = self.rows[name] = Row(node, name)
        return row

    def place(self, pod: Pod, rows: Iterable[Row] | None = None) -> Row | None:
        """Put a pod on the first of some rows (default: all) that takes it; None when none does."""
        judge = Judge(pod, self.rows.values())
        for row in self.rows.values() if rows is None else rows:
            if judge.find_rejection(row) is None:
                row.add(pod)
                return row
        return None


class Judge:
    """Judges nodes for one pod, among the pods that are on nodes now."""

    def __init__(self, pod: Pod, rows: Iterable[Row]) -> None:
        self._pod, self._rows = pod, rows
        self._looked = False
        self._wanted: set[tuple[Term, str | None]] = set()
        self._avoided: set[tuple[str, str | None]] = set()
        self._repelled: set[tuple[str, str | None]] = set()
        """The domains of the topology with pods that matter to the inter-pod rules."""

    def find_rejection(self, row: Row) -> Rejection | None:
        """Return why a node does not take the pod, None when it does."""
        pod, node = self._pod, row.node
        if node.unschedulable and not pod.tolerates(_CORDON):
            return Rejection((UNSCHEDULABLE_NODE,))
        if any(taint.effect in _HARD_EFFECTS and not pod.tolerates(taint) for taint in node.taints):
            return Rejection((UNTOLERATED_TAINT,))
        if not pod.matches_node(row.labels):
            return Rejection((SELECTOR_MISMATCH,))
        return self._find_shortage(row) or self._find_foe(row)

    def _find_shortage(self, row: Row) -> Rejection | None:
        reasons = [TOO_MANY_PODS] if len(row.pods) >= row.node.pods_max else []
        hopeless = False
        for name, amount in self._pod.requests.items():
            offered = row.node.allocatable.get(name, 0)
            if amount > offered - row.used[name]:
                reasons.append(f"Insufficient {name}")
                hopeless = hopeless or amount > offered
        return Rejection(tuple(reasons), by_eviction=not hopeless) if reasons else None

    def _find_foe(self, row: Row) -> Rejection | None:
        if not self._looked:  # not before a node passes all other filters: it takes long
            self._looked = True
            for place in self._rows:
                for other in place.pods.values():
                    self._look_at(place, other)
        if not self._has_friends(row):
            return Rejection((AFFINITY_MISMATCH,))
        if not self._avoided.isdisjoint(row.labels.items()):
            return Rejection((ANTI_AFFINITY_MISMATCH,), by_eviction=True)
        if not self._repelled.isdisjoint(row.labels.items()):
            return Rejection((EXISTING_ANTI_AFFINITY,), by_eviction=True)
        return None

    def _look_at(self, place: Row, other: Pod) -> None:
        # A pod counts for affinity only if all terms select it, for anti-affinity if one does:
        # updateWithAffinityTerms and updateWithAntiAffinityTerms of the plugin InterPodAffinity.
        pod = self._pod
        if all(term.selects(other) for term in pod.affinity):
            self._wanted.update((term, place.labels.get(term.topology_key)) for term in pod.affinity)
        self._avoided.update(_find_places(pod, other, place))
        self._repelled.update(_find_places(other, pod, place))

    def _has_friends(self, row: Row) -> bool:
        terms = self._pod.affinity
        if any(term.topology_key not in row.labels for term in terms):
            return False
        if all((term, row.labels[term.topology_key]) in self._wanted for term in terms):
            return True
        # The first pod of a group that wants to be with itself may go anywhere.
        return not self._wanted and all(term.selects(self._pod) for term in terms)


def _find_places(pod: Pod, other: Pod, place: Row) -> Iterator[tuple[str, str | None]]:
    """Yield where a pod does not want to be, because another one is at a place."""
    keys = (term.topology_key for term in pod.anti_affinity if term.selects(other))
    yield from ((key, place.labels.get(key)) for key in keys)


def _read_fields(body: Json, *path: str) -> Json:
    """Return the mapping at the end of a path; empty where it is absent or null."""
    for name in path:
        body = body.get(name) or {}
    return body


def _read_items(body: Json, *path: str) -> list[Json]:
    """Return the list at the end of a path; empty where it is absent or null."""
    return _read_fields(body, *path[:-1]).get(path[-1]) or []


def is_finished(body: Json) -> bool:
    """Return whether a pod of the Kubernetes API has ended, well or badly."""
    return _read_fields(body, "status").get("phase") in ("Succeeded", "Failed")


def read_pod(body: Json) -> Pod:
    """Return a pod of the Kubernetes API."""
    meta, spec = body["metadata"], _read_fields(body, "spec")
    namespace, affinity = meta.get("namespace", "default"), _read_fields(spec, "affinity")
    owners = [each["kind"] for each in _read_items(meta, "ownerReferences") if each.get("controller")]
    annotations, node = _read_fields(meta, "annotations"), spec.get("nodeName") or ""
    waits = not node and not meta.get("deletionTimestamp")
    return Pod(
        namespace=namespace,
        name=meta["name"],
        uid=meta.get("uid") or f"{namespace}/{meta['name']}",
        node=node,
        unschedulable=waits and any(map(_says_unschedulable, _read_items(body, "status", "conditions"))),
        labels=_read_fields(meta, "labels"),
        requests=_read_requests(spec),
        selector=_read_fields(spec, "nodeSelector"),
        node_terms=tuple(
            map(_read_node_term, _read_items(affinity, "nodeAffinity", _REQUIRED, "nodeSelectorTerms"))
        ),
        tolerations=tuple(map(_read_toleration, _read_items(spec, "tolerations"))),
        affinity=tuple(_read_term(each, namespace) for each in _read_items(affinity, "podAffinity", _REQUIRED)),
        anti_affinity=tuple(
            _read_term(each, namespace) for each in _read_items(affinity, "podAntiAffinity", _REQUIRED)
        ),
        movable=_is_movable(annotations, spec, namespace, owned=bool(owners)),
        daemon="DaemonSet" in owners or "kubernetes.io/config.mirror" in annotations,
    )


def _says_unschedulable(condition: Json) -> bool:
    said = condition["type"], condition["status"], condition.get("reason")
    return said == ("PodScheduled", "False", "Unschedulable")


def _is_movable(annotations: Json, spec: Json, namespace: str, *, owned: bool) -> bool:
    if annotations.get(EVICT) in ("true", "false"):
        return bool(annotations[EVICT] == "true")
    local = any("emptyDir" in each or "hostPath" in each for each in _read_items(spec, "volumes"))
    return owned and not local and namespace != "kube-system"


def _read_requests(spec: Json) -> dict[str, int]:
    """Return what a pod requests: its containers, or its largest init container."""
    total: Counter[str] = Counter()
    for container in _read_items(spec, "containers"):
        total.update(_read_amounts(container))
    for container in _read_items(spec, "initContainers"):
        total |= _read_amounts(container)  # the larger of both
    return {name: amount for name, amount in total.items() if amount}


def _read_amounts(container: Json) -> Counter[str]:
    resources = _read_fields(container, "resources")
    wanted = _read_fields(resources, "limits") | _read_fields(resources, "requests")
    return Counter({name: read_quantity(amount) for name, amount in wanted.items()})


def _read_node_term(raw: Json) -> tuple[Requirement, ...]:
    return read_requirements([*_read_items(raw, "matchExpressions"), *_read_items(raw, "matchFields")])


def read_requirements(raw: Iterable[Json]) -> tuple[Requirement, ...]:
    """Return the conditions of `matchExpressions`."""
    return tuple(Requirement(each["key"], each["operator"], tuple(each.get("values") or ())) for each in raw)


def _read_term(raw: Json, namespace: str) -> Term:
    selector = raw.get("labelSelector")
    requirements = None
    if selector is not None:
        equal = (Requirement(key, "In", (value,)) for key, value in _read_fields(selector, "matchLabels").items())
        requirements = (*equal, *read_requirements(_read_items(selector, "matchExpressions")))
    # An empty namespace selector means all namespaces. Others are read in the same way.
    everywhere = raw.get("namespaceSelector") is not None
    namespaces = None if everywhere else frozenset(raw.get("namespaces") or (namespace,))
    return Term(raw["topologyKey"], requirements, namespaces)


def _read_toleration(raw: Json) -> Toleration:
    return Toleration(*(raw.get(key) or "" for key in ("key", "operator", "value", "effect")))


def read_node(body: Json) -> Node:
    """Return a node of the Kubernetes API."""
    meta, spec, status = body["metadata"], _read_fields(body, "spec"), _read_fields(body, "status")
    ready = ("Ready", "True") in [(each["type"], each["status"]) for each in _read_items(status, "conditions")]
    amounts = _read_fields(status, "allocatable") or _read_fields(status, "capacity")
    offer = {name: read_quantity(amount) for name, amount in amounts.items()}
    return Node(
        name=meta["name"],
        labels=_read_fields(meta, "labels"),
        taints=tuple(
            Taint(each["key"], each.get("value") or "", each["effect"]) for each in _read_items(spec, "taints")
        ),
        allocatable=offer,
        pods_max=offer.get("pods", _PODS_MAX * 1_000) // 1_000,
        unschedulable=bool(spec.get("unschedulable")),
        ready=ready and not spec.get("unschedulable"),
        kept=_read_fields(meta, "annotations").get(KEEPS) == "true",
    )
