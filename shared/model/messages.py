"""The messages between exporter and functions: CloudEvents 1.0 in the Pub/Sub binding, versioned.

A message is only a hint to look at an object: every decision reads the live object. The schema for
other producers is `docs/events.schema.json`. `parse_message` is the inverse of `format_message`;
what cannot be read is a `MalformedEvent`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from msgspec import Struct, structs

from shared.model.errors import MalformedEvent
from shared.model.names import KINDS, ObjectName

SOURCE_PREFIX = "//container.googleapis.com/"
SCHEMA_VERSION = 1
OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""A Kubernetes name: a DNS subdomain of at most 253 characters."""
DATA_BYTES_MAX = 65_536


class EventType(StrEnum):
    """What a message hints at; the value is the CloudEvents type."""

    DEMAND = "tpuprovisioner.demand.v1"
    """Leader pods were first seen unschedulable, or a workload has quota and waits for a check."""
    WORKLOAD_OVER = "tpuprovisioner.workload-over.v1"
    """A workload ended, is suspended, lost its last pods, is deleted or needs fewer slices."""


POD = "Pod"
KINDS_PLURAL = {POD: "pods"} | {kind: f"{kind.lower()}s" for kind in KINDS}
"""The kinds of object that a message may name, with their plural in subjects."""


class _Form(Struct, frozen=True):
    """What a text must look like, for the reader and in words."""

    pattern: re.Pattern[str]
    valid: str


def _one_of(words: Iterable[str]) -> _Form:
    listed = list(words)
    return _Form(re.compile("|".join(map(re.escape, listed))), ", ".join(listed))


_SPECVERSION, _TYPE = _one_of(["1.0"]), _one_of(EventType)
_KIND, _NAME = _one_of(KINDS_PLURAL), _Form(OBJECT_NAME, "a Kubernetes name")
_UID = _Form(re.compile(r"[A-Za-z0-9._-]{0,128}"), "a UID")
_CAUSE = _Form(re.compile(r"(?s).{0,128}"), "a text of at most 128 characters")
_SOURCE = _Form(
    re.compile(rf"{SOURCE_PREFIX}projects/[a-z0-9.:-]+/locations/[a-z0-9-]+/clusters/[a-z0-9-]+"),
    f"{SOURCE_PREFIX}projects/PROJECT/locations/LOCATION/clusters/NAME",
)


class Event(Struct, frozen=True, kw_only=True):
    """One message: which object to look at, in which cluster, and why."""

    type: EventType
    cluster: str  # ``projects/P/locations/L/clusters/C``
    subject: ObjectName
    cause: str = ""
    """What was seen, in the words of the exporter: a second suspension has another time."""
    time: str = ""  # RFC 3339; no decision uses it

    @property
    def covers_all_leaders(self) -> bool:
        """Whether it names a workload, for all of its leader pods that wait."""
        return self.type == EventType.DEMAND and self.subject.kind != POD

    @property
    def id(self) -> str:
        """Return an identity that is the same each time the same observation is reported."""
        parts = (self.type, self.cluster, self.subject.kind, self.subject.uid, self.cause)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


class Message(Struct, frozen=True):
    """A Pub/Sub message: bytes and string attributes."""

    data: bytes
    attributes: dict[str, str]


def format_message(event: Event) -> Message:
    """Return the Pub/Sub message that carries one event."""
    subject = event.subject
    body = {"version": SCHEMA_VERSION, **structs.asdict(subject), "cause": event.cause}
    attributes = {
        "ce-specversion": "1.0",
        "ce-id": event.id,
        "ce-type": str(event.type),
        "ce-source": SOURCE_PREFIX + event.cluster,
        "ce-subject": f"namespaces/{subject.namespace}/{KINDS_PLURAL[subject.kind]}/{subject.name}",
        "content-type": "application/json",
    }
    if event.time:
        attributes["ce-time"] = event.time
    return Message(json.dumps(body, separators=(",", ":")).encode(), attributes)


