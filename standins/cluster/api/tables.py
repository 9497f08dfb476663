"""Tables: what `kubectl get` prints. A few columns for the kinds of the loop, else name and age.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from standins.cluster.store.kinds import EVENT, JOB, JOBSET, NODE, POD, Kind
from standins.cluster.store.stored import Stored, encode

Json = dict[str, Any]
Column = tuple[str, "Callable[[Json], Any]"]

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def wants_table(accept: str) -> bool:
    """Return whether an Accept header asks for a table, as `kubectl get` does."""
    return "as=Table" in accept


def age(seconds: float) -> str:
    """Return an age in its largest whole unit: 45s, 12m, 5h, 2d."""
    for unit, size in (("d", _DAY), ("h", _HOUR), ("m", _MINUTE)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def _at(*path: str) -> Callable[[Json], Any]:
    def value(body: Json) -> Any:
        found: Any = body
        for step in path:
            found = found.get(step) if isinstance(found, dict) else None
        return "" if found is None else found

    return value


def _age(body: Json) -> str:
    created = datetime.fromisoformat(body["metadata"]["creationTimestamp"])
    return age((datetime.now(UTC) - created).total_seconds())


def _true(*conditions: str, otherwise: str) -> Callable[[Json], Any]:
    """Return the first of the conditions that is True."""

    def value(body: Json) -> str:
        found = body.get("status", {}).get("conditions", [])
        true = {condition["type"] for condition in found if condition["status"] == "True"}
        return next((condition for condition in conditions if condition in true), otherwise)

    return value


def _pod_status(body: Json) -> str:
    return "Terminating" if "deletionTimestamp" in body["metadata"] else str(body["status"].get("phase", ""))


def _pod_ready(body: Json) -> str:
    statuses = body["status"].get("containerStatuses", [])
    return f"{sum(s.get('ready', False) for s in statuses)}/{len(body['spec']['containers'])}"


def _node_status(body: Json) -> str:
    cordoned = ",SchedulingDisabled" if body.get("spec", {}).get("unschedulable") else ""
    return str(_true("Ready", otherwise="NotReady")(body)) + cordoned


def _about(body: Json) -> str:
    return f"{body['involvedObject']['kind'].lower()}/{body['involvedObject'].get('name', '')}"


_NAME: Column = ("Name", _at("metadata", "name"))
_AGE: Column = ("Age", _age)
_COLUMNS: dict[Kind, tuple[Column, ...]] = {
    POD: (_NAME, ("Ready", _pod_ready), ("Status", _pod_status), ("Node", _at("spec", "nodeName")), _AGE),
    NODE: (
        _NAME,
        ("Status", _node_status),
        ("Pool", _at("metadata", "labels", "cloud.google.com/gke-nodepool")),
        _AGE,
    ),
    JOB: (_NAME, ("Status", _true("Complete", "Failed", "Suspended", otherwise="Running")), _AGE),
    JOBSET: (
        _NAME,
        ("TerminalState", _at("status", "terminalState")),
        ("Restarts", _at("status", "restarts")),
        ("Suspended", _at("spec", "suspend")),
        _AGE,
    ),
    EVENT: (
        ("Type", _at("type")),
        ("Reason", _at("reason")),
        ("Object", _about),
        ("Message", _at("message")),
        _AGE,
    ),
}


def table(kind: Kind, items: Iterable[Stored], metadata: Json) -> bytes:
    """Return a table with one row for each object; each row carries its object."""
    columns = _COLUMNS.get(kind, (_NAME, _AGE))
    rows = []
    for stored in items:
        body = stored.body()
        rows.append({"cells": [str(value(body)) for _, value in columns], "object": msgspec.Raw(stored.encoded)})
    definitions = [
        {"name": name, "type": "string", "format": "", "description": name, "priority": 0} for name, _ in columns
    ]
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return encode(head | {"columnDefinitions": definitions, "rows": rows})
