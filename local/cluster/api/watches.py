"""Watches: the stream of changes that one client sees through its selection.

An object that leaves a selection departs as DELETED with its old body and the new resource version; one that
enters it is ADDED. Source:
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from local.cluster.api.lists import Selection, read_number, unreadable_version
from local.cluster.api.representations import Form, encoded
from local.cluster.api.tables import TableWriter
from local.cluster.errors import ApiError, bad_request
from local.cluster.store.stored import encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from local.cluster.store.store import Store
    from local.cluster.store.stored import Change, Stored

Json = dict[str, Any]

BOOKMARK_SECONDS = 60.0
_BEFORE_TIMEOUT_SECONDS = 2.0
_MAX_BACKLOG = 20_000
_MIN_TIMEOUT_SECONDS = 1_800


class WatchDropped(Exception):
    """Raised inside a stream that is to break off in the middle."""


@dataclass(frozen=True)
class WatchOptions:
    """What a watch request asks for."""

    version: int
    from_now: bool
    initial_events: bool
    end_mark: bool
    bookmarks: bool
    timeout_seconds: float


def read_options(query: Mapping[str, str]) -> WatchOptions:
    """Return the options of a watch request.

    Raises:
        ApiError: 400, naming the parameter.
    """
    version = _read_version(query)
    streaming = query.get("sendInitialEvents")
    bookmarks = _flag(query, "allowWatchBookmarks")
    if streaming is not None and query.get("resourceVersionMatch") != "NotOlderThan":
        raise bad_request("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    wants_initial = _flag(query, "sendInitialEvents") if streaming is not None else version == 0
    timeout = read_number(query, "timeoutSeconds")
    return WatchOptions(
        version=version,
        from_now=streaming is not None and not wants_initial and version == 0,
        initial_events=wants_initial,
        end_mark=streaming is not None and wants_initial and bookmarks,
        bookmarks=bookmarks,
        timeout_seconds=timeout or _MIN_TIMEOUT_SECONDS * (1 + random.random()),
    )


def _read_version(query: Mapping[str, str]) -> int:
    text = query.get("resourceVersion") or "0"
    if not text.isdigit():
        # The real server's watch cache says this, and nobody makes a bad request of it.
        raise ApiError(500, "", unreadable_version(text))
    return int(text)


def _flag(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "false").lower()
    if text not in {"true", "false", "1", "0"}:
        raise bad_request(f'invalid value for {name}: "{text}"; valid: true, false')
    return text in {"true", "1"}


class Watch:
    """One open watch."""

    def __init__(self, store: Store, selection: Selection, options: WatchOptions, form: Form) -> None:
        self._store = store
        self._selection = selection
        self._options = options
        self._form = form
        self._table = TableWriter(selection.kind)
        self._lines: deque[bytes] = deque()
        self._woken = asyncio.Event()
        self._ended = False
        self._dropped = False

    def _begin(self) -> Callable[[], None]:
        """Queue what the client has missed, then follow; both before anything else can be written."""
        options, kind = self._options, self._selection.kind
        if options.initial_events:
            for stored in self._store.objects(kind, self._selection.namespace):
                if self._selection.matches(stored):
                    self._emit("ADDED", stored)
            if options.end_mark:
                self._emit_bookmark(initial_end=True)
        elif not options.from_now:
            for change in self._store.changes_since(kind, options.version):
                self._see(change)
        return self._store.subscribe(self._see)

    def _see(self, change: Change) -> None:
        if change.kind.storage != self._selection.kind.storage:
            return
        had = change.old is not None and self._selection.matches(change.old)
        if change.new is not None and self._selection.matches(change.new):
            self._emit("MODIFIED" if had else "ADDED", change.new)
        elif had:
            self._emit("DELETED", change.departed)

    def _emit(self, event: str, stored: Stored) -> None:
        kind = self._selection.kind
        body = self._table.rows([stored]) if self._form is Form.TABLE else encoded(kind, stored, self._form)
        self._lines.append(_line(event, body))
        if len(self._lines) > _MAX_BACKLOG and not self._options.initial_events:
            self.end()
        self._woken.set()

    def _emit_bookmark(self, *, initial_end: bool = False) -> None:
        kind = self._selection.kind
        metadata: Json = {"resourceVersion": str(self._store.revision), "creationTimestamp": None}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        body: Json = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        if self._form is Form.METADATA:
            body |= {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        elif self._form is Form.TABLE:
            body = self._table.bookmark(metadata)
        self._lines.append(_line("BOOKMARK", encode(body)))

    def end(self, *, abruptly: bool = False) -> None:
        """End the stream after what is queued, or break it off."""
        self._ended = True
        self._dropped = abruptly
        self._woken.set()

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield event lines until the timeout, the end or a drop.

        Raises:
            WatchDropped: when the connection is to break off.
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
    """Return when the next bookmark is due: after a minute, or two seconds before the end; then there is no other.

    Source: https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go
    (`nextBookmarkTime`).
    """
    due = min(now + BOOKMARK_SECONDS, deadline - _BEFORE_TIMEOUT_SECONDS)
    return due if due > now else float("inf")


def _line(event: str, body: bytes) -> bytes:
    return b'{"type":"' + event.encode() + b'","object":' + body + b"}\n"
