"""Keeps the log records of one input, written as Cloud Logging gets them."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tests.component.world import Records


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
