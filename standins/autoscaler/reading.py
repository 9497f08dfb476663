"""Reads the answers of Kubernetes, GKE and Compute Engine into the autoscaler's picture."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from standins.autoscaler.picture import (
    Group,
    Instance,
    InstanceError,
    Node,
    Pod,
    Requirement,
    Taint,
    Term,
    Toleration,
)

Json = dict[str, Any]
KEEPS = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_FINISHED = ("Succeeded", "Failed")
_QUANTITY = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)")
_SCALE = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip
_VARIABLES = re.compile(r"^AUTOSCALER_ENV_VARS: (.*)$", re.MULTILINE)


def read_pod(body: Json) -> Pod | None:
    """Return a pod, None for one that has finished."""
    meta, spec, status = body["metadata"], body.get("spec", {}), body.get("status", {})
    if status.get("phase") in _FINISHED:
        return None
    namespace, affinity = meta.get("namespace", "default"), spec.get("affinity") or {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    node_terms = (affinity.get("nodeAffinity") or {}).get(required) or {}
    owners = [each.get("kind") for each in meta.get("ownerReferences") or [] if each.get("controller")]
    return Pod(
        namespace=namespace,
        name=meta["name"],
        uid=meta.get("uid", f"{namespace}/{meta['name']}"),
        node=spec.get("nodeName") or "",
        unschedulable=_is_unschedulable(body),
        labels=meta.get("labels") or {},
        requests=_read_requests(spec),
        selector=spec.get("nodeSelector") or {},
        node_terms=tuple(
            _read_requirements(term.get("matchExpressions")) for term in node_terms.get("nodeSelectorTerms") or []
        ),
        tolerations=tuple(_read_toleration(each) for each in spec.get("tolerations") or []),
        affinity=_read_terms((affinity.get("podAffinity") or {}).get(required), namespace),
        anti_affinity=_read_terms((affinity.get("podAntiAffinity") or {}).get(required), namespace),
        movable=_is_movable(meta, spec, owners),
        daemon="DaemonSet" in owners or "kubernetes.io/config.mirror" in (meta.get("annotations") or {}),
    )


def _is_unschedulable(body: Json) -> bool:
    if body["metadata"].get("deletionTimestamp") or body.get("spec", {}).get("nodeName"):
        return False
    return any(
        (each["type"], each["status"], each.get("reason")) == ("PodScheduled", "False", "Unschedulable")
        for each in body.get("status", {}).get("conditions") or []
    )


def _is_movable(meta: Json, spec: Json, owners: list[Any]) -> bool:
    value = (meta.get("annotations") or {}).get(EVICT)
    if value in ("true", "false"):
        return bool(value == "true")
    local = any("emptyDir" in each or "hostPath" in each for each in spec.get("volumes") or [])
    return bool(owners) and not local and meta.get("namespace") != "kube-system"


def _read_requests(spec: Json) -> dict[str, float]:
    total: Counter[str] = Counter()
    for container in spec.get("containers") or []:
        total.update(_read_amounts(container))
    for container in spec.get("initContainers") or []:
        for name, amount in _read_amounts(container).items():
            total[name] = max(total[name], amount)  # type: ignore[assignment]
    return {name: float(amount) for name, amount in total.items() if amount}


def _read_amounts(container: Json) -> dict[str, float]:
    resources = container.get("resources") or {}
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: read_quantity(amount) for name, amount in wanted.items()}


def read_quantity(text: object) -> float:
    """Return a quantity of Kubernetes in its base unit; raises ValueError for another text."""
    found = _QUANTITY.fullmatch(str(text))
    if found is None or found[2] not in _SCALE:
        raise ValueError(f"{text!r} is no quantity; valid: a number with a suffix such as m or Gi, or without")
    return float(found[1]) * _SCALE[found[2]]


def _read_requirements(raw: Any) -> tuple[Requirement, ...]:
    return tuple(Requirement(each["key"], each["operator"], tuple(each.get("values") or ())) for each in raw or [])


def _read_terms(raw: Any, namespace: str) -> tuple[Term, ...]:
    return tuple(_read_term(each, namespace) for each in raw or [])


def _read_term(raw: Json, namespace: str) -> Term:
    selector = raw.get("labelSelector") or {}
    labels = tuple(Requirement(key, "In", (value,)) for key, value in (selector.get("matchLabels") or {}).items())
    everywhere = raw.get("namespaceSelector") is not None
    return Term(
        raw["topologyKey"],
        labels + _read_requirements(selector.get("matchExpressions")),
        None if everywhere else frozenset(raw.get("namespaces") or (namespace,)),
    )


def _read_toleration(raw: Json) -> Toleration:
    return Toleration(*(raw.get(key) or "" for key in ("key", "operator", "value", "effect")))


def read_node(body: Json) -> Node:
    """Return a node."""
    meta, status = body["metadata"], body.get("status", {})
    spec = body.get("spec", {})
    conditions = status.get("conditions") or []
    ready = any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)
    return Node(
        name=meta["name"],
        labels=meta.get("labels") or {},
        taints=tuple(
            Taint(each["key"], each.get("value") or "", each["effect"]) for each in spec.get("taints") or []
        ),
        allocatable=_read_offer(status.get("allocatable") or {}),
        ready=ready and not spec.get("unschedulable"),
        kept=(meta.get("annotations") or {}).get(KEEPS) == "true",
    )


def _read_offer(amounts: Mapping[str, object]) -> dict[str, float]:
    return {name: read_quantity(amount) for name, amount in amounts.items()}


def read_group(pool: Json, group: Json, instances: list[Json], template: Node) -> Group:
    """Return the group of an autoscaled pool, from the answers about it."""
    scaling, config = pool.get("autoscaling") or {}, pool.get("config") or {}
    return Group(
        id=group["instanceGroup"],
        pool=pool["name"],
        zone=group["instanceGroup"].split("/zones/", 1)[1].split("/", 1)[0],
        smallest=int(scaling.get("minNodeCount") or scaling.get("totalMinNodeCount") or 0),
        largest=int(scaling.get("maxNodeCount") or scaling.get("totalMaxNodeCount") or 0),
        target=int(group.get("targetSize") or 0),
        all_or_none=(group.get("targetSizePolicy") or {}).get("mode") == "BULK",
        queued=bool(config.get("flexStart")),
        template=template,
        instances=tuple(_read_instance(each) for each in instances),
    )


def _read_instance(raw: Json) -> Instance:
    errors = ((raw.get("lastAttempt") or {}).get("errors") or {}).get("errors") or []
    error = InstanceError(errors[0].get("code", ""), errors[0].get("message", "")) if errors else None
    creating = str(raw.get("currentAction", "")).startswith("CREATING")
    return Instance(raw["instance"].rpartition("/")[2], creating, error if creating else None)


def read_template(template: Json, machine: Json) -> Node:
    """Return the node that a group would add, from its instance template and its machine type."""
    items = template["properties"]["metadata"]["items"]
    text = next((each["value"] for each in items if each["key"] == "kube-env"), "")
    found = _VARIABLES.search(text)
    variables = dict(_split(each) for each in found[1].split(";")) if found else {}
    taints = [_split(each) for each in variables.get("node_taints", "").split(",") if each]
    extended = dict(_split(each) for each in variables.get("extended_resources", "").split(",") if each)
    size = {"cpu": str(machine["guestCpus"]), "memory": f"{machine['memoryMb']}Mi"}
    return Node(
        name=template["name"],
        labels=dict(_split(each) for each in variables.get("node_labels", "").split(",") if each),
        taints=tuple(Taint(key, *rest.rpartition(":")[::2]) for key, rest in taints),
        allocatable=_read_offer({**size, **extended}),
    )


def _split(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value
