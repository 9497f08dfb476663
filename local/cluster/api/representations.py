"""How a stored object is written into an answer: as itself, as metadata only, or as an event of the newer group.

The table representation is in `tables`. Negotiation follows the Accept header:
https://kubernetes.io/docs/reference/using-api/api-concepts/#alternate-representations-of-resources
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

from local.cluster.api.event_forms import from_core_event
from local.cluster.store.kinds import EVENT, Kind
from local.cluster.store.stored import Stored, encode

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]


class Form(Enum):
    """What the client wants objects to look like."""

    OBJECT = ""
    METADATA = "PartialObjectMetadata"
    TABLE = "Table"


class _MetadataOnly(msgspec.Struct):
    metadata: msgspec.Raw


_METADATA_HEAD = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'
_UNTYPED_GROUP_MARK = ".x-k8s.io"


def wanted_form(accept: str) -> Form:
    """Return the first form of an Accept header that this server knows; plain objects when there is none."""
    for part in accept.split(","):
        parameters = dict(item.strip().partition("=")[::2] for item in part.split(";")[1:])
        wanted = parameters.get("as", "").removesuffix("List")
        if wanted in {Form.METADATA.value, Form.TABLE.value}:
            return Form(wanted)
        media_type = part.split(";")[0].strip()
        if not wanted and media_type in {"application/json", "application/*", "*/*"}:
            return Form.OBJECT
    return Form.OBJECT


def metadata_only(stored: Stored) -> bytes:
    """Return a PartialObjectMetadata."""
    raw = msgspec.json.decode(stored.encoded, type=_MetadataOnly).metadata
    return _METADATA_HEAD + bytes(raw) + b"}"


def encoded(kind: Kind, stored: Stored, form: Form) -> bytes:
    """Return an object in a form other than a table, as the kind it was asked for by."""
    if form is Form.METADATA:
        return metadata_only(stored)
    if kind.stored_as == EVENT.storage:
        return encode(from_core_event(stored.body()))
    return stored.encoded


def encoded_list(kind: Kind, items: Iterable[Stored], form: Form, metadata: Json) -> bytes:
    """Return a list.

    Items of built-in kinds do not repeat their kind, as in the real server; custom resources do.
    """
    head = b""
    if form is Form.METADATA:
        list_kind, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
    else:
        list_kind, api_version = f"{kind.kind}List", kind.api_version
        if _UNTYPED_GROUP_MARK not in kind.group:
            head = f'{{"apiVersion":"{kind.api_version}","kind":"{kind.kind}",'.encode()
    parts = []
    for stored in items:
        item = encoded(kind, stored, form)
        parts.append(b"{" + item[len(head) :] if head and item.startswith(head) else item)
    opening = encode({"kind": list_kind, "apiVersion": api_version, "metadata": metadata})[:-1]
    return opening + b',"items":[' + b",".join(parts) + b"]}"
