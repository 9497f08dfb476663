"""Virtual time: the clock that the model reads, and what happens when.

All durations in the model are virtual seconds. Timestamps that callers see are wall-clock times, so
that ages computed by a caller stay true at any speed.
"""

import heapq
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

_MANUAL_START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


class Clock:
    """`speed` virtual seconds pass for each real second; at 0 it moves only by `advance`."""

    def __init__(self, speed: float = 0.0) -> None:
        self.speed = speed
        self._advanced, self._started = 0.0, time.monotonic()
        self._wall = time.time() if speed else _MANUAL_START

    def now(self) -> float:
        """Return virtual seconds since the start."""
        return self._advanced + (time.monotonic() - self._started) * self.speed

    def wall(self, at: float) -> float:
        """Return the Unix time, in seconds, at which virtual second `at` is (or was) reached."""
        return self._wall + at / (self.speed or 1.0)

    def advance(self, seconds: float) -> None:
        """Move a clock of speed 0 forward; raises ValueError for another, or a negative number."""
        if self.speed:
            raise ValueError("the clock runs by itself; start with --manual-clock to move it by hand")
        if seconds < 0:
            raise ValueError(f"seconds: {seconds} is negative; a clock only moves forward")
        self._advanced += seconds


def rfc3339(unix_seconds: float) -> str:
    """Return a timestamp as GKE writes it: UTC with nine digits of fraction."""
    moment = datetime.fromtimestamp(unix_seconds, tz=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


@dataclass(order=True)
class Entry:
    """One action at one virtual time; a cancelled entry is skipped."""

    at: float
    sequence: int
    action: Callable[[], None] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)


class Agenda:
    """Runs actions at their own virtual time.

    Chains of actions come out right however far the clock jumps.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[Entry] = []
        self._sequence = itertools.count()
        self._running_at: float | None = None

    @property
    def now(self) -> float:
        """Return the time of the action being run, else the clock's."""
        return self._clock.now() if self._running_at is None else self._running_at

    def after(self, seconds: float, action: Callable[[], None]) -> Entry:
        """Note `action` for `seconds` from now and return its entry, which can be cancelled."""
        entry = Entry(self.now + max(seconds, 0.0), next(self._sequence), action)
        heapq.heappush(self._heap, entry)
        return entry

    def run_due(self) -> None:
        """Run everything whose time has come, in order of time, then of noting."""
        if self._running_at is not None:
            return
        limit = self._clock.now()
        try:
            while self._heap and self._heap[0].at <= limit:
                entry = heapq.heappop(self._heap)
                if not entry.cancelled:
                    self._running_at = entry.at
                    entry.action()
        finally:
            self._running_at = None
