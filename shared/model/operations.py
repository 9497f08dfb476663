"""The audit log's entry about a node pool operation, as the log sink publishes it.

Only the last entry of a create or delete is of use. It has neither the request nor the pool's
labels: the pool's name is all that it says of the owner.
https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry,
https://cloud.google.com/kubernetes-engine/docs/how-to/audit-logging-container
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from shared.model.errors import MalformedEvent
from shared.model.messages import parse_json_object

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")
ENTRY_BYTES_MAX = 1_000_000
"""Cloud Logging takes 256 KiB for each entry: https://cloud.google.com/logging/quotas."""
_RESOURCE = "gke_nodepool"  # assumes: audit-entry
_METHOD = re.compile(
    r"google\.container\.v1(?:alpha1|beta1)?\.ClusterManager\.(Create|Delete)NodePool"
)
_LABELS = {
    "project_id": re.compile(r"[a-z0-9.:-]{1,100}"),
    "location": re.compile(r"[a-z0-9-]{1,63}"),
    "cluster_name": re.compile(r"[a-z0-9-]{1,63}"),
    "nodepool_name": re.compile(r"[a-z0-9-]{1,63}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedOperation:
    """One create or delete of a node pool that has ended."""

    cluster: str
    """``projects/P/locations/L/clusters/C``; the location is the cluster's, a region or zone."""
    pool: str
    """From ``resource.labels.nodepool_name``."""
    created: bool
    """Whether it is a create that succeeded: the code in ``protoPayload.status`` is absent or 0."""
    deleted: bool = False
    """Whether it is a delete, whatever came of it."""
    problem: str = ""
    """GKE's words, or its code, about an operation that failed; empty after success."""


def parse_entry(data: bytes) -> EndedOperation | None:
    """Return the operation whose end an entry reports; None for an entry about anything else.

    Raises:
        MalformedEvent: the data is not an entry of the log, or a field has another type or form.
    """
    entry = parse_json_object(data, bytes_max=ENTRY_BYTES_MAX, valid="an entry of Cloud Logging")
    resource = _get(entry, "resource", dict)
    payload = _get(entry, "protoPayload", dict, {})
    method = _METHOD.fullmatch(_get(payload, "protoPayload.methodName", str, ""))
    ended = _get(_get(entry, "operation", dict, {}), "operation.last", bool, False)  # noqa: FBT003 -- the default
    if _get(resource, "resource.type", str) != _RESOURCE or method is None or not ended:
        return None
    labels = _get(resource, "resource.labels", dict)
    project, location, cluster, pool = (_read_label(labels, name) for name in _LABELS)
    status = _get(payload, "protoPayload.status", dict, {})  # assumes: audit-status
    code = _get(status, "protoPayload.status.code", int, 0)
    return EndedOperation(
        cluster=f"projects/{project}/locations/{location}/clusters/{cluster}",
        pool=pool,
        created=method[1] == "Create" and code == 0,
        deleted=method[1] == "Delete",
        problem=(_get(status, "protoPayload.status.message", str, "") or f"code {code}")
        if code
        else "",
    )


def _get(parent: Mapping[str, Any], field: str, kind: type[T], absent: T | None = None) -> T:
    """Return a field by the last part of its path; `absent` stands for a field that is missing."""
    found = parent.get(field.rpartition(".")[2], absent)
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        value = "" if found is None else str(found)
        raise MalformedEvent(
            "has another type, or is missing", field=field, value=value, valid=kind.__name__
        )
    return found


def _read_label(labels: Mapping[str, Any], name: str) -> str:
    field, form = f"resource.labels.{name}", _LABELS[name]
    found = _get(labels, field, str)
    if not form.fullmatch(found):
        raise MalformedEvent("not such a name", field=field, value=found, valid=form.pattern)
    return found
