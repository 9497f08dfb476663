"""Reads the indexes that controllers write into names and labels: decimal, no leading zeros."""

from __future__ import annotations

import re

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")


def parse_index(text: str) -> int | None:
    """Return the number of an index; None for any other text."""
    return int(text) if _INDEX.fullmatch(text) else None


def is_index_below(text: str, count: int) -> bool:
    """Return whether a text is an index below `count`."""
    index = parse_index(text)
    return index is not None and index < count
