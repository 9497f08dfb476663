"""Server-sent events: one thread reads, and each open page gets every reading."""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGES_MAX = 32
SILENCE_SECONDS_MAX = 15.0
"""A comment is sent then, because only a write shows that a page is closed."""
_END_SECONDS_MAX = 5.0
_LOG = logging.getLogger(__name__)


class TooManyPages(Exception):
    """As many pages as the board serves are open."""


class Feed:
    """Reads while at least one page is open, and gives the readings to all of them."""

    def __init__(self, read: Callable[[], dict[str, Any]], *, every: float) -> None:
        self._read, self._every = read, every
        self._changed = threading.Condition()
        self._pages = 0
        self._number, self._frame = 0, ""
        self._ended = False
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name="board readings", daemon=True)

    def start(self) -> None:
        """Begin to read as soon as a page is open."""
        self._thread.start()

    def end(self) -> None:
        """End the thread and every stream."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._hurry.set()
        self._thread.join(_END_SECONDS_MAX)

    def hurry(self) -> None:
        """Read now, because something was changed."""
        self._hurry.set()

    def open_page(self) -> Iterator[str]:
        """Return the stream of a page: the last reading at once, then each new one.

        `close_page` must follow, also if nothing was taken from the stream.
        """
        with self._changed:
            if self._pages >= PAGES_MAX:
                raise TooManyPages
            shown = self._number if self._pages == 0 else 0  # nothing was read while no page was open
            self._pages += 1
            self._changed.notify_all()
        return self._stream(shown)

    def close_page(self) -> None:
        """Forget one page. Without pages nothing is read."""
        with self._changed:
            self._pages -= 1

    def _stream(self, shown: int) -> Iterator[str]:
        yield "retry: 2000\n\n"
        while not self._ended:
            number, frame = self._wait(shown)
            yield frame if number > shown else ": nothing new\n\n"
            shown = number

    def _wait(self, shown: int) -> tuple[int, str]:
        """Return the number and the text of the last reading, as soon as it is a new one."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._number > shown, SILENCE_SECONDS_MAX)
            return self._number, self._frame

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._pages > 0)
                if self._ended:
                    return
            self._hurry.clear()
            frame = self._read_frame()
            with self._changed:
                self._number, self._frame = self._number + 1, f"id: {self._number + 1}\n{frame}"
                self._changed.notify_all()
            self._hurry.wait(self._every)

    def _read_frame(self) -> str:
        try:
            return f"event: reading\ndata: {json.dumps(self._read())}\n\n"
        except Exception as error:  # noqa: BLE001 -- the page shows it, and the next reading may succeed
            _LOG.exception("a reading failed")
            told = {"error": f"{type(error).__name__}: {error}"}
            return f"event: failure\ndata: {json.dumps(told)}\n\n"
