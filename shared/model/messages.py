"""The messages between exporter and functions: CloudEvents 1.0 in the Pub/Sub binding, versioned.

A message is only a hint to look at an object: every decision reads the live object. The schema for
other producers is `docs/events.schema.json`. `parse_message` is the inverse of `format_message`.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from shared.model.errors import MalformedEvent
from shared.model.names import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE_PREFIX = "//container.googleapis.com/"
SCHEMA_VERSION = 1
_CLUSTER = re.compile(r"projects/[a-z0-9.:-]+/locations/[a-z0-9-]+/clusters/[a-z0-9-]+")
OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""A Kubernetes name: a DNS subdomain of at most 253 characters."""
_UID_OR_NONE = re.compile(r"[A-Za-z0-9._-]{0,128}")
DATA_BYTES_MAX = 65_536


class EventType(StrEnum):
    """What a message hints at; the value is the CloudEvents type."""

    DEMAND = "tpuprovisioner.demand.v1"
    """Leader pods were first seen unschedulable, or a workload has quota and waits for a check."""
    WORKLOAD_OVER = "tpuprovisioner.workload-over.v1"
    """A workload ended, is suspended, lost its last pods, is deleted or needs fewer slices."""


class Observed(StrEnum):
    """What the exporter saw."""

    UNSCHEDULABLE = "unschedulable"
    COMPLETED = "completed"
    FAILED = "failed"
    SUSPENDED = "suspended"
    DELETED = "deleted"
    SCALED = "scaled"
    """The workload needs fewer slices than before."""
    QUOTA_RESERVED = "quota-reserved"
    """Kueue has reserved quota for the workload, which waits for an admission check."""


Word = TypeVar("Word", EventType, Observed)
POD = "Pod"
KINDS_PLURAL = {POD: "pods"} | {kind: f"{kind.lower()}s" for kind in KINDS}
"""The kinds of object that a message may name, with their plural in subjects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectName:
    """The identity of one Kubernetes object, its UID included."""

    kind: str
    namespace: str
    name: str
    uid: str
    """Empty only in an event that covers all leaders, if the pods do not carry their workload's."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One message: which object to look at, in which cluster, and why."""

    type: EventType
    cluster: str
    """``projects/P/locations/L/clusters/C``."""
    subject: ObjectName
    observed: Observed
    time: str = ""
    """RFC 3339; no decision uses it."""
    incarnation: str = ""
    """Distinguishes two observations of the same fact, for example a second suspension."""

    @property
    def covers_all_leaders(self) -> bool:
        """Whether it names a workload, for all of its leader pods that are unschedulable."""
        waits = self.type == EventType.DEMAND and self.observed == Observed.UNSCHEDULABLE
        return waits and self.subject.kind != POD

    @property
    def id(self) -> str:
        """Return an identity that is the same each time the same observation is reported."""
        parts = (
            self.type,
            self.cluster,
            self.subject.kind,
            self.subject.uid,
            self.observed,
            self.incarnation,
        )
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Message:
    """A Pub/Sub message: bytes and string attributes."""

    data: bytes
    attributes: dict[str, str]


def format_message(event: Event) -> Message:
    """Return the Pub/Sub message that carries one event."""
    subject = event.subject
    body: dict[str, Any] = {
        "version": SCHEMA_VERSION,
        **asdict(subject),
        "observed": event.observed,
    }
    if event.incarnation:
        body["incarnation"] = event.incarnation
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
    """Return the event that a message carries.

    Raises:
        MalformedEvent: an attribute or field is missing, unknown or not valid.
    """
    version = attributes.get("ce-specversion", "")
    if version != "1.0":
        raise MalformedEvent(
            "unknown CloudEvents version", field="ce-specversion", value=version, valid="1.0"
        )
    named_type = _choose(EventType, attributes.get("ce-type", ""), "unknown event type", "ce-type")
    source = attributes.get("ce-source", "")
    cluster = source.removeprefix(SOURCE_PREFIX)
    if cluster == source or not _CLUSTER.fullmatch(cluster):
        raise MalformedEvent(
            "not the name of a cluster",
            field="ce-source",
            value=source,
            valid=f"{SOURCE_PREFIX}projects/PROJECT/locations/LOCATION/clusters/NAME",
        )
    body = _parse_body(data)
    observed = _choose(Observed, body.get("observed"), "unknown observation", "data.observed")
    subject = _parse_object({"uid": ""} | body)
    event = Event(
        type=named_type,
        cluster=cluster,
        subject=subject,
        observed=observed,
        time=attributes.get("ce-time", ""),
        incarnation=_parse_incarnation(body),
    )
    if not subject.uid and not event.covers_all_leaders:
        raise MalformedEvent("missing or not valid", field="data.uid", value="''", valid="a UID")
    return event


def parse_json_object(data: bytes, *, bytes_max: int, valid: str) -> dict[str, Any]:
    """Return the JSON object in the data of a message; `valid` says what it should be.

    Raises:
        MalformedEvent: there is none, or it is too long.
    """
    if len(data) > bytes_max:
        raise MalformedEvent(
            "too long", field="data", value=f"{len(data)} bytes", valid=f"at most {bytes_max}"
        )
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        shown = data[:80].decode("utf-8", "replace")
        raise MalformedEvent("not JSON", field="data", value=shown, valid=valid) from error
    if not isinstance(found, dict):
        raise MalformedEvent("not a JSON object", field="data", value=str(found), valid=valid)
    return found


def _parse_body(data: bytes) -> dict[str, Any]:
    body = parse_json_object(data, bytes_max=DATA_BYTES_MAX, valid="a JSON object")
    version = body.get("version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise MalformedEvent(
            "unknown schema version", field="data.version", value=repr(version), valid="1"
        )
    return body


def _choose(words: type[Word], value: object, problem: str, field: str) -> Word:
    if not isinstance(value, str) or value not in set(words):
        raise MalformedEvent(problem, field=field, value=str(value), valid=", ".join(words))
    return words(value)


def _parse_incarnation(body: dict[str, Any]) -> str:
    value = body.get("incarnation", "")
    if not isinstance(value, str) or len(value) > 128:  # noqa: PLR2004 -- the limit is only used here
        raise MalformedEvent(
            "not a short text",
            field="data.incarnation",
            value=repr(value),
            valid="at most 128 characters",
        )
    return value


def _parse_object(body: dict[str, Any]) -> ObjectName:
    fields: dict[str, str] = {}
    rules = (
        ("namespace", OBJECT_NAME, "a Kubernetes name"),
        ("name", OBJECT_NAME, "a Kubernetes name"),
        ("uid", _UID_OR_NONE, "a UID"),
    )
    kind = body.get("kind")
    if not isinstance(kind, str) or kind not in KINDS_PLURAL:
        raise MalformedEvent(
            "unknown kind", field="data.kind", value=repr(kind), valid=", ".join(KINDS_PLURAL)
        )
    for key, rule, valid in rules:
        value = body.get(key)
        if not isinstance(value, str) or not rule.fullmatch(value):
            raise MalformedEvent(
                "missing or not valid", field=f"data.{key}", value=repr(value), valid=valid
            )
        fields[key] = value
    return ObjectName(kind=kind, **fields)


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
