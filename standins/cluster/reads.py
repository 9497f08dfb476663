"""Lists and watches: which objects a request is about, and the stream of their changes.

An object that leaves a selection is DELETED with its old body and the new resource version. An
object that enters it is ADDED. Grammar of label selectors:
https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#api
Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

import asyncio
import contextlib
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from standins.cluster.kinds import Json, Kind, selectable
from standins.cluster.kubectl import encode_table
from standins.cluster.refusals import ApiError
from standins.cluster.store import Change, Store, Stored, encode
from standins.kit.fitting import Requirement, meets

Selector = tuple[Requirement, ...]  # all conditions of a selector; the empty one matches everything

_KEY = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9.]*[A-Za-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?|"
_SET = re.compile(rf"^({_KEY})\s+(in|notin)\s*\(([^()]*)\)$")
_EQUAL = re.compile(rf"^({_KEY})\s*(==|=|!=)\s*({_VALUE})$")
_EXISTS = re.compile(rf"^(!?)\s*({_KEY})$")
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")
_FIELD = re.compile(r"^([^=!]+?)(==|!=|=)(.*)$")
_OPERATORS = {"in": "In", "=": "In", "==": "In", "notin": "NotIn", "!=": "NotIn"}
_BOOKMARK_SECONDS = 60.0  # after so long without an event a client is told where it is
_BACKLOG_MAX = 20_000
_SECONDS_MIN = 1_800


def parse_labels(text: str) -> Selector:
    """Return the conditions of a `labelSelector` query.

    Raises ApiError: 400, naming the part that cannot be read.
    """
    parts = [part.strip() for part in _COMMA_OUTSIDE_PARENTHESES.split(text)] if text.strip() else []
    return tuple(map(_read_part, parts))


def _read_part(part: str) -> Requirement:
    if found := _SET.match(part):
        return Requirement(found[1], _OPERATORS[found[2]], tuple(value.strip() for value in found[3].split(",")))
    if found := _EQUAL.match(part):
        return Requirement(found[1], _OPERATORS[found[2]], (found[3],))
    if found := _EXISTS.match(part):
        return Requirement(found[2], "DoesNotExist" if found[1] else "Exists")
    forms = "key=value, key!=value, key in (a,b), key notin (a,b), key, !key"
    raise ApiError(400, f'labelSelector: "{part}" cannot be read; valid: {forms}')


def parse_fields(text: str, selectable: Iterable[str]) -> Selector:
    """Return the conditions of a `fieldSelector` query.

    Raises ApiError: 400, for another form than `=`, `==`, `!=`, or a field that is not selectable.
    """
    requirements = []
    for part in filter(None, text.split(",")):
        found = _FIELD.match(part)
        if found is None:
            raise ApiError(400, f"invalid selector: '{text}'; can't understand '{part}'")
        if found[1] not in selectable:
            valid = ", ".join(sorted(selectable))
            raise ApiError(400, f'field label not supported: "{found[1]}"; supported: {valid}')
        requirements.append(Requirement(found[1], _OPERATORS[found[2]], (found[3],)))
    return tuple(requirements)


@dataclass(frozen=True)
class Selection:
    """Which objects of a kind a request is about."""

    kind: Kind
    namespace: str | None
    labels: Selector
    fields: Selector

    @classmethod
    def read(cls, kind: Kind, namespace: str | None, query: Mapping[str, str]) -> Self:
        """Return the selection of a request. Raises ApiError: 400, for one that cannot be read."""
        fields = parse_fields(query.get("fieldSelector", ""), selectable(kind))
        return cls(kind, namespace, parse_labels(query.get("labelSelector", "")), fields)

    def matches(self, stored: Stored) -> bool:
        """Return whether an object is selected."""
        if self.namespace is not None and stored.namespace != self.namespace:
            return False
        return meets(stored.labels, self.labels) and meets(stored.fields, self.fields)

    def find(self, store: Store) -> list[Stored]:
        """Return the selected objects, in order."""
        return [stored for stored in store.objects(self.kind, self.namespace) if self.matches(stored)]


def read_number(query: Mapping[str, str], name: str) -> int:
    """Return a whole number of the query, 0 when absent. Raises ApiError: 400, naming it."""
    text = query.get(name) or "0"
    if not text.isdigit():
        raise ApiError(400, f'{name}: Invalid value: "{text}": must be a whole number')
    return int(text)


def encode_list(kind: Kind, items: Iterable[Stored], version: str) -> bytes:
    """Return a list as bytes.

    Items of built-in kinds do not repeat their kind, as in the real server; custom resources do.
    """
    head = (
        b""
        if kind.group.endswith(".x-k8s.io")
        else encode({"apiVersion": kind.api_version, "kind": kind.kind})[:-1] + b","
    )
    parts = []
    for stored in items:
        item = stored.encoded
        parts.append(b"{" + item[len(head) :] if head and item.startswith(head) else item)
    metadata = {"resourceVersion": version}
    opening = encode({"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata})[:-1]
    return opening + b',"items":[' + b",".join(parts) + b"]}"


class WatchDropped(Exception):
    """Raised inside a stream that breaks off in the middle."""


class Watch:
    """One open watch. Raises ApiError: 400, naming the parameter that cannot be read."""

    def __init__(self, store: Store, selection: Selection, query: Mapping[str, str], *, as_table: bool) -> None:
        if "sendInitialEvents" in query:
            raise ApiError(400, "sendInitialEvents: the embedded cluster does not stream lists. List, then watch.")
        self._store = store
        self._selection = selection
        self._version = read_number(query, "resourceVersion")
        """0 begins with the objects that exist."""
        self._bookmarks = query.get("allowWatchBookmarks", "").lower() in {"true", "1"}
        self._seconds = read_number(query, "timeoutSeconds") or _SECONDS_MIN * (1 + random.random())
        self._as_table = as_table
        self._lines: list[bytes] = []
        self._woken = asyncio.Event()
        self._ended = False
        self._dropped = False

    def _begin(self) -> Callable[[], None]:
        """Queue what the client has missed, then subscribe, before anything else is written."""
        version, kind = self._version, self._selection.kind
        if not version:
            for stored in self._selection.find(self._store):
                self._emit("ADDED", stored)
        else:
            for change in self._store.changes_since(kind, version):
                self._see(change)
        return self._store.subscribe(self._see)

    def _see(self, change: Change) -> None:
        if change.kind is not self._selection.kind:
            return
        had = change.old is not None and self._selection.matches(change.old)
        if change.new is not None and self._selection.matches(change.new):
            self._emit("MODIFIED" if had else "ADDED", change.new)
        elif had:
            self._emit("DELETED", change.departed)

    def _emit(self, event: str, stored: Stored) -> None:
        body = encode_table(stored.kind, [stored], str(stored.version)) if self._as_table else stored.encoded
        self._lines.append(_line(event, body))
        if len(self._lines) > _BACKLOG_MAX and self._version:
            self.end()
        self._woken.set()

    def _emit_bookmark(self) -> None:
        kind, version = self._selection.kind, str(self._store.revision)
        metadata: Json = {"resourceVersion": version, "creationTimestamp": None}
        body = encode({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata})
        self._lines.append(_line("BOOKMARK", encode_table(kind, [], version) if self._as_table else body))

    def end(self, *, abruptly: bool = False) -> None:
        """End the stream after what is queued, or break it off."""
        self._ended = True
        self._dropped = abruptly
        self._woken.set()

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield event lines until the timeout, the end or a drop.

        Raises WatchDropped: when the connection is to break off.
        """
        deadline = time.monotonic() + self._seconds
        try:
            unsubscribe = self._begin()
        except ApiError as error:
            yield _line("ERROR", encode(error.status()))
            return
        try:
            while not self._ended and (left := deadline - time.monotonic()) > 0:
                if self._lines:
                    yield self._take()
                elif not await self._wait(min(left, _BOOKMARK_SECONDS)) and self._bookmarks:
                    self._emit_bookmark()
            if self._dropped:
                raise WatchDropped
            if self._lines:
                yield self._take()
        finally:
            unsubscribe()

    async def _wait(self, seconds: float) -> bool:
        """Return whether something came within these seconds."""
        self._woken.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        return self._woken.is_set()

    def _take(self) -> bytes:
        chunk = b"".join(self._lines)
        self._lines.clear()
        return chunk


def _line(event: str, body: bytes) -> bytes:
    return b'{"type":"' + event.encode() + b'","object":' + body + b"}\n"
