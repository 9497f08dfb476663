"""How a command that starts processes ends when it is told to."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_TERMINATED = 143


def exit_on_sigterm() -> None:
    """Let the first SIGTERM be an ordinary exit with code 143, so that everything that was started is ended."""
    signal.signal(signal.SIGTERM, _exit)


def _exit(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(_TERMINATED)
