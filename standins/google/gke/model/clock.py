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
from typing import Protocol


class Clock(Protocol):
    """What the model needs to know about time."""

    def now(self) -> float:
        """Return virtual seconds since the start."""

    def wall(self, at: float) -> float:
        """Return the Unix time, in seconds, at which virtual second `at` is (or was) reached."""


class ManualClock:
    """A clock that moves only when told; begins at 2026-01-01T00:00:00Z."""

    def __init__(self, start: float = 1_767_225_600.0) -> None:
        self._start = start
        self._now = 0.0

    def now(self) -> float:
        """Return virtual seconds since the start."""
        return self._now

    def wall(self, at: float) -> float:
        """Return the Unix time of virtual second `at`."""
        return self._start + at

    def advance(self, seconds: float) -> None:
        """Move forward by `seconds`; raises ValueError when negative."""
        if seconds < 0:
            raise ValueError(f"seconds: {seconds} is negative; a clock only moves forward")
        self._now += seconds


class ScaledClock:
    """The machine's clock, `speed` virtual seconds for each real second."""

    def __init__(self, speed: float = 1.0) -> None:
        if speed <= 0:
            raise ValueError(f"speed: {speed} is not above 0")
        self.speed = speed
        self._started = time.monotonic()
        self._wall = time.time()

    def now(self) -> float:
        """Return virtual seconds since the start."""
        return (time.monotonic() - self._started) * self.speed

    def wall(self, at: float) -> float:
        """Return the Unix time at which virtual second `at` falls."""
        return self._wall + at / self.speed


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
