"""Runs tasks side by side, bounds how many deliveries work at one time, and lets one work on a key.

A thread waits for nothing but its call: a key that is under way is marked, and the thread that
works on it looks once more.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from shared.model.errors import OutOfTime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
DELIVERIES_MAX = 16
CALLS_AT_ONCE = 16


@dataclass(slots=True)
class Crew:
    """What the threads of one process share."""

    threads: bool = True
    """Tests and simulations run one task after the other."""
    _marked: dict[object, bool] = field(default_factory=dict)
    """Keys under way, and whether another delivery came for one of them."""
    _working: dict[str, int] = field(default_factory=dict)
    """By cluster, how many deliveries work."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, key: object) -> bool:
        """Return whether the caller may work on a key; if not, the one who does looks once more."""
        with self._lock:
            if key in self._marked:
                self._marked[key] = True
                return False
            self._marked[key] = False
            return True

    def goes_on(self, key: object) -> bool:
        """Return whether a key must be looked at once more; if not, its work has ended."""
        with self._lock:
            if self._marked.get(key):
                self._marked[key] = False
                return True
            self._marked.pop(key, None)
            return False

    def end(self, key: object) -> None:
        """Leave a key, after an error."""
        with self._lock:
            self._marked.pop(key, None)

    def enter(self, cluster: str, *, clusters: int) -> bool:
        """Return whether one more delivery may work; one cluster of several has half of them."""
        with self._lock:
            mine, all_of_them = self._working.get(cluster, 0), sum(self._working.values())
            most = DELIVERIES_MAX if clusters == 1 else DELIVERIES_MAX // 2
            if all_of_them >= DELIVERIES_MAX or mine >= most:
                return False
            self._working[cluster] = mine + 1
            return True

    def leave(self, cluster: str) -> None:
        """End a delivery that was let in."""
        with self._lock:
            self._working[cluster] -= 1

    def run(
        self, tasks: Sequence[Callable[[], T]], *, seconds: float, at_once: int = CALLS_AT_ONCE
    ) -> list[T | Exception]:
        """Return what each task returned or raised, in their order; none begins after `seconds`."""
        if not self.threads or len(tasks) <= 1:
            return [_try(task) for task in tasks]
        results: list[T | Exception] = [
            OutOfTime("the time for this work is over; a later run does it")
        ] * len(tasks)

        def do(place: int) -> None:
            results[place] = _try(tasks[place])

        pool = ThreadPoolExecutor(max_workers=min(at_once, len(tasks)))
        futures = [pool.submit(do, place) for place in range(len(tasks))]
        wait(futures, timeout=max(0.0, seconds))
        pool.shutdown(wait=False, cancel_futures=True)
        return list(results)


def _try(task: Callable[[], T]) -> T | Exception:
    try:
        return task()
    except Exception as error:  # noqa: BLE001 -- the caller gets every error
        return error
