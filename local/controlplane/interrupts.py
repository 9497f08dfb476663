"""Interrupts that wait: what is being started is known before it has to be ended."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def hold_interrupts() -> Iterator[None]:
    """Let SIGINT and SIGTERM take effect at the end of the block, each once, instead of within it.

    Only the main thread is interrupted (https://docs.python.org/3/library/signal.html#signals-and-threads): in any
    other one nothing is held.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: set[int] = set()

    def note(number: int, _frame: FrameType | None) -> None:
        came.add(number)

    before = {number: signal.signal(number, note) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for held in sorted(came):
        signal.raise_signal(held)
