"""Which fields each kind can be selected by, and their values.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/
"""

from typing import Any

from standins.cluster.store.kinds import EVENT, NAMESPACE, NODE, POD, Kind

_GENERIC = ("metadata.name", "metadata.namespace")
_EXTRA: dict[str, tuple[str, ...]] = {
    POD.resource: ("spec.nodeName", "spec.schedulerName", "status.phase", "status.podIP"),
    NODE.resource: ("spec.unschedulable",),
    NAMESPACE.resource: ("status.phase",),
    EVENT.resource: (
        "involvedObject.apiVersion",
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "reason",
        "reportingComponent",
        "type",
    ),
}


def selectable(kind: Kind) -> tuple[str, ...]:
    """Return the fields that a `fieldSelector` may name for this kind."""
    return (*_GENERIC, *_EXTRA.get(kind.resource, ()))


def field_values(kind: Kind, body: dict[str, Any]) -> dict[str, str]:
    """Return the selectable fields of an object as text; an absent field is the empty text."""
    values = {path: _lookup(body, path) for path in selectable(kind)}
    if kind is NODE:
        values["spec.unschedulable"] = values["spec.unschedulable"].lower() or "false"
    return values


def _lookup(body: dict[str, Any], path: str) -> str:
    value: Any = body
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return "" if value is None else str(value)
