"""Virtual time: the clock that the model reads. All durations in the model are virtual seconds.

`ScaledClock` follows the machine's clock, `speed` virtual seconds for each real one; `ManualClock`
stands still until it is told. Timestamps that callers see are wall-clock times, so that ages
computed by a caller stay true at any speed.
"""

import time
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
