"""One cluster's live objects during one sweep, each of them read only once.

The check before a deletion does not use the reads of a sweep. Only the checks of the pools of one
batch share what they read of pools and owners, for some seconds. These seconds count as its age.
What is made of reads is made anew as soon as they differ, so it is as old as they are.
"""

from __future__ import annotations

import math
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from shared.core.errors import ProvisionerError
from shared.core.times import LOOK_SECONDS
from shared.engine.looks.side_by_side import CALLS_AT_ONCE, get_runner
from shared.engine.tell import note_unwritten

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.core.ports import Clock, Namespace, Notice, Ports

T = TypeVar("T")
_SHARED = frozenset(
    {"get_workload", "get_parent", "find_disk", "list_workload_pods", "find_pools_of_nodes", "list_pool_nodes"}
)


def share_list(key: str, read: Callable[[], T], ports: Ports, *, since: float = 0.0) -> T:
    """Return what is read for a key, after `since`; it serves the deliveries of some seconds."""
    return ports.lists.share(key, read, since=since) if ports.lists else read()


class SharedReads:
    """The port of one cluster: workloads, parents, disks, their pods and nodes are read once."""

    def __init__(self, cluster: str, ports: Ports, *, seconds: float = LOOK_SECONDS) -> None:
        self._live, self._ports, self._cluster = ports.clusters[cluster], ports, cluster
        self._share = RecentReads(ports.clock, seconds).share
        self._lock = threading.Lock()
        self._notices: dict[Notice, None] = {}
        self._made: dict[tuple[Callable[..., Any], str], tuple[Any, ...]] = {}

    def __getattr__(self, name: str) -> Any:
        """Return a method of the port; one of `_SHARED` returns what was read a moment ago."""
        method = getattr(self._live, name)
        if name not in _SHARED:
            return method

        def read(*given: Any, **named: Any) -> Any:
            of = [f"{each} {getattr(each, 'uid', '')}" for each in (*given, *named.values())]
            return self._share((name, *of), partial(method, *given, **named))

        return read

    def make_once(self, make: Callable[..., T], uid: str, *given: Any) -> T:
        """Return what a pure function makes of reads of a workload, made anew if these changed."""
        with self._lock:
            if (known := self._made.get((make, uid))) is None or known[0] != given:
                known = self._made[make, uid] = (given, make(*given))
        return cast("T", known[1])

    def get_namespace(self, name: str) -> Namespace | None:
        """Return a namespace, read for any delivery of this process some seconds ago at most."""
        read = partial(self._live.get_namespace, name)
        return share_list(f"namespace {self._cluster} {name}", read, self._ports)

    def write_notice(self, notice: Notice) -> None:
        """Keep an Event for `flush`; the same one again is written once."""
        with self._lock:
            self._notices[notice] = None

    def write_notices(self) -> None:
        """Write the Events that were kept, side by side; log those that could not be written."""
        with self._lock:
            notices, self._notices = list(self._notices), {}
        tasks = [partial(self._live.write_notice, notice) for notice in notices]
        # Two each: the Events of one slice, on its pod and its workload, are not worth a thread.
        at_once = min(CALLS_AT_ONCE, -(-len(tasks) // 2))
        done = get_runner(self._ports)(tasks, at_once=at_once, until=self._ports.until)
        for notice, each in zip(notices, done, strict=True):
            if isinstance(each, Exception):
                note_unwritten(notice, each)


class OneRead:
    """One read, made by the first who asks; the others wait for it and get its answer or error."""

    def __init__(
        self, read: Callable[[], object], clock: Clock, *, after: OneRead | None = None, apart: float = 0.0
    ) -> None:
        """Prepare; nothing is read yet, nor before `after` has ended, nor soon after it began."""
        self.begun_at = math.inf
        """Unix seconds; infinite until it begins."""
        self._read, self._clock, self._lock = read, clock, threading.Lock()
        self._after, self._apart = after, apart
        self._found: object = None
        self._error: ProvisionerError | None = None
        self._done = False

    def get(self) -> object:
        """Return what was read, or raise its error."""
        with self._lock:
            if not self._done:
                if self._after is not None:
                    with self._after._lock:  # noqa: SLF001 -- its own class
                        early = self._after.begun_at + self._apart - self._clock.now()
                        self._after = None
                    if 0 < early <= self._apart:
                        self._clock.pause(early)
                self.begun_at = self._clock.now()
                try:
                    self._found = self._read()
                except ProvisionerError as error:
                    self._error = error
                self._done = True
        if self._error is not None:
            raise self._error
        return self._found


class RecentReads:
    """What was read, by key, each kept for some seconds; threads may share it."""

    def __init__(self, clock: Clock, seconds: float, *, apart: float = 0.0) -> None:
        """Prepare; nothing is read yet. Reads of one key begin at least `apart` seconds apart."""
        self._clock, self._seconds, self._apart = clock, seconds, apart
        self._lock = threading.Lock()
        self._known: dict[str | tuple[str, ...], OneRead] = {}

    def share(self, key: str | tuple[str, ...], read: Callable[[], T], *, since: float = 0.0) -> T:
        """Return what was read for a key; who asks while it is being read waits for it.

        Only a read that began after `since`, in unix seconds, serves. The next one begins when the
        last one has ended, and serves all who have asked by then.
        """
        with self._lock:
            known = self._known.get(key)
            begun_at = known.begun_at if known else -math.inf  # before the clock, which goes on meanwhile
            age = self._clock.now() - begun_at if math.isfinite(begun_at) else 0.0
            if known is None or begun_at <= since or not 0 <= age <= self._seconds:
                known = self._known[key] = OneRead(read, self._clock, after=known, apart=self._apart)
        return cast("T", known.get())

    def forget(self) -> None:
        """Let everything be read again."""
        with self._lock:
            self._known.clear()
