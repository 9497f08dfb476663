"""What a process of ours has logged so far, while it may be writing on; and logging as it was."""

import json
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.edges.process import StructuredFormatter


def read_records(log: Path, *, among_text: bool = False) -> list[dict[str, Any]]:
    """Return the structured records of a log, one a line; an unfinished last line does not count.

    Other programs' text between the records is passed over or, without `among_text`, an error.
    """
    lines = log.read_text().rpartition("\n")[0].splitlines()
    return [json.loads(line) for line in lines if not among_text or line.startswith("{")]


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Undo what `start_logging` does to the process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    hooks = sys.excepthook, threading.excepthook
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)
    sys.excepthook, threading.excepthook = hooks


class Records(logging.Handler):
    """What was logged, as the JSON that Cloud Logging would get."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(StructuredFormatter("test"))
        self.found: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(json.loads(self.format(record)))
