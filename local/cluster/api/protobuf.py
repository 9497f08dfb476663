"""The little of Kubernetes' protobuf encoding that some kubectl commands insist on for writing.

`kubectl create namespace NAME` and `create serviceaccount` send protobuf without asking. Only metadata (name,
generateName, namespace, labels, annotations) of such kinds is read; every other kind in protobuf is refused, as it
would lose fields. Source of numbers: https://github.com/kubernetes/apimachinery (pkg/runtime/generated.proto,
pkg/apis/meta/v1/generated.proto).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from local.cluster.errors import ApiError, bad_request

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_KINDS = {"Namespace", "ServiceAccount", "DeleteOptions"}
_TYPE_META, _RAW = 1, 2
_API_VERSION, _KIND = 1, 2
_TEXT_FIELDS = {1: "name", 2: "generateName", 3: "namespace"}
_MAP_FIELDS = {11: "labels", 12: "annotations"}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_CONTINUES = 0x80


def read_protobuf(body: bytes) -> Json:
    """Return the object of a protobuf body, with its metadata only.

    Raises:
        ApiError: 415, for a kind that cannot be read this way; 400, for bytes that are not protobuf.
    """
    if not body.startswith(_MAGIC):
        raise bad_request("the body is not Kubernetes protobuf")
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        type_meta = dict(_fields(envelope.get(_TYPE_META, b"")))
        kind = type_meta.get(_KIND, b"").decode()
        if kind not in _KINDS:
            message = (
                f"the body of the request was in an unknown format ({MEDIA_TYPE} of kind {kind}) - "
                "accepted media types include: application/json, application/yaml"
            )
            raise ApiError(415, "UnsupportedMediaType", message, {})
        raw = dict(_fields(envelope.get(_RAW, b"")))
        metadata = _metadata(raw.get(1, b"")) if kind != "DeleteOptions" else {}
    except (IndexError, UnicodeDecodeError, ValueError) as error:
        raise bad_request(f"the body is not Kubernetes protobuf: {error}") from error
    return {"apiVersion": type_meta.get(_API_VERSION, b"").decode(), "kind": kind, "metadata": metadata}


def _metadata(message: bytes) -> Json:
    metadata: Json = {}
    for number, value in _fields(message):
        if number in _TEXT_FIELDS and value:
            metadata[_TEXT_FIELDS[number]] = value.decode()
        elif number in _MAP_FIELDS:
            entry = dict(_fields(value))
            metadata.setdefault(_MAP_FIELDS[number], {})[entry[1].decode()] = entry.get(2, b"").decode()
    return metadata


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the length-delimited fields of a message; numbers are passed over."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _BYTES:
            length, place = _varint(message, place)
            yield number, message[place : place + length]
            place += length
        elif wire_type == _VARINT:
            _, place = _varint(message, place)
        elif wire_type in {_FIXED64, _FIXED32}:
            place += 8 if wire_type == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire_type} is not known")


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & ~_CONTINUES) << shift
        shift += 7
        if not byte & _CONTINUES:
            return value, place
