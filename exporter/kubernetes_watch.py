"""One open watch: turns its bytes into typed events, and its end into an error.

It does not resume or list. The follower of a resource does that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec
import urllib3

from shared.edges.kubernetes import Record, Stored, Unreadable, classify_refusal, decoder_of, report_unreadable
from shared.model.errors import JSON_ERRORS, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from shared.edges.kubernetes import KubernetesApi

T = TypeVar("T")


class WatchLine(Record):
    """One line of a watch before its object is decoded."""

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


class WatchEvent(Record, Generic[T]):
    """One event of a watch: ``ADDED``, ``MODIFIED``, ``DELETED``, or ``BOOKMARK`` without object.

    Under a selector, ``DELETED`` may only mean that the object no longer matches; its body is then
    the old one
    (https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes).
    """

    type: str
    object: T | None
    resource_version: str
    """The version to resume from after this event."""


CHUNK_BYTES = 64 * 1024
LINE_BYTES_MAX = 16 * 1024 * 1024
"""etcd refuses objects over 1.5 MiB by default; ten times that is not an object any more
(https://etcd.io/docs/v3.5/dev-guide/limit/)."""
UNREADABLE = "UNREADABLE"
"""The type of an event whose object has not the expected shape; it is logged, and its version is
kept."""
_LINE = msgspec.json.Decoder(WatchLine)
_STORED = decoder_of(Stored)


def open_watch(
    api: KubernetesApi, path: str, params: Mapping[str, str], kind: type[T], *, silence_seconds: float = 90.0
) -> Watch[T]:
    """Open a watch from the ``resourceVersion`` in `params` and return its events.

    `Silence` follows if nothing comes for so long, not even a bookmark (about one a minute).
    """
    query = {"watch": "1", "allowWatchBookmarks": "true", **params}
    return Watch(f"WATCH {path}", api.stream(path, query, silence_seconds=silence_seconds), kind)


class Silence(Unavailable):
    """The other side kept the connection open and said nothing for longer than was agreed."""


class Watch(Generic[T]):
    """The events of one watch connection, in order, until the server ends it.

    Iterating raises `Expired` (the version is too old, over HTTP or in the stream), `Silence`
    (nothing came for the agreed time, not even a bookmark), `Unavailable` (the connection broke,
    perhaps in the middle of a line) or the error of any other refusal. `close` may be called from
    another thread and ends the iteration.
    """

    def __init__(self, what: str, response: urllib3.BaseHTTPResponse, kind: type[T]) -> None:
        self._what, self._response = what, response
        self._decoder = decoder_of(kind)
        self._closing = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._response.close()

    def close(self) -> None:
        """End the watch at once, also while another thread waits for its next event."""
        self._closing = True
        try:
            self._response.shutdown()
        except (OSError, ValueError, RuntimeError):
            return  # It has ended by itself meanwhile.

    def __iter__(self) -> Iterator[WatchEvent[T]]:
        try:
            for line in self._lines():
                yield self._event(line)
        except urllib3.exceptions.ReadTimeoutError as error:
            raise Silence(f"{self._what}: nothing was heard for the agreed time") from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
            # Closing from another thread takes the socket away under the reader; ssl then raises
            # ValueError or AttributeError. Without such a close these two are bugs and stay
            # visible.
            if self._closing:
                return
            if isinstance(error, ValueError | AttributeError):
                raise
            raise Unavailable(f"{self._what}: connection lost: {error}") from error

    def _lines(self) -> Iterator[bytes]:
        pending = bytearray()
        for chunk in self._response.stream(CHUNK_BYTES):
            pending += chunk
            if b"\n" not in chunk:
                if len(pending) > LINE_BYTES_MAX:
                    raise Unavailable(f"{self._what}: a line of over {LINE_BYTES_MAX} bytes")
                continue
            *lines, rest = bytes(pending).split(b"\n")
            pending = bytearray(rest)
            yield from (line for line in lines if line)
        if pending and not self._closing:
            raise Unavailable(f"{self._what}: connection lost in the middle of an event")

    def _event(self, line: bytes) -> WatchEvent[T]:
        try:
            envelope = _LINE.decode(line)
            if envelope.type in ("BOOKMARK", "ERROR"):
                return self._without_object(envelope)
            item = self._decoder.decode(envelope.object)
            version = _STORED.decode(envelope.object).metadata.resource_version
            return WatchEvent(type=envelope.type, object=item, resource_version=version)
        except JSON_ERRORS as error:
            return self._unreadable(line, error)

    def _without_object(self, envelope: WatchLine) -> WatchEvent[T]:
        if envelope.type == "ERROR":
            raise classify_refusal(f"{self._what} (in the stream)", 0, bytes(envelope.object))
        version = _STORED.decode(envelope.object).metadata.resource_version
        return WatchEvent(type="BOOKMARK", object=None, resource_version=version)

    def _unreadable(self, line: bytes, error: Exception) -> WatchEvent[T]:
        try:
            item = _LINE.decode(line).object
            version = _STORED.decode(item).metadata.resource_version
        except JSON_ERRORS:
            raise Unreadable(f"{self._what}: not JSON, or an event without metadata: {error}") from error
        report_unreadable(self._what, item, error)
        return WatchEvent(type=UNREADABLE, object=None, resource_version=version)
