"""Reads again and again until Ctrl-C, for ``--watch`` and ``--follow``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
PAUSE_SECONDS = 5.0


def repeat(look: Callable[[], T], *, endless: bool) -> Iterator[T]:
    """Yield what a look finds: once, or every 5 seconds until Ctrl-C."""
    yield look()
    try:
        while endless:
            time.sleep(PAUSE_SECONDS)
            yield look()
    except KeyboardInterrupt:
        return
