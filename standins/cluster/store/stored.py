"""One stored version of one object, and one change of the store.

The body is kept as JSON bytes: lists and watches join bytes without copying, and a caller that
changes a body gets a fresh one. A `Stored` never changes.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar

import msgspec

from standins.cluster.store.kinds import Kind, field_values

Json = dict[str, Any]
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
ViewT = TypeVar("ViewT")

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(dict[str, Any])


def encode(body: Any) -> bytes:
    """Return a JSON value as bytes."""
    return _encoder.encode(body)


class Stored:
    """An object as it was at one resource version."""

    def __init__(self, kind: Kind, body: Json, version: int) -> None:
        metadata = body["metadata"]
        metadata["resourceVersion"] = str(version)
        self.kind = kind
        self.version = version
        self.namespace: str = metadata.get("namespace", "")
        self.name: str = metadata["name"]
        self.uid: str = metadata["uid"]
        self.labels: dict[str, str] = metadata.get("labels", {})
        self.owner_uids: tuple[str, ...] = tuple(owner["uid"] for owner in metadata.get("ownerReferences", ()))
        self.fields = field_values(kind, body)
        self.encoded = encode(body)
        self._views: dict[type, Any] = {}

    @property
    def key(self) -> tuple[str, str]:
        """Return namespace and name."""
        return (self.namespace, self.name)

    def as_controller(self) -> Json:
        """Return the reference by which children name this object as their controller."""
        kind = {"apiVersion": self.kind.api_version, "kind": self.kind.kind}
        return kind | {"name": self.name, "uid": self.uid, "controller": True, "blockOwnerDeletion": True}

    def body(self) -> Json:
        """Return a fresh copy of the object, the caller's to change."""
        return _decoder.decode(self.encoded)

    def view(self, shape: type[ViewT]) -> ViewT:
        """Return the object as the given msgspec shape, the same one every time."""
        found = self._views.get(shape)
        if found is None:
            found = self._views[shape] = msgspec.json.decode(self.encoded, type=shape)
        return found


@dataclass(frozen=True)
class Change:
    """One write: what was there before, what is there now, and the resource version it made."""

    type: ChangeType
    kind: Kind
    version: int
    new: Stored | None
    old: Stored | None

    @property
    def subject(self) -> Stored:
        """Return the object that changed: its new state, or the last one before its deletion."""
        found = self.new or self.old
        if found is None:
            raise ValueError("a change has a new or an old state")
        return found

    @cached_property
    def departed(self) -> Stored:
        """Return the old state with this change's version, as a watcher sees an object leave."""
        if self.old is None:
            raise ValueError("only a change with an old state can make an object depart")
        return Stored(self.kind, self.old.body(), self.version)
