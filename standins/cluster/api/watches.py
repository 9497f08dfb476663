"""Watches: the stream of changes that one client sees through its selection.

An object that leaves a selection is DELETED with its old body and the new resource version. An
object that enters it is ADDED.
Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from standins.cluster.api.lists import Selection, read_number
from standins.cluster.api.tables import table
from standins.cluster.store.errors import ApiError, bad_request
from standins.cluster.store.object_store import Store
from standins.cluster.store.stored import Change, Stored, encode

Json = dict[str, Any]

BOOKMARK_SECONDS = 60.0
_BEFORE_TIMEOUT_SECONDS = 2.0
_MAX_BACKLOG = 20_000
_MIN_TIMEOUT_SECONDS = 1_800


class WatchDropped(Exception):
    """Raised inside a stream that breaks off in the middle."""


@dataclass(frozen=True)
class WatchOptions:
    """What a watch request asks for."""

    version: int
    """0 begins with the objects that exist."""
    bookmarks: bool
    timeout_seconds: float


def read_options(query: Mapping[str, str]) -> WatchOptions:
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
        body = table(self._selection.kind, [stored], {}) if self._as_table else stored.encoded
        self._lines.append(_line(event, body))
        if len(self._lines) > _MAX_BACKLOG and self._options.version:
            self.end()
        self._woken.set()

    def _emit_bookmark(self) -> None:
        kind = self._selection.kind
        metadata: Json = {"resourceVersion": str(self._store.revision), "creationTimestamp": None}
        body = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        self._lines.append(_line("BOOKMARK", table(kind, [], metadata) if self._as_table else encode(body)))

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
