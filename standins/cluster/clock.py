"""Time of the embedded cluster: timestamps are real, durations are virtual.

Timestamps in objects are real, because clients compare them with their own clocks. Durations such
as a TTL, a grace or a back-off are virtual seconds: they are divided by the speed.
"""

import time
from datetime import UTC, datetime, timedelta


class Clock:
    """The time of a running cluster; `speed` virtual seconds pass per real second."""

    def __init__(self, speed: float = 1.0) -> None:
        if speed <= 0:
            raise ValueError(
                f"speed: {speed} is not valid; it must be more than 0 virtual seconds per real second"
            )
        self.speed = speed

    def monotonic(self) -> float:
        """Return real seconds on a clock that never goes back."""
        return time.monotonic()

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""
        return datetime.now(UTC)

    def real_seconds(self, virtual_seconds: float) -> float:
        """Return how many real seconds the given virtual seconds take."""
        return virtual_seconds / self.speed

    def timestamp(self, *, after_seconds: float = 0) -> str:
        """Return an RFC 3339 stamp with whole seconds, as `metav1.Time` is written."""
        return (self.now() + timedelta(seconds=after_seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def seconds_since(self, timestamp: str | None) -> float:
        """Return the virtual seconds since an RFC 3339 stamp; 0 when there is none.

        Stamps have whole seconds, so the answer is up to one real second too large.
        """
        if timestamp is None:
            return 0.0
        return (self.now() - datetime.fromisoformat(timestamp)).total_seconds() * self.speed


class ManualClock(Clock):
    """A clock that only moves when told to; one virtual second is one second of it."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        super().__init__(1.0)
        self._start = start
        self._elapsed_seconds = 0.0

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self._elapsed_seconds += seconds

    def monotonic(self) -> float:
        """Return the seconds this clock has been moved so far."""
        return self._elapsed_seconds

    def now(self) -> datetime:
        """Return the start plus what the clock has been moved."""
        return self._start + timedelta(seconds=self._elapsed_seconds)
