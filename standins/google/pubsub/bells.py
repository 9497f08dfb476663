"""Waking up whoever waits for a subscription, and the one timer that lets time act on the broker.

Everything runs on one event loop; there is no await between looking and waiting, so no wake-up is
lost.
"""

import asyncio
import contextlib
from collections import defaultdict

from standins.google.pubsub.model.broker import Broker

MAX_SLEEP_SECONDS = 3_600.0


class Bells:
    """Ring for those who wait on a subscription's name."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)

    def ring(self, name: str) -> None:
        """Wake everyone who waits on the name."""
        for future in self._waiting.pop(name, set()):
            if not future.done():
                future.set_result(None)

    async def wait(self, name: str, timeout_seconds: float | None = None) -> None:
        """Return when the name rings, or after a timeout in real seconds."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[name].add(future)
        with contextlib.suppress(TimeoutError):
            try:
                async with asyncio.timeout(timeout_seconds):
                    await future
            finally:
                self._waiting[name].discard(future)


class Timekeeper:
    """Call `settle` on the broker whenever a lease ends or a delayed message becomes available."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._changed = asyncio.Event()
        broker.listen(lambda _: self._changed.set())

    async def run(self) -> None:
        """Keep time until cancelled."""
        while True:
            self._changed.clear()
            # Not wait_for: until Python 3.12 it loses a cancellation that comes in the moment of
            # the change (https://github.com/python/cpython/issues/86296), and whoever cancelled
            # this would wait for ever.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._sleep_seconds()):
                    await self._changed.wait()
            self._broker.settle()

    def _sleep_seconds(self) -> float:
        moment = self._broker.next_event_at()
        if moment is None:
            return MAX_SLEEP_SECONDS
        return min(MAX_SLEEP_SECONDS, max(0.0, moment - self._broker.clock()))
