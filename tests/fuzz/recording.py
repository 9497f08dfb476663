"""Keeps the log records of one input, written as Cloud Logging gets them."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.component.world import Records

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def recording() -> Iterator[Records]:
    """Yield the records of all loggers from INFO on; a record that cannot be written raises."""
    root, records = logging.getLogger(), Records()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = [records]
    root.setLevel(logging.INFO)
    try:
        yield records
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
