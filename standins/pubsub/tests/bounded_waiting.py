"""Waiting for something with a bound."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def eventually(condition: Callable[[], bool], *, seconds: float = 30.0, what: str = "the condition") -> None:
    """Return as soon as the condition holds; fail when the bound has passed."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"{what} did not come about within {seconds} s")
        time.sleep(0.01)