def parse_message(data: bytes, attributes: Mapping[str, str]) -> Event:
    """Return the event that a message carries."""
    _read_text(attributes, "ce-specversion", _SPECVERSION)
    of_type = EventType(_read_text(attributes, "ce-type", _TYPE))
    source = _read_text(attributes, "ce-source", _SOURCE)
    body = parse_json_object(data, bytes_max=DATA_BYTES_MAX, valid="a JSON object")
    version = body.get("version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        what = "unknown schema version"
        raise MalformedEvent(what, field="data.version", value=repr(version), valid="1")
    body = {"uid": "", "cause": ""} | body
    event = Event(
        type=of_type,
        cluster=source.removeprefix(SOURCE_PREFIX),
        subject=ObjectName(
            kind=_read_text(body, "data.kind", _KIND),
            namespace=_read_text(body, "data.namespace", _NAME),
            name=_read_text(body, "data.name", _NAME),
            uid=_read_text(body, "data.uid", _UID),
        ),
        time=attributes.get("ce-time", ""),
        cause=_read_text(body, "data.cause", _CAUSE),
    )
    if not event.subject.uid and not event.covers_all_leaders:
        raise MalformedEvent("missing", field="data.uid", value="''", valid=_UID.valid)
    return event


def parse_json_object(data: bytes, *, bytes_max: int, valid: str) -> dict[str, Any]:
    """Return the JSON object in the data of a message; `valid` says what it should be."""
    if len(data) > bytes_max:
        raise MalformedEvent(
            "too long", field="data", value=f"{len(data)} bytes", valid=f"at most {bytes_max}"
        )
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        shown = data[:80].decode("utf-8", "replace")
        raise MalformedEvent("not JSON", field="data", value=shown, valid=valid) from error
    if not isinstance(body, dict):
        raise MalformedEvent("not a JSON object", field="data", value=str(body), valid=valid)
    return body


def _read_text(parent: Mapping[str, Any], path: str, form: _Form) -> str:
    """Return a text of a form by the last part of its path."""
    value = parent.get(path.rpartition(".")[2], "")
    if isinstance(value, str) and form.pattern.fullmatch(value):
        return value
    shown = value if isinstance(value, str) else repr(value)
    raise MalformedEvent("missing or not valid", field=path, value=shown, valid=form.valid)


T = TypeVar("T")
_NOTHING: dict[str, Any] = {}
ENTRY_BYTES_MAX = 1_000_000
"""Cloud Logging takes 256 KiB for each entry: https://cloud.google.com/logging/quotas."""
_RESOURCE = "gke_nodepool"  # assumes: audit-entry
_METHOD = re.compile(
    r"google\.container\.v1(?:alpha1|beta1)?\.ClusterManager\.(Create|Delete)NodePool"
)
_PROJECT = _Form(re.compile(r"[a-z0-9.:-]{1,100}"), "a project")
_WORD = _Form(re.compile(r"\w{1,100}"), "a word")
_PLACE = _Form(re.compile(r"[a-z0-9-]{1,63}"), "a name of Google Cloud")


class EndedOperation(Struct, frozen=True, kw_only=True):
    """One create or delete of a node pool that has ended."""

    cluster: str
    """``projects/P/locations/L/clusters/C``; the location is the cluster's, a region or zone."""
    pool: str  # from ``resource.labels.nodepool_name``
    created: bool
    """Whether it is a create that succeeded: the code in ``protoPayload.status`` is absent or 0."""
    deleted: bool = False  # whether it is a delete, whatever came of it
    problem: str = ""
    """GKE's words, or its code, about an operation that failed; empty after success."""


def parse_entry(data: bytes) -> EndedOperation | None:
    """Return the operation whose end an entry reports; None for an entry about anything else."""
    entry = parse_json_object(data, bytes_max=ENTRY_BYTES_MAX, valid="an entry of Cloud Logging")
    resource = _get(entry, "resource", _NOTHING)
    payload = _get(entry, "protoPayload", _NOTHING)
    method = _METHOD.fullmatch(_get(payload, "protoPayload.methodName", ""))
    ended = _get(_get(entry, "operation", _NOTHING), "operation.last", False)  # noqa: FBT003 -- the default
    if _read_text(resource, "resource.type", _WORD) != _RESOURCE or method is None or not ended:
        return None
    labels = _get(resource, "resource.labels", _NOTHING)
    project = _read_text(labels, "resource.labels.project_id", _PROJECT)
    location = _read_text(labels, "resource.labels.location", _PLACE)
    cluster = _read_text(labels, "resource.labels.cluster_name", _PLACE)
    status = _get(payload, "protoPayload.status", _NOTHING)  # assumes: audit-status
    code = _get(status, "protoPayload.status.code", 0)
    words = _get(status, "protoPayload.status.message", "")
    return EndedOperation(
        cluster=f"projects/{project}/locations/{location}/clusters/{cluster}",
        pool=_read_text(labels, "resource.labels.nodepool_name", _PLACE),
        created=method[1] == "Create" and code == 0,
        deleted=method[1] == "Delete",
        problem=(words or f"code {code}") if code else "",
    )


def _get(parent: Mapping[str, Any], path: str, absent: T) -> T:
    """Return a field of the type of `absent` by the last part of its path."""
    value = parent.get(path.rpartition(".")[2], absent)
    if type(value) is type(absent):
        return value
    valid = type(absent).__name__
    raise MalformedEvent("has another type", field=path, value=repr(value), valid=valid)
