"""The broker's one timer hears its end whenever that comes: else a broker whose parent died would
stay.
"""

import asyncio
import time
from collections.abc import Callable

import pytest

from standins.pubsub.bells import Timekeeper


class Changing:
    """As much of a broker as its timer asks for; nothing is ever due."""

    clock = staticmethod(time.monotonic)

    def listen(self, told: Callable[[str], None]) -> None:
        self.change = told

    def next_event_at(self) -> float | None:
        return None

    def settle(self) -> None:
        """Nothing to do."""


@pytest.mark.parametrize("steps", range(6))
def test_an_end_that_comes_in_the_moment_of_a_change_is_heard(steps: int) -> None:
    async def end_it() -> bool:
        broker = Changing()
        task = asyncio.create_task(Timekeeper(broker).run())  # type: ignore[arg-type]
        for _ in range(5):
            await asyncio.sleep(0)
        broker.change("a subscription")
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=10)
        heard = task.done()
        task.cancel()
        return heard

    assert asyncio.run(end_it())
