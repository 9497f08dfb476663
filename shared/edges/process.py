"""What this process has of its own: the time of day, and logs for Cloud Logging.

A log record is one JSON object on a line of standard output, its facts in `extra`:
https://cloud.google.com/logging/docs/structured-logging.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from types import TracebackType
from typing import Any

from pythonjsonlogger.msgspec import MsgspecFormatter

from shared import VERSION


class SystemClock:
    """`shared.model.times.Clock` of this machine; the rules never read it themselves."""

    def now(self) -> float:
        """Return unix seconds."""
        return time.time()


SYSTEM_CLOCK = SystemClock()
_RECORD_FIELDS = ("levelname", "message", "name", "exc_info", "stack_info")
_NAMES = {  # assumes: log-fields
    "levelname": "severity",
    "name": "logger",
    "exc_info": "stack_trace",
    "stack_info": "stack",
}


class StructuredFormatter(MsgspecFormatter):
    """Writes ``severity``, ``message``, ``time``, service, version, and the fields of ``extra``."""

    def __init__(self, service: str) -> None:
        super().__init__(
            _RECORD_FIELDS,
            rename_fields=_NAMES,
            rename_fields_keep_missing=False,
            static_fields={"service": service, "version": VERSION},
            timestamp="time",
        )

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a record without those that are empty."""
        return {key: value for key, value in log_data.items() if value is not None}


def start_logging(service: str) -> None:
    """Send all records, warnings and uncaught errors of this process to standard output."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(StructuredFormatter(service))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
    sys.excepthook = _record_uncaught
    threading.excepthook = lambda thread: _record_uncaught(
        thread.exc_type, thread.exc_value or thread.exc_type(), thread.exc_traceback
    )


def _record_uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    logging.getLogger("uncaught").critical(
        "uncaught error: %s", error, exc_info=(kind, error, traceback)
    )
