"""The messages between exporter and functions: CloudEvents 1.0 in the Pub/Sub binding, versioned.

A message is only a hint to look at an object: every decision reads the live object.
`parse_message` is the inverse of `format_message`; what cannot be read is a `MalformedEvent`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, structs

from shared.model.errors import JSON_ERRORS, MalformedEvent
from shared.model.names import KINDS, ObjectName

T = TypeVar("T")
SOURCE_PREFIX = "//container.googleapis.com/"
OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""A Kubernetes name: a DNS subdomain of at most 253 characters."""
DATA_BYTES_MAX = 65_536
KINDS_PLURAL = {kind: f"{kind.lower()}s" for kind in KINDS}
"""The kinds of object that a message may name, with their plural in subjects."""


class EventType(StrEnum):
    """What a message hints at; the value is the CloudEvents type."""

    DEMAND = "tpuprovisioner.demand.v1"
    """Leader pods were first seen unschedulable, or a workload has quota and waits for a check."""
    WORKLOAD_OVER = "tpuprovisioner.workload-over.v1"
    """A workload ended, is suspended, lost its last pods, is deleted or needs fewer slices."""


class Event(Struct, frozen=True, kw_only=True):
    """One message: which object to look at, in which cluster, and why."""

    type: EventType
    cluster: str  # ``projects/P/locations/L/clusters/C``
    subject: ObjectName
    cause: str = ""
    """What was seen, in the words of the exporter: a second suspension has another time."""

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
    body = {"version": 1, **structs.asdict(subject), "cause": event.cause}
    attributes = {
        "ce-specversion": "1.0",
        "ce-id": event.id,
        "ce-type": str(event.type),
        "ce-source": SOURCE_PREFIX + event.cluster,
        "ce-subject": f"namespaces/{subject.namespace}/{KINDS_PLURAL[subject.kind]}/{subject.name}",
        "content-type": "application/json",
    }
    return Message(json.dumps(body, separators=(",", ":")).encode(), attributes)


def _matching(pattern: str) -> Meta:
    return Meta(pattern=rf"\A(?:{pattern})\Z")


_Name = Annotated[str, _matching(OBJECT_NAME.pattern)]
_CLUSTER = "projects/[a-z0-9.:-]+/locations/[a-z0-9-]+/clusters/[a-z0-9-]+"


class _Attributes(Struct, rename=lambda name: f"ce-{name}"):
    specversion: Literal["1.0"]
    type: EventType
    source: Annotated[str, _matching(SOURCE_PREFIX + _CLUSTER)]


class _Body(Struct):
    version: Literal[1]
    kind: Annotated[str, _matching("|".join(KINDS))]
    namespace: _Name
    name: _Name
    uid: Annotated[str, _matching("[A-Za-z0-9._-]{0,128}")] = ""
    cause: Annotated[str, Meta(max_length=128)] = ""


_BODY = msgspec.json.Decoder(_Body)
_LEARNT = msgspec.json.Decoder(_Attributes)  # two threads that learn it at once crash


def parse_message(data: bytes, attributes: Mapping[str, str]) -> Event:
    """Return the event that a message carries."""
    try:
        head = msgspec.convert(dict(attributes), _Attributes)
    except msgspec.ValidationError as error:
        raise MalformedEvent(str(error), field="attributes") from error
    body = decode(data, _BODY, "data", DATA_BYTES_MAX)
    name = ObjectName(kind=body.kind, namespace=body.namespace, name=body.name, uid=body.uid)
    cluster = head.source.removeprefix(SOURCE_PREFIX)
    event = Event(type=head.type, cluster=cluster, subject=name, cause=body.cause)
    # Leader pods of some kinds do not carry the UID of their workload.
    needs_uid = event.type != EventType.DEMAND or event.subject.kind == "Pod"
    if needs_uid and not event.subject.uid:
        raise MalformedEvent("missing", field="data.uid", value="''", valid="a UID")
    return event


def decode(data: bytes, decoder: msgspec.json.Decoder[T], field: str, bytes_max: int) -> T:
    """Return what JSON says that was sent to us; the error has the place and what is valid."""
    if len(data) > bytes_max:
        size, valid = f"{len(data)} bytes", f"at most {bytes_max}"
        raise MalformedEvent("too long", field=field, value=size, valid=valid)
    try:
        return decoder.decode(data)
    except JSON_ERRORS as error:
        shown = data[:80].decode("utf-8", "replace")
        raise MalformedEvent(str(error), field=field, value=shown) from error


ENTRY_BYTES_MAX = 1_000_000
"""Cloud Logging takes 256 KiB for each entry: https://cloud.google.com/logging/quotas."""
_RESOURCE = "gke_nodepool"  # assumes: audit-entry
_METHOD = re.compile(
    r"google\.container\.v1(?:alpha1|beta1)?\.ClusterManager\.(Create|Delete)NodePool"
)


class _Resource(Struct):
    type: str
    labels: dict[str, str]


class _Payload(Struct, frozen=True, rename="camel"):
    method_name: str = ""
    status: dict[str, Any] = {}  # assumes: audit-status


class _Entry(Struct, rename="camel"):
    resource: _Resource
    proto_payload: _Payload = _Payload()
    operation: dict[str, Any] = {}


_ENTRY = msgspec.json.Decoder(_Entry)


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
    entry = decode(data, _ENTRY, "entry", ENTRY_BYTES_MAX)
    method = _METHOD.fullmatch(entry.proto_payload.method_name)
    if (
        entry.resource.type != _RESOURCE
        or method is None
        or entry.operation.get("last") is not True
    ):
        return None
    project, location, cluster, pool = (
        entry.resource.labels.get(key, "")
        for key in ("project_id", "location", "cluster_name", "nodepool_name")
    )
    code = entry.proto_payload.status.get("code", 0)
    words = entry.proto_payload.status.get("message") or f"code {code}"
    return EndedOperation(
        cluster=f"projects/{project}/locations/{location}/clusters/{cluster}",
        pool=pool,
        created=method[1] == "Create" and code == 0,
        deleted=method[1] == "Delete",
        problem=str(words) if code else "",
    )
