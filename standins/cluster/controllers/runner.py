"""Runs controllers: collects the keys that changes make dirty and reconciles each a moment later.

As in the real ones, a key is reconciled from the present state, however many changes there were.
"""

import asyncio
import contextlib
import heapq
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable

from standins.cluster.clock import Clock
from standins.cluster.objects.shapes import Condition
from standins.cluster.store.errors import ApiError
from standins.cluster.store.object_store import Store
from standins.cluster.store.stored import Change, Stored
from standins.cluster.writing.deletion import IN_FOREGROUND, delete
from standins.cluster.writing.event_recorder import Recorder
from standins.cluster.writing.registry import Registry
from standins.kit.lifecycle import write_record

LATENCY_SECONDS = 0.002
RETRY_VIRTUAL_SECONDS = 1.0
_SLICE_SECONDS = 0.01

Key = tuple[str, ...]


class Controller(ABC):
    """One control loop."""

    name: str

    def __init__(self, registry: Registry, recorder: Recorder) -> None:
        self.registry = registry
        self.recorder = recorder

    @abstractmethod
    def keys_for(self, change: Change) -> Iterable[Key]:
        """Return the keys that a change makes worth looking at."""

    @abstractmethod
    def reconcile(self, key: Key) -> float | None:
        """Bring the key's objects closer to their spec; return virtual seconds to the next look."""

    def expire(self, stored: Stored, ttl: int | None, ended: Condition | None) -> float | None:
        """Delete what has ended, once its time to live is over; return the rest of that time."""
        if ttl is None or ended is None:
            return None
        left = ttl - self.registry.clock.seconds_since(ended.last_transition_time)
        if left > 0:
            return left
        delete(self.registry, stored, IN_FOREGROUND)
        return None


class Runner:
    """The queue of dirty keys of all controllers, ordered by when they are due."""

    def __init__(self, store: Store, clock: Clock, controllers: Iterable[Controller]) -> None:
        self._clock = clock
        self._controllers = tuple(controllers)
        self._due: dict[tuple[str, Key], float] = {}
        self._heap: list[tuple[float, int, Controller, Key]] = []
        self._order = itertools.count()
        self._woken = asyncio.Event()
        store.subscribe(self._on_change)

    def _on_change(self, change: Change) -> None:
        when = self._clock.monotonic() + LATENCY_SECONDS
        for controller in self._controllers:
            for key in controller.keys_for(change):
                self._schedule(controller, key, when)

    def _schedule(self, controller: Controller, key: Key, when: float) -> None:
        known = self._due.get((controller.name, key))
        if known is not None and known <= when:
            return
        self._due[(controller.name, key)] = when
        heapq.heappush(self._heap, (when, next(self._order), controller, key))
        self._woken.set()

    def step(self) -> bool:
        """Reconcile the key that is due first; return False when nothing is due now."""
        while self._heap and self._heap[0][0] <= self._clock.monotonic():
            when, _, controller, key = heapq.heappop(self._heap)
            if self._due.get((controller.name, key)) != when:
                continue
            del self._due[(controller.name, key)]
            self._reconcile(controller, key)
            return True
        return False

    def _reconcile(self, controller: Controller, key: Key) -> None:
        try:
            again = controller.reconcile(key)
        except ApiError as error:
            again = RETRY_VIRTUAL_SECONDS
            where = {"controller": controller.name, "key": "/".join(key)}
            write_record("reconcile refused", "WARNING", **where, error=error.message)
        if again is not None:
            self._schedule(controller, key, self._clock.monotonic() + self._clock.real_seconds(again))

    def next_due_seconds(self) -> float | None:
        """Return real seconds until the next key is due, 0 for now, None when there is none."""
        return max(0.0, self._heap[0][0] - self._clock.monotonic()) if self._heap else None

    async def run(self) -> None:
        """Reconcile for ever, giving way to requests at short intervals."""
        while True:
            self._woken.clear()
            wait = self.next_due_seconds()
            if wait != 0:
                # Not wait_for: until Python 3.12 it can lose a cancellation in the moment of waking
                # (https://github.com/python/cpython/issues/86296).
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._woken.wait()
                continue
            until = self._clock.monotonic() + _SLICE_SECONDS
            while self._clock.monotonic() < until and self.step():
                pass
            await asyncio.sleep(0)
