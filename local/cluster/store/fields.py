"""Which fields each kind can be selected by, and their values.

Sources: the strategies of the API server (`ToSelectableFields` of pods, nodes, events, namespaces, jobs, secrets),
listed at https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/
"""

from __future__ import annotations

from typing import Any

from local.cluster.store.kinds import EVENT, JOB, NAMESPACE, NODE, POD, Kind

_GENERIC = ("metadata.name", "metadata.namespace")

_EXTRA: dict[str, tuple[str, ...]] = {
    POD.storage: (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    NODE.storage: ("spec.unschedulable",),
    NAMESPACE.storage: ("status.phase",),
    JOB.storage: ("status.successful",),
    "secrets": ("type",),
    EVENT.storage: (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
}


def selectable(kind: Kind) -> tuple[str, ...]:
    """Return the fields that a `fieldSelector` may name for this kind."""
    extra = _EXTRA.get(kind.storage, ())
    if kind.group == "events.k8s.io":
        extra = (
            *extra,
            *(f"regarding{name.removeprefix('involvedObject')}" for name in extra if "Object" in name),
        )
    return (*_GENERIC, *extra)


def field_values(kind: Kind, body: dict[str, Any]) -> dict[str, str]:
    """Return the selectable fields of an object as text: absent ones as empty, absent flags as `false`."""
    metadata = body["metadata"]
    values = {"metadata.name": metadata["name"], "metadata.namespace": metadata.get("namespace", "")}
    for path in _EXTRA.get(kind.storage, ()):
        values[path] = _text(path, _lookup(body, path))
        if kind.storage == EVENT.storage and path.startswith("involvedObject"):
            values[f"regarding{path.removeprefix('involvedObject')}"] = values[path]
    if kind.storage == EVENT.storage:
        values["source"] = str(body.get("source", {}).get("component") or body.get("reportingComponent", ""))
    if kind.storage == JOB.storage:
        values["status.successful"] = str(body.get("status", {}).get("succeeded", 0))
    return values


def _lookup(body: dict[str, Any], path: str) -> Any:
    value: Any = body
    for step in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


_FLAGS = {"spec.hostNetwork", "spec.unschedulable"}


def _text(path: str, value: Any) -> str:
    if path in _FLAGS:
        return "true" if value else "false"
    return "" if value is None else str(value)
