"""Events of the core group and of events.k8s.io are one store in two forms.

Source: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "source": "deprecatedSource",
    "reportingComponent": "reportingController",
}
_BACK = {new: old for old, new in _RENAMED.items()}


def from_core_event(body: Json) -> Json:
    """Return a stored event in the form of events.k8s.io/v1."""
    renamed = {_RENAMED.get(key, key): value for key, value in body.items()}
    return renamed | {"apiVersion": "events.k8s.io/v1"}


def to_core_event(body: Json) -> Json:
    """Return an event of either form in the one that is stored."""
    renamed = {_BACK.get(key, key): value for key, value in body.items()}
    return renamed | {"apiVersion": "v1", "kind": "Event"}
