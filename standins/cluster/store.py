"""The object store: current objects, a bounded history, subscribers. No I/O, clock or validation.

One counter numbers the writes of all kinds, as in etcd. History is kept per kind, so that a kind
with many writes does not shorten the history of the others.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from standins.cluster.kinds import KINDS, Json, Kind, field_values
from standins.cluster.refusals import ApiError

Key = tuple[str, str]
_HISTORY = 10_000  # changes kept per kind for watches

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(dict[str, Any])


def encode(body: Any) -> bytes:
    """Return a JSON value as bytes."""
    return _encoder.encode(body)


class Stored:
    """One object as it was at one resource version; it never changes.

    The body is kept as JSON bytes: lists and watches join bytes without copying, and a caller that
    changes a body gets a fresh one.
    """

    def __init__(self, kind: Kind, body: Json, version: int) -> None:
        metadata = body["metadata"]
        metadata["resourceVersion"] = str(version)
        self.kind = kind
        self.version = version
        self.namespace: str = metadata.get("namespace", "")
        self.name: str = metadata["name"]
        self.key: Key = (self.namespace, self.name)
        self.uid: str = metadata["uid"]
        self.labels: dict[str, str] = metadata.get("labels", {})
        self.owner_uids: tuple[str, ...] = tuple(owner["uid"] for owner in metadata.get("ownerReferences", ()))
        self.going = "deletionTimestamp" in metadata
        """Whether it is being deleted."""
        self.fields = field_values(kind, body)
        self.encoded = encode(body)

    @cached_property
    def json(self) -> Json:
        """Return the object, the same one every time: it is for reading only."""
        return self.body()

    def body(self) -> Json:
        """Return a fresh copy of the object, the caller's to change."""
        return _decoder.decode(self.encoded)

    def as_controller(self) -> Json:
        """Return the reference by which children name this object as their controller."""
        kind = {"apiVersion": self.kind.api_version, "kind": self.kind.kind}
        return kind | {"name": self.name, "uid": self.uid, "controller": True, "blockOwnerDeletion": True}


@dataclass(frozen=True)
class Change:
    """One write: what was there before, what is there now, and the resource version it made."""

    kind: Kind
    version: int
    new: Stored | None
    old: Stored | None
    subject: Stored  # the object that changed: its new state, or the last one before its deletion

    @cached_property
    def departed(self) -> Stored:
        """Return the last state with this change's version, as a watcher sees an object leave."""
        return Stored(self.kind, (self.old or self.subject).body(), self.version)


@dataclass
class _Shelf:
    """All objects of one kind, with their recent history."""

    objects: dict[Key, Stored] = field(default_factory=dict)
    history: deque[Change] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    compacted: int = 0  # the version of the last change that the history has forgotten


class Store:
    """Every object of the cluster."""

    def __init__(self) -> None:
        self.revision = 1
        self._shelves: dict[Kind, _Shelf] = {kind: _Shelf() for kind in KINDS}
        self._by_uid: dict[str, Stored] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._subscribers: list[Callable[[Change], None]] = []

    def subscribe(self, subscriber: Callable[[Change], None]) -> Callable[[], None]:
        """Call the subscriber at every later change; returns what ends that."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def get(self, kind: Kind, namespace: str, name: str) -> Stored | None:
        """Return the object of that name, or None."""
        return self._shelves[kind].objects.get((namespace, name))

    def by_uid(self, uid: str) -> Stored | None:
        """Return the object with that UID, or None when it is gone."""
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> list[Stored]:
        """Return the objects that name this UID among their owners."""
        return [self._by_uid[dependent] for dependent in self._dependents.get(uid, ())]

    def objects(self, kind: Kind, namespace: str | None = None) -> list[Stored]:
        """Return the objects of a kind in order of namespace and name."""
        objects = self._shelves[kind].objects
        return [objects[key] for key in sorted(objects) if namespace in (None, key[0])]

    def changes_since(self, kind: Kind, version: int) -> list[Change]:
        """Return the changes of a kind after a version, oldest first.

        Raises ApiError: 410, when the history does not reach back that far.
        """
        shelf = self._shelves[kind]
        if version < shelf.compacted:
            raise ApiError(410, f"too old resource version: {version} ({shelf.compacted})")
        return [change for change in shelf.history if change.version > version]

    def put(self, kind: Kind, body: Json) -> Stored:
        """Store an object under the next resource version; the body belongs to the store then."""
        self.revision += 1
        new = Stored(kind, body, self.revision)
        shelf = self._shelves[kind]
        old = shelf.objects.get(new.key)
        shelf.objects[new.key] = new
        self._index(new, old)
        self._publish(Change(kind, self.revision, new, old, new))
        return new

    def remove(self, stored: Stored) -> None:
        """Take an object out, under the next resource version."""
        self.revision += 1
        old = self._shelves[stored.kind].objects.pop(stored.key)
        self._index(None, old)
        self._publish(Change(stored.kind, self.revision, None, old, old))

    def _index(self, new: Stored | None, old: Stored | None) -> None:
        if old is not None and (new is None or old.owner_uids != new.owner_uids):
            for owner in old.owner_uids:
                dependents = self._dependents[owner]
                dependents.pop(old.uid, None)
                if not dependents:
                    del self._dependents[owner]
        if new is not None:
            self._by_uid[new.uid] = new
            for owner in new.owner_uids:
                self._dependents.setdefault(owner, {})[new.uid] = None
        elif old is not None:
            del self._by_uid[old.uid]

    def _publish(self, change: Change) -> None:
        shelf = self._shelves[change.kind]
        if len(shelf.history) == _HISTORY:
            shelf.compacted = shelf.history[0].version
        shelf.history.append(change)
        for subscriber in tuple(self._subscribers):
            subscriber(change)
