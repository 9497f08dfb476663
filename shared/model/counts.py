"""Reads every number that an object of Kubernetes or an answer of GKE gives, within bounds.

A number outside is cut to the bound, so that no later step meets one that it cannot calculate with.
"""

from __future__ import annotations

COUNT_MAX = 2**31 - 1
"""Counts are int32 in the API of Kubernetes:
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#primitive-types."""
SECONDS_MAX = 2**40
"""Unix seconds in 35,000 years."""


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


def take_percent(whole: int, text: str) -> int | None:
    """Return a percentage such as ``25%`` of a number, rounded up; None for other texts."""
    percent = parse_count(text[:-1]) if text.endswith("%") else None
    return None if percent is None else bound_count(-(-whole * percent // 100))
