"""Runs controllers: collects the keys that changes make dirty and reconciles each a moment later.

As in the real ones, a key is reconciled from the present state, however many changes there were.
"""

import asyncio
import contextlib
import heapq
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable

from standins.cluster.refusals import ApiError
from standins.cluster.store import Change
from standins.cluster.writing import Registry
from standins.kit.lifecycle import write_record

_LATENCY_REAL_SECONDS = 0.002
_RETRY_SECONDS = 1.0
_SLICE_REAL_SECONDS = 0.01

Key = tuple[str, ...]


class Controller(ABC):
    """One control loop."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    @abstractmethod
    def keys_for(self, change: Change) -> Iterable[Key]:
        """Return the keys that a change makes worth looking at."""

    @abstractmethod
    def reconcile(self, key: Key) -> float | None:
        """Bring the key's objects closer to their spec; return virtual seconds to the next look."""


class Runner:
    """The queue of dirty keys of all controllers, ordered by when they are due."""

    def __init__(self, registry: Registry, controllers: Iterable[Controller]) -> None:
        self._clock = registry.clock
        self._controllers = tuple(controllers)
        self._due: dict[tuple[Controller, Key], float] = {}
        self._heap: list[tuple[float, int, Controller, Key]] = []
        self._order = itertools.count()
        self._woken = asyncio.Event()
        registry.store.subscribe(self._on_change)

    def _on_change(self, change: Change) -> None:
        when = self._clock.now() + _LATENCY_REAL_SECONDS * self._clock.speed
        for controller in self._controllers:
            for key in controller.keys_for(change):
                self._schedule(controller, key, when)

    def _schedule(self, controller: Controller, key: Key, when: float) -> None:
        known = self._due.get((controller, key))
        if known is not None and known <= when:
            return
        self._due[(controller, key)] = when
        heapq.heappush(self._heap, (when, next(self._order), controller, key))
        self._woken.set()

    def _reconcile(self, controller: Controller, key: Key) -> None:
        try:
            again = controller.reconcile(key)
        except ApiError as error:
            again = _RETRY_SECONDS
            where = {"controller": type(controller).__name__, "key": "/".join(key)}
            write_record("reconcile refused", "WARNING", **where, error=error.message)
        if again is not None:
            self._schedule(controller, key, self._clock.now() + again)

    async def run(self) -> None:
        """Reconcile for ever, giving way to requests at short intervals."""
        while True:
            self._woken.clear()
            wait = (self._heap[0][0] - self._clock.now()) / self._clock.speed if self._heap else None
            if wait is None or wait > 0:
                # Not wait_for: until Python 3.12 it can lose a cancellation in the moment of waking
                # (https://github.com/python/cpython/issues/86296).
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._woken.wait()
                continue
            until = time.monotonic() + _SLICE_REAL_SECONDS
            while self._heap and self._heap[0][0] <= self._clock.now() and time.monotonic() < until:
                when, _, controller, key = heapq.heappop(self._heap)
                if self._due.get((controller, key)) == when:
                    del self._due[(controller, key)]
                    self._reconcile(controller, key)
            await asyncio.sleep(0)
