"""Runs tasks side by side in threads, as `shared.model.ports.SideBySide`."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, TypeVar

from shared.edges.clock import SYSTEM_CLOCK
from shared.model.errors import OutOfTime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shared.model.times import Clock

T = TypeVar("T")
CONNECTIONS_MAX = 256
"""Kept open at most to one server: an instance of a function serves 16 requests, each with 16 calls
side by side, and the exporter has two watches per kind of workload."""


class Threads:
    """A few threads for each call, so that a call inside a task never waits for a free thread."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock

    def __call__(
        self, tasks: Sequence[Callable[[], T]], *, at_once: int, until: float
    ) -> list[T | Exception]:
        """Return what each task returned or raised, in the order of the tasks.

        A task that has not begun at `until` never begins. One that runs is left to itself; its
        thread does not keep the process alive. If only one may run at a time, they run in the
        caller's thread, each with its own time-out, as direct calls do.
        """
        waiting = deque(enumerate(tasks))
        done: dict[int, T | Exception] = {}

        def work() -> None:
            while self._clock.now() < until:
                try:
                    place, task = waiting.popleft()
                except IndexError:
                    return
                try:
                    done[place] = task()
                except Exception as error:  # noqa: BLE001 -- the caller gets every error
                    done[place] = error

        if min(at_once, len(tasks)) == 1:
            work()
        threads = [
            threading.Thread(target=work, daemon=True) for _ in range(min(at_once, len(waiting)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(min(max(0.0, until - self._clock.now()), threading.TIMEOUT_MAX))
        return [
            done.get(place, OutOfTime("the time for this work is over; a later run does it"))
            for place in range(len(tasks))
        ]
