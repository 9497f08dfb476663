"""Runs calls side by side, bounds how many deliveries work, and lets one thread work on a key.

A thread waits for nothing but its call: a key that is under way is marked, and the thread that
works on it looks once more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TypeVar

from shared.model.errors import OutOfTime, Unavailable

K = TypeVar("K")
T = TypeVar("T")
DELIVERIES_MAX = 16
CALLS_AT_ONCE = 32  # assumes: creates-side-by-side
REQUEST_SECONDS = 60.0
SILENT_MAX = 3
SILENCE_SECONDS = 30.0  # a cluster that gave no answer so many times rests so long


@dataclass(slots=True)
class Crew:
    """What the threads of one process share."""

    _under_way: set[object] = field(default_factory=set)  # keys on which a thread works
    _marked: set[object] = field(default_factory=set)  # those that must be looked at
    _working: dict[str, int] = field(default_factory=dict)  # by cluster, how many deliveries work
    _silent: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By cluster, how often in a row it gave no answer, and when it did so last."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, key: object) -> bool:
        """Return whether the caller may work on a key; if not, the one who does looks once more."""
        with self._lock:
            is_free = key not in self._under_way
            self._marked.add(key)
            self._under_way.add(key)
            return is_free

    def goes_on(self, key: object) -> bool:
        """Return whether a key must be looked at; if not, its work has ended."""
        with self._lock:
            if key in self._marked:
                self._marked.remove(key)
                return True
            self._under_way.discard(key)
            return False

    def end(self, key: object) -> None:
        """Leave a key, after an error."""
        with self._lock:
            self._marked.discard(key)
            self._under_way.discard(key)

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

    def note(self, cluster: str, error: Exception | None, now: float) -> None:
        """Remember whether a cluster gave an answer."""
        with self._lock:
            if isinstance(error, Unavailable):
                count, _ = self._silent.get(cluster, (0, now))
                self._silent[cluster] = count + 1, now
            else:
                self._silent.pop(cluster, None)

    def find_rest(self, cluster: str, now: float) -> Unavailable | None:
        """Return why a cluster is not asked now; after its rest it is asked again."""
        with self._lock:
            count, since = self._silent.get(cluster, (0, now))
        if count < SILENT_MAX or now - since >= SILENCE_SECONDS:
            return None
        times = f"cluster {cluster} gave no answer {count} times"
        return Unavailable(f"{times}, so it is not asked for a while")

    def fork(self, task: Callable[[], T]) -> Callable[[], T]:
        """Begin a read beside the caller's next one; the answer is its result, or its error."""
        pool = ThreadPoolExecutor(max_workers=1)
        future = pool.submit(task)
        pool.shutdown(wait=False)
        return future.result

    def gather(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Return what each task returned, in their order."""
        answers, errors = self.run_each(dict(enumerate(tasks)))
        for error in errors.values():
            raise error
        return list(answers.values())

    def run_each(
        self, tasks: Mapping[K, Callable[[], T]], *, seconds: float = REQUEST_SECONDS
    ) -> tuple[dict[K, T], dict[K, Exception]]:
        """Return what tasks returned, and the errors of the others, by their keys."""
        values: dict[K, T] = {}
        errors: dict[K, Exception] = {}
        answers = self.run(list(tasks.values()), seconds=seconds)
        for key, each in zip(tasks, answers, strict=True):
            if isinstance(each, Exception):
                errors[key] = each
            else:
                values[key] = each
        return values, errors

    def run(self, tasks: Sequence[Callable[[], T]], *, seconds: float) -> list[T | Exception]:
        """Return what each task returned or raised, in their order; none begins after `seconds`."""
        if len(tasks) <= 1:
            return [attempt(task) for task in tasks]
        pool = ThreadPoolExecutor(max_workers=min(CALLS_AT_ONCE, len(tasks)))
        futures = [pool.submit(attempt, task) for task in tasks]
        ended = wait(futures, timeout=max(0.0, seconds)).done
        pool.shutdown(wait=False, cancel_futures=True)
        late = OutOfTime("the time for this work is over; a later run does it")
        return [each.result() if each in ended else late for each in futures]


def attempt(task: Callable[[], T]) -> T | Exception:
    """Return what a task returned or raised."""
    try:
        return task()
    except Exception as error:  # noqa: BLE001 -- the caller gets every error
        return error
