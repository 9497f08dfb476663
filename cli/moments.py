"""Moments as people give and read them, and an answer that is repeated until Ctrl-C."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cli.exit_codes import BadInput
from cli.printing import open_console

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.exit_codes import ExitCode

_AGO = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_EARLIEST = 365 * 86_400
"""The begin of 1971. Readers look at the days before a time too."""
_VALID = "RFC 3339 with a zone (2026-11-21T08:00:00Z), or how long ago (90s, 15m, 2h, 3d)"


def parse_since(text: str, *, now: float) -> float:
    """Return the unix seconds of a moment in the past."""
    if ago := _AGO.fullmatch(text.strip()):
        found = now - int(ago[1]) * _SECONDS[ago[2]]
    else:
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError as error:
            raise BadInput(f"--since: is not a time (got {text!r}); valid: {_VALID}") from error
        if moment.tzinfo is None:
            raise BadInput(f"--since: has no time zone (got {text!r}); valid: {_VALID}")
        found = moment.timestamp()
    if found > now:
        # Pub/Sub accepts a future time, and then drops all waiting messages.
        raise BadInput(f"--since: is in the future (got {text!r}); valid: the past")
    if found < _EARLIEST:
        raise BadInput(f"--since: is before 1971 (got {text!r}); valid: a later time")
    return found


def format_moment(seconds: float) -> str:
    """Return RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_exact(seconds: float) -> str:
    """Return RFC 3339 in UTC with microseconds, for a program."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


PAUSE_SECONDS = 5.0


def watch(show: Callable[[], ExitCode], *, endless: bool) -> ExitCode:
    """Show an answer once, or every 5 seconds until Ctrl-C; return its last exit code."""
    code = show()
    try:
        while endless:
            time.sleep(PAUSE_SECONDS)
            console = open_console()
            if console.is_terminal:
                console.clear()
            code = show()
    except KeyboardInterrupt:
        return code
    return code
