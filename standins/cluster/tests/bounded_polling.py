"""Waiting for another process, with a limit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def wait_until(question: Callable[[], T], *, seconds: float = 60.0) -> T:
    """Ask until the answer is truthy, and return it."""
    deadline = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"still {answer!r} after {seconds} s"
        time.sleep(0.02)
