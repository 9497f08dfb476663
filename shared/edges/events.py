"""Writes the Events that tell a workload's owner what was decided, each one once for a while."""

from __future__ import annotations

import hashlib
from typing import Any

from shared.edges.kubernetes import JsonObject, KubernetesApi, Stored, reading
from shared.kinds.objects import read_number, read_text
from shared.kinds.table import KINDS
from shared.model.decisions import Notice
from shared.model.errors import AlreadyExists
from shared.model.times import Clock, format_time, parse_time

API_VERSIONS = {"Pod": "v1"} | {
    each.name: each.api_version for kind in KINDS for each in (kind, *kind.parents)
}
_MESSAGE_LENGTH_MAX = 1024
"""Longest message of an Event:
https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/."""
NOTICE_FRESH_SECONDS = 600.0
"""An Event that was written or counted up less than this ago is not counted up again: the tick
says the same every minute. Far less than the hour for which API servers keep Events by default,
which counting up begins anew:
https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/ (--event-ttl)."""
_WRITTEN_MAX = 50_000
"""Events that an instance remembers, some 10 MB: two for each of the leaders that a tick looks
at, and more. Without them they are read again."""


class EventWriter:
    """Writes Events in the name of one component, and remembers those of just now."""

    def __init__(self, api: KubernetesApi, *, component: str, clock: Clock) -> None:
        self._api, self._component, self._clock = api, component, clock
        self._written: dict[str, tuple[str, float]] = {}
        """By the Event's path: its text, and when it was written, in unix seconds."""

    def write(self, notice: Notice) -> None:
        """Write an Event, unless the same was written a moment ago.

        Its name follows from the object, from why and from the pool, so a repetition, also of
        another process, changes one Event: its text, its count and its time.
        """
        seconds = self._clock.now()
        now = format_time(seconds)
        identity = f"{notice.uid}\n{notice.reason}\n{notice.about or notice.message}".encode()
        name = f"{notice.name[:200]}.{hashlib.sha256(identity).hexdigest()[:16]}"
        collection = f"/api/v1/namespaces/{notice.namespace}/events"
        path = f"{collection}/{name}"
        written, at = self._written.get(path, ("", float("-inf")))
        if written == notice.message and seconds - at < NOTICE_FRESH_SECONDS:
            return
        try:
            body = format_event(notice, name, component=self._component, now=now)
            self._api.create(collection, body, Stored)
        except AlreadyExists:
            with reading(f"the Event {path}"):
                event = self._api.get(path, JsonObject)
                count, text = read_number(event, "count", default=1), read_text(event, "message")
                written_at = parse_time(read_text(event, "lastTimestamp"))
            message = notice.message[:_MESSAGE_LENGTH_MAX]
            if text == message and seconds - (written_at or 0) < NOTICE_FRESH_SECONDS:
                seconds = written_at or seconds
            else:
                patch = {"count": count + 1, "lastTimestamp": now, "message": message}
                self._api.patch(path, patch)
        if len(self._written) >= _WRITTEN_MAX:
            self._written.clear()
        self._written[path] = notice.message, seconds


def format_event(notice: Notice, name: str, *, component: str, now: str) -> dict[str, Any]:
    """Return the Event of a notice, as the Kubernetes API takes it; `now` is in RFC 3339."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": notice.namespace},
        "involvedObject": {
            "apiVersion": API_VERSIONS[notice.kind],
            "kind": notice.kind,
            "namespace": notice.namespace,
            "name": notice.name,
            "uid": notice.uid,
        },
        "reason": notice.reason,
        "message": notice.message[:_MESSAGE_LENGTH_MAX],
        "type": "Warning" if notice.warning else "Normal",
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
