"""Lists and watches: which objects a request is about, and the stream of their changes.

An object that leaves a selection is DELETED with its old body and the new resource version. An
object that enters it is ADDED.
Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from standins.cluster.kinds import Json, Kind, selectable
from standins.cluster.kubectl import encode_table
from standins.cluster.refusals import ApiError, bad_request
from standins.cluster.selectors import Selector, parse_fields, parse_labels
from standins.cluster.store import Change, Store, Stored, encode
from standins.kit.fitting import meets

BOOKMARK_SECONDS = 60.0
_BEFORE_TIMEOUT_SECONDS = 2.0
_MAX_BACKLOG = 20_000
_MIN_TIMEOUT_SECONDS = 1_800


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


def read_number(query: Mapping[str, str], name: str) -> int:
    """Return a whole number of the query, 0 when absent. Raises ApiError: 400, naming it."""
    text = query.get(name) or "0"
    if not text.isdigit():
        raise bad_request(f'{name}: Invalid value: "{text}": must be a whole number')
    return int(text)


def encode_list(kind: Kind, items: Iterable[Stored], version: str) -> bytes:
    """Return a list as bytes.

    Items of built-in kinds do not repeat their kind, as in the real server; custom resources do.
    """
    head = b"" if kind.custom else encode({"apiVersion": kind.api_version, "kind": kind.kind})[:-1] + b","
    parts = []
    for stored in items:
        item = stored.encoded
        parts.append(b"{" + item[len(head) :] if head and item.startswith(head) else item)
    metadata = {"resourceVersion": version}
    opening = encode({"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata})[:-1]
    return opening + b',"items":[' + b",".join(parts) + b"]}"


class WatchDropped(Exception):
    """Raised inside a stream that breaks off in the middle."""


@dataclass(frozen=True)
class WatchOptions:
    """What a watch request asks for."""

    version: int
    """0 begins with the objects that exist."""
    bookmarks: bool
    timeout_seconds: float


def read_watch_options(query: Mapping[str, str]) -> WatchOptions:
    """Return the options of a watch request. Raises ApiError: 400, naming the parameter."""
    if "sendInitialEvents" in query:
        raise bad_request("sendInitialEvents: the embedded cluster does not stream lists. List, then watch.")
    return WatchOptions(
        version=read_number(query, "resourceVersion"),
        bookmarks=query.get("allowWatchBookmarks", "").lower() in {"true", "1"},
        timeout_seconds=read_number(query, "timeoutSeconds") or _MIN_TIMEOUT_SECONDS * (1 + random.random()),
    )


class Watch:
    """One open watch."""

    def __init__(self, store: Store, selection: Selection, options: WatchOptions, *, as_table: bool) -> None:
        self._store = store
        self._selection = selection
        self._options = options
        self._as_table = as_table
        self._lines: deque[bytes] = deque()
        self._woken = asyncio.Event()
        self._ended = False
        self._dropped = False

    def _begin(self) -> Callable[[], None]:
        """Queue what the client has missed, then subscribe, before anything else is written."""
        version, kind = self._options.version, self._selection.kind
        if not version:
            for stored in self._store.objects(kind, self._selection.namespace):
                if self._selection.matches(stored):
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
        if len(self._lines) > _MAX_BACKLOG and self._options.version:
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
        deadline = time.monotonic() + self._options.timeout_seconds
        next_bookmark = next_bookmark_time(time.monotonic(), deadline)
        try:
            unsubscribe = self._begin()
        except ApiError as error:
            yield _line("ERROR", encode(error.status()))
            return
        try:
            while not self._ended:
                if self._lines:
                    yield self._take()
                    continue
                now = time.monotonic()
                if now >= deadline:
                    break
                if now >= next_bookmark:
                    next_bookmark = next_bookmark_time(now, deadline)
                    if self._options.bookmarks:
                        self._emit_bookmark()
                        continue
                await self._wait(min(deadline, next_bookmark) - now)
            if self._dropped:
                raise WatchDropped
            if self._lines:
                yield self._take()
        finally:
            unsubscribe()

    async def _wait(self, seconds: float) -> None:
        self._woken.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()

    def _take(self) -> bytes:
        chunk = b"".join(self._lines)
        self._lines.clear()
        return chunk


def next_bookmark_time(now: float, deadline: float) -> float:
    """Return when the next bookmark is due: in a minute, or two seconds before the end.

    Source: https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go
    (`nextBookmarkTime`).
    """
    due = min(now + BOOKMARK_SECONDS, deadline - _BEFORE_TIMEOUT_SECONDS)
    return due if due > now else float("inf")


def _line(event: str, body: bytes) -> bytes:
    return b'{"type":"' + event.encode() + b'","object":' + body + b"}\n"
