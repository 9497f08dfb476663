"""How a process ends: by a signal, at once or in its event loop; or by a wrong argument."""

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_TERMINATED = 143
_BAD_INPUT = 2


def refuse(text: object) -> NoReturn:
    """End the command with code 2 and ``error: TEXT`` on standard error."""
    sys.stderr.write(f"error: {text}\n")
    raise SystemExit(_BAD_INPUT)


def exit_on_sigterm() -> None:
    """Turn the first SIGTERM into an ordinary exit with code 143, so that all cleanup is done."""
    signal.signal(signal.SIGTERM, _exit)


def note_signals() -> asyncio.Event:
    """Return an event of the running loop that the first signal sets.

    To be called before anything is started.
    """
    told = asyncio.Event()
    for number in _NUMBERS:
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    return told


async def wait_for_the_end(told: asyncio.Event, *tasks: asyncio.Task[Any]) -> None:
    """Return once the event is set, or when one of the tasks ends.

    The error of a task that failed is raised.
    """
    waiting = asyncio.create_task(told.wait())
    try:
        await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()


@contextlib.contextmanager
def hold_interrupts() -> Iterator[None]:
    """Let the signals take effect at the end of the block, each once, instead of within it.

    Only the main thread is interrupted
    (https://docs.python.org/3/library/signal.html#signals-and-threads): in any other one nothing is
    held.
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


def _exit(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(_TERMINATED)
