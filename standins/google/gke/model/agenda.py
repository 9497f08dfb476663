"""What will happen when: a heap of actions at virtual times, run in order.

Knows nothing about GKE.
"""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from standins.google.gke.model.clock import Clock


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

    def next_at(self) -> float | None:
        """Return the virtual time of the next action, None when there is none."""
        while self._heap and self._heap[0].cancelled:
            heapq.heappop(self._heap)
        return self._heap[0].at if self._heap else None
