"""Keeps the log records of one input, written as Cloud Logging gets them."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tests.fuzz.border import Lost
from tests.log_records import Records


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


def expect_no_fault(records: Records) -> None:
    """Check that the functions met no error of their own.

    Raises:
        Lost: they did.
    """
    if broken := [record for record in records.found if record.get("reason") == "internal_error"]:
        raise Lost(f"an error that is not documented: {broken}")
