"""Follows one kind of object: list, watch, resume after a break, list again when it must.

A `Watch` turns the bytes of one open watch into typed events, and its end into an error. A
`Follower` per kind, each in its own thread, opens one after the other. It stores no objects: it
passes each one to the memory of its kind. The order of list, watch and resume is that of kopf
(https://github.com/nolar/kopf, kopf/_cogs/clients/watching.py).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import msgspec
import urllib3

from exporter.health import Health, Metrics
from exporter.observed_objects import ObservedObjects
from exporter.publishing import WAIT_SECONDS, Closed, Pauses
from shared.edges import kubernetes
from shared.model import errors
from shared.model.messages import Event


class WatchEvent(kubernetes.Record):
    """One event of a watch: ``ADDED``, ``MODIFIED``, ``DELETED``, or ``BOOKMARK``.

    Under a selector, ``DELETED`` may only mean that the object no longer matches; its body is then
    the old one
    (https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes).
    """

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")  # of a bookmark one that has a version only


CHUNK_BYTES = 64 * 1024
LINE_BYTES_MAX = 16 * 1024 * 1024
"""etcd refuses objects over 1.5 MiB by default; ten times that is not an object any more
(https://etcd.io/docs/v3.5/dev-guide/limit/)."""
_EVENT = msgspec.json.Decoder(WatchEvent)
_STORED = kubernetes.decoder_of(kubernetes.Stored)


class Silence(errors.Unavailable):
    """The other side kept the connection open and said nothing for longer than was agreed."""


class Watch:
    """The events of one watch connection, in order, each with the version to resume from after it.

    Iterating raises `Expired` (the version is too old, over HTTP or in the stream), `Silence`
    (nothing came for the agreed time, not even a bookmark), `Unavailable` (the connection broke,
    perhaps in the middle of a line) or the error of any other refusal. `close` may be called from
    another thread and ends the iteration.
    """

    def __init__(self, path: str, response: urllib3.BaseHTTPResponse) -> None:
        """Read the open answer of a list's path."""
        self._what, self._response, self._closing = f"WATCH {path}", response, False

    def close(self) -> None:
        """End the watch at once, also while another thread waits for its next event."""
        self._closing = True
        try:
            self._response.shutdown()
        except (OSError, ValueError, RuntimeError):
            return  # It has ended by itself meanwhile.

    def __iter__(self) -> Iterator[tuple[WatchEvent, str]]:
        try:
            for line in self._lines():
                yield self._read(line)
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
            raise errors.Unavailable(f"{self._what}: connection lost: {error}") from error

    def _lines(self) -> Iterator[bytes]:
        pending = bytearray()
        for chunk in self._response.stream(CHUNK_BYTES):
            pending += chunk
            if b"\n" not in chunk:
                if len(pending) > LINE_BYTES_MAX:
                    raise errors.Unavailable(f"{self._what}: a line of over {LINE_BYTES_MAX} bytes")
                continue
            *lines, rest = bytes(pending).split(b"\n")
            pending = bytearray(rest)
            yield from (line for line in lines if line)
        if pending and not self._closing:
            raise errors.Unavailable(f"{self._what}: connection lost in the middle of an event")

    def _read(self, line: bytes) -> tuple[WatchEvent, str]:
        try:
            event = _EVENT.decode(line)
            version = _STORED.decode(event.object).metadata.resource_version
        except errors.JSON_ERRORS as error:
            problem = f"{self._what}: not JSON, or an event without metadata: {error}"
            raise kubernetes.Unreadable(problem) from error
        if event.type == "ERROR":
            what = f"{self._what} (in the stream)"
            raise kubernetes.classify_refusal(what, 0, bytes(event.object))
        return event, version


SILENCE_SECONDS = 90.0
"""Bookmarks come about once a minute; half as long again without one means that the connection is
dead."""
WATCH_SECONDS = 300
"""How long the server keeps one watch open; client-go asks for five to ten minutes."""
PAGE_SIZE = 30
"""Pods are up to 15 kB, so a page is about 0.4 MB and costs some 1 MB to read. After a start each
watch has one in memory, so with all kinds pages of 100 cost 13 MB more."""
ABSENT_SECONDS = 5.0  # how often a kind that the cluster does not know is looked for
SHORT_SECONDS = 1.0
"""A watch that ends sooner than this without a single event counts as a failure, so that it cannot
spin."""
BASE = "the chart infra/helm"
_REASONS: tuple[tuple[type[errors.ProvisionerError], str], ...] = (
    (kubernetes.Expired, "expired"),
    (Silence, "silence"),
    (errors.NotFound, "absent"),
    (errors.Denied, "denied"),
    (errors.Throttled, "throttled"),
    (errors.InvalidRequest, "refused"),
)
_logger = logging.getLogger(__name__)


class Follower:
    """Keeps the memory of one kind true, and reports the events that follow from them."""

    def __init__(
        self,
        api: kubernetes.KubernetesApi,
        observed: ObservedObjects[Any, Any],
        *,
        report: Callable[[Event, float, Callable[[], None]], None],
        metrics: Metrics,
        health: Health,
        pauses: Pauses,
        silence_seconds: float = SILENCE_SECONDS,
        absent_seconds: float = ABSENT_SECONDS,
    ) -> None:
        """Prepare; `run` does the work.

        `report` takes an event and when its cause arrived (monotonic seconds). It may block, so it
        gets what shows meanwhile that this thread lives.
        """
        self._api, self._observed = api, observed
        self._report, self._metrics, self._health = report, metrics, health
        self._silence_seconds, self._absent_seconds = silence_seconds, absent_seconds
        self._pauses = pauses
        self._stop = threading.Event()
        self._open: Watch | None = None
        self._version = ""  # the version to resume from; empty when only a listing can tell

    def run(self) -> None:
        """Follow the kind until `stop`; the body of one thread."""
        try:
            while not self._stop.is_set():
                self._follow_once()
        except Closed:
            return

    def stop(self) -> None:
        """End `run` soon, also while it waits for the next event."""
        self._stop.set()
        if (watch := self._open) is not None:
            watch.close()

    def _follow_once(self) -> None:
        """List if necessary, then watch until the watch ends; pause after a failure."""
        self._beat()
        try:
            if self._version and self._was_set_back():
                self._version = ""
            if not self._version:
                self._version = self._list()
            lasted_well = self._watch()
        except errors.ProvisionerError as error:
            if not self._stop.is_set():
                self._note_failure(error)
            return
        if self._stop.is_set():
            return
        self._count_restart("ended")
        if not lasted_well:
            self._stop.wait(self._pauses.next_seconds())

    def _was_set_back(self) -> bool:
        """Return whether the cluster went back to an older version, as after a restored backup.

        A watch from a version of the future is not refused: the server keeps it open and leaves
        out, without a word, all that happens until that version is reached once more
        (https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go).
        """
        # A list without `resourceVersion` is a consistent read, never older than what was seen
        # (https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list).
        newest = self._api.get(self._observed.path, kubernetes.Page, {"limit": "1"})
        shown = newest.metadata.resource_version
        if shown.isdecimal() and self._version.isdecimal() and int(shown) >= int(self._version):
            return False
        self._count_restart("rewound")
        facts = {"version_seen": self._version, "version_shown": shown}
        text = "the cluster went back to older data, listing again"
        _logger.warning(text, extra=facts | {"resource": self._observed.name})
        return True

    def _list(self) -> str:
        """Pass every object to the memory, then those that left; return the list's version."""
        started, version, objects = time.monotonic(), "", 0
        self._observed.begin_listing()
        path, params = self._observed.path, self._observed.params
        for page in self._api.list_pages(path, params, page_size=PAGE_SIZE):
            version = version or page.metadata.resource_version
            self._beat()
            objects += len(page.items)
            self._show_page(page.items)
        self._send_on(self._observed.finish_listing())
        name, seconds = self._observed.name, round(time.monotonic() - started, 3)
        self._health.note_listed(name)
        _logger.info("listed", extra={"resource": name, "objects": objects, "seconds": seconds})
        return version

    def _show_page(self, items: list[msgspec.Raw]) -> None:
        for item in items:
            self._show(item, self._observed.see)
        items.clear()  # each keeps the bytes of its page, and the next one is read now

    def _watch(self) -> bool:
        """Follow one watch to its end; tell whether it was a healthy one."""
        started, heard = time.monotonic(), False
        path, query = self._observed.path, {**self._observed.params, "watch": "1"}
        query |= {"allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        query["resourceVersion"] = self._version
        response = self._api.stream(path, query, silence_seconds=self._silence_seconds)
        self._open = watch = Watch(path, response)
        with closing(response):
            if self._stop.is_set():
                return True
            self._health.note_lack(self._observed.name, "")
            try:
                for event, version in watch:
                    heard = True
                    self._take(event)
                    # Only now: had `_take` been interrupted, the event would have to come again.
                    self._version = version or self._version
            finally:
                # However a good one ended, what failed before it has nothing to do with it.
                good = heard or time.monotonic() - started >= SHORT_SECONDS
                if good:
                    self._pauses.reset()
        return good

    def _take(self, event: WatchEvent) -> None:
        self._beat()
        if event.type in ("ADDED", "MODIFIED"):
            self._show(event.object, self._observed.see)
        elif event.type == "DELETED":
            self._show(event.object, self._observed.lose)
        elif event.type != "BOOKMARK":
            facts = {"resource": self._observed.name, "type": event.type}
            _logger.warning("watch event of an unknown type skipped", extra=facts)

    def _show(self, item: msgspec.Raw, look: Callable[[Any], Iterable[Event]]) -> None:
        """Pass one object to the memory.

        An object about which anything is raised is counted, logged and skipped: the others go on.
        """
        try:
            events = list(look(self._observed.read(item)))
        except Exception as error:  # noqa: BLE001 -- the net of this object
            self._metrics.unreadable.labels(self._observed.name).inc()
            self._observed.miss(kubernetes.report_unreadable(self._observed.path, item, error))
            return
        self._send_on(events)

    def _send_on(self, events: Iterable[Event]) -> None:
        arrived = time.monotonic()
        for event in events:
            self._report(event, arrived, self._beat)

    def _note_failure(self, error: errors.ProvisionerError) -> None:
        reason = next((word for kind, word in _REASONS if isinstance(error, kind)), "disconnected")
        self._count_restart(reason)
        if reason == "silence":
            # Asking once more from the same version is cheap, and the silence itself was the pause.
            return
        advised = getattr(error, "retry_after_seconds", None)
        pause = self._pauses.next_seconds(self._absent_seconds if reason == "absent" else advised)
        # After a single lost connection the watch resumes where it was. A second failure in a row
        # may mean that another API server with another history answers: only a listing is sure to
        # show the present. One that is throttled is there, and a listing would be its heaviest
        # work.
        if reason != "throttled" and (reason != "disconnected" or self._pauses.failures > 1):
            self._version = ""
        self._tell_lack(reason, error, pause)
        self._pause(pause)

    def _tell_lack(self, reason: str, error: errors.ProvisionerError, pause: float) -> None:
        """Show what is missing: an optional kind that is absent is normal."""
        observed = self._observed
        self._health.note_lack(observed.name, self._advise(reason, error))
        absent = reason == "absent" and observed.optional
        if absent or (reason == "denied" and observed.role):
            self._health.note_listed(observed.name)
        facts = {"resource": observed.name, "reason": reason, "problem": str(error)}
        log = _logger.debug if absent else _logger.warning
        log("watch interrupted", extra=facts | {"pause_seconds": round(pause, 2)})

    def _pause(self, seconds: float) -> None:
        """Wait, and show meanwhile that this thread lives: a server may advise ten minutes."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._beat()
            if self._stop.wait(min(left, WAIT_SECONDS)):
                return

    def _count_restart(self, reason: str) -> None:
        self._metrics.watch_restarts.labels(self._observed.name, reason).inc()

    def _beat(self) -> None:
        self._health.beat(self._observed.name)

    def _advise(self, reason: str, error: errors.ProvisionerError) -> str:
        path, role = self._observed.path, self._observed.role or BASE
        if reason == "absent":
            hint = f"is the {self._observed.operator} operator installed?"
            return f"{path} does not exist in the cluster: {hint}"
        if reason == "denied":
            return f"the exporter's account may not list or watch {path}: apply {role} ({error})"
        return str(error)
