"""The log of a process and its end: one JSON object per line; by a signal or a wrong argument."""

import asyncio
import contextlib
import json
import logging
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from types import FrameType
from typing import Any, NoReturn


def silence_cancelled_connects() -> None:
    """Drop the warning about a connection attempt that the end of the process cancelled.

    anyio races the addresses of a host in tasks of their own; one that is cancelled before its
    first step leaves a coroutine "never awaited", which the interpreter reports on its way out, as
    plain text in a log of JSON lines.
    """
    warnings.filterwarnings("ignore", message=r"coroutine 'connect_tcp\.", category=RuntimeWarning)


_STANDARD_FIELDS = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {
    "message",
    "taskName",
    "color_message",  # uvicorn's own, for terminals
}


def write_record(message: str, severity: str = "INFO", **fields: object) -> None:
    """Write one record to standard output."""
    sys.stdout.write(_render(severity, message, datetime.now(UTC), fields) + "\n")
    sys.stdout.flush()


class JsonFormatter(logging.Formatter):
    """Writes a record of the logging module as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, object] = {"logger": record.name}
        fields |= {name: value for name, value in record.__dict__.items() if name not in _STANDARD_FIELDS}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return _render(record.levelname, record.getMessage(), datetime.fromtimestamp(record.created, UTC), fields)


def log_as_json(level: int = logging.INFO) -> None:
    """Send every record of the logging module to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    silence_cancelled_connects()
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _render(severity: str, message: str, moment: datetime, fields: dict[str, object]) -> str:
    time = moment.isoformat().replace("+00:00", "Z")
    return json.dumps({"severity": severity, "message": message, "time": time} | fields, default=str)


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
    ending = asyncio.Event()
    for number in _NUMBERS:
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    return ending


async def wait_for_the_end(ending: asyncio.Event, *tasks: asyncio.Task[Any]) -> None:
    """Return once the event is set, or when one of the tasks ends.

    The error of a task that failed is raised.
    """
    waiting = asyncio.create_task(ending.wait())
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
