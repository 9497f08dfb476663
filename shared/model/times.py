"""Times and counts from elsewhere, within bounds: every one that Kubernetes or GKE writes.

A number outside is cut to its bound, so that no later step meets one that it cannot calculate with.
This module reads no clock.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol

from shared.model.errors import refuse

COUNT_MAX = 2**31 - 1
"""Counts are int32 in the API of Kubernetes:
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#primitive-types."""
SECONDS_MAX = 2**40  # unix seconds in 35,000 years
FRESH_SECONDS = 5.0
"""A leader that has waited for less is left out, because its message is about to be handled."""
TERMINATION_SECONDS = 600.0
"""How long after its own grace period a pod that terminates is waited for."""


def parse_time(text: str | None) -> float | None:
    """Return the unix seconds of an RFC 3339 time; None if it is empty or not valid."""
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
        # In UTC, so that a time that `format_time` cannot write is not valid either.
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def format_time(seconds: float | None) -> str:
    """Return unix seconds as Kubernetes writes them, whole and in UTC; empty for None."""
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def bound_count(number: int) -> int:
    """Return a number, cut to `COUNT_MAX` on both sides of 0."""
    return max(-COUNT_MAX, min(number, COUNT_MAX))


def parse_count(text: str, *, most: int = COUNT_MAX) -> int | None:
    """Return the number that a text of ASCII digits writes, at most `most`; None for other texts.

    The text may have any length: Python refuses to convert one of more than 4,300 digits.
    """
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0") or "0"
    return min(int(digits), most) if len(digits) <= len(str(most)) else most


def read_seconds(text: str, field: str, *, most: int, least: int = 0) -> int:
    """Return the number of seconds that a person wrote in a field, within its bounds."""
    seconds = parse_count(text)
    if seconds is None or not least <= seconds <= most:
        raise refuse("seconds_out_of_bounds", text, field=field, least=least, most=most)
    return seconds


class Clock(Protocol):
    """The time of day."""

    def now(self) -> float:
        """Return unix seconds."""
