"""The object store: current objects, a bounded history, subscribers. No I/O, clock or validation.

One counter numbers the writes of all kinds, as in etcd. History is kept per kind, so that a kind
with many writes does not shorten the history of the others.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable

from standins.cluster.store.errors import expired
from standins.cluster.store.kinds import Kind
from standins.cluster.store.stored import Change, ChangeType, Json, Stored

Key = tuple[str, str]
DEFAULT_HISTORY = 10_000
_AFTER_EVERY_NAME = "\U0010ffff"


class Shelf:
    """All objects of one kind, in the order of namespace and name, with their recent history."""

    def __init__(self, history: int) -> None:
        self.objects: dict[Key, Stored] = {}
        self.history: deque[Change] = deque(maxlen=history)
        self.compacted = 0
        self._sorted: list[Key] | None = None

    def remember(self, change: Change) -> None:
        """Add a change to the history, forgetting the oldest one when the window is full."""
        if len(self.history) == self.history.maxlen:
            self.compacted = self.history[0].version
        self.history.append(change)
        if change.type != "MODIFIED":
            self._sorted = None

    def keys(self, namespace: str | None = None) -> list[Key]:
        """Return the keys in order, of one namespace or of all."""
        if self._sorted is None:
            self._sorted = sorted(self.objects)
        if namespace is None:
            return self._sorted
        first = bisect_left(self._sorted, (namespace, ""))
        last = bisect_right(self._sorted, (namespace, _AFTER_EVERY_NAME))
        return self._sorted[first:last]

    def since(self, version: int) -> list[Change]:
        """Return the changes after a version, oldest first."""
        found: list[Change] = []
        for change in reversed(self.history):
            if change.version <= version:
                break
            found.append(change)
        found.reverse()
        return found


class Store:
    """Every object of the cluster."""

    def __init__(self, *, history: int = DEFAULT_HISTORY) -> None:
        self.revision = 1
        self._history = history
        self._compacted = 0
        self._shelves: dict[str, Shelf] = {}
        self._by_uid: dict[str, Stored] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._subscribers: list[Callable[[Change], None]] = []

    def _shelf(self, kind: Kind) -> Shelf:
        shelf = self._shelves.get(kind.resource)
        if shelf is None:
            shelf = self._shelves[kind.resource] = Shelf(self._history)
            shelf.compacted = self._compacted
        return shelf

    def subscribe(self, subscriber: Callable[[Change], None]) -> Callable[[], None]:
        """Call the subscriber at every later change; returns what ends that."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def get(self, kind: Kind, namespace: str, name: str) -> Stored | None:
        """Return the object of that name, or None."""
        return self._shelf(kind).objects.get((namespace, name))

    def by_uid(self, uid: str) -> Stored | None:
        """Return the object with that UID, or None when it is gone."""
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> list[Stored]:
        """Return the objects that name this UID among their owners."""
        return [self._by_uid[dependent] for dependent in self._dependents.get(uid, ())]

    def objects(self, kind: Kind, namespace: str | None = None) -> list[Stored]:
        """Return the objects of a kind in order of namespace and name."""
        shelf = self._shelf(kind)
        return [shelf.objects[key] for key in shelf.keys(namespace)]

    def objects_at(self, kind: Kind, version: int) -> list[Stored]:
        """Return the objects of a kind as they were at a version, in order.

        Raises ApiError: 410, when the history does not reach back that far.
        """
        state = dict(self._shelf(kind).objects)
        for change in reversed(self.changes_since(kind, version)):
            if change.old is not None:
                state[change.old.key] = change.old
            else:
                state.pop(change.subject.key, None)
        return [state[key] for key in sorted(state)]

    def changes_since(self, kind: Kind, version: int) -> list[Change]:
        """Return the changes of a kind after a version, oldest first.

        Raises ApiError: 410, when the history does not reach back that far.
        """
        shelf = self._shelf(kind)
        if version < shelf.compacted:
            raise expired(f"too old resource version: {version} ({shelf.compacted})")
        return shelf.since(version)

    def compact(self) -> int:
        """Forget all history and return its new start; older versions answer 410 from now on."""
        self._compacted = self.revision
        for shelf in self._shelves.values():
            shelf.history.clear()
            shelf.compacted = self.revision
        return self.revision

    def put(self, kind: Kind, body: Json) -> Stored:
        """Store an object under the next resource version; the body belongs to the store then."""
        self.revision += 1
        new = Stored(kind, body, self.revision)
        shelf = self._shelf(kind)
        old = shelf.objects.get(new.key)
        shelf.objects[new.key] = new
        self._index(new, old)
        self._publish(shelf, "MODIFIED" if old else "ADDED", kind, new=new, old=old)
        return new

    def remove(self, stored: Stored) -> Change:
        """Take an object out, under the next resource version."""
        self.revision += 1
        shelf = self._shelf(stored.kind)
        old = shelf.objects.pop(stored.key)
        self._index(None, old)
        return self._publish(shelf, "DELETED", stored.kind, new=None, old=old)

    def _index(self, new: Stored | None, old: Stored | None) -> None:
        if old is not None and (new is None or old.owner_uids != new.owner_uids):
            for owner in old.owner_uids:
                dependents = self._dependents[owner]
                dependents.pop(old.uid, None)
                if not dependents:
                    del self._dependents[owner]
        if old is not None and new is None:
            del self._by_uid[old.uid]
        if new is not None:
            self._by_uid[new.uid] = new
            for owner in new.owner_uids:
                self._dependents.setdefault(owner, {})[new.uid] = None

    def _publish(
        self, shelf: Shelf, change_type: ChangeType, kind: Kind, *, new: Stored | None, old: Stored | None
    ) -> Change:
        change = Change(change_type, kind, self.revision, new, old)
        shelf.remember(change)
        for subscriber in tuple(self._subscribers):
            subscriber(change)
        return change
