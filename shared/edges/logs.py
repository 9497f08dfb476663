"""Writes logs as one JSON object per line on standard output, for Cloud Logging.

Starts logging for a whole process; records are written with the standard `logging` module, their
facts in `extra`. Source: https://cloud.google.com/logging/docs/structured-logging.
"""

from __future__ import annotations

import logging
import sys
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pythonjsonlogger.msgspec import MsgspecFormatter

from shared.version import VERSION

if TYPE_CHECKING:
    from types import TracebackType

_STANDARD_FIELDS = ("message", "exc_info", "stack_info")


class StructuredFormatter(MsgspecFormatter):
    """Writes ``severity``, ``message``, ``time``, service, version, and the fields of ``extra``."""

    def __init__(self, service: str) -> None:
        super().__init__(
            _STANDARD_FIELDS,
            rename_fields={"exc_info": "stack_trace", "stack_info": "stack"},
            rename_fields_keep_missing=False,
        )
        self._service = service

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a record without those that are empty."""
        return {key: value for key, value in log_data.items() if value is not None}

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        """Put the fields that every record has in front of those of its own."""
        log_data["severity"] = record.levelname  # assumes: log-fields
        log_data["time"] = (
            datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        )
        log_data["service"] = self._service
        log_data["version"] = VERSION
        log_data["logger"] = record.name
        super().add_fields(log_data, record, message_dict)


def start_logging(service: str, level: int = logging.INFO) -> None:
    """Send every log record of this process to standard output, as one JSON object each.

    Replaces the handlers of the root logger; warnings and uncaught exceptions, of threads too, are
    recorded.
    """
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(StructuredFormatter(service))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.captureWarnings(capture=True)
    sys.excepthook = _record_uncaught
    threading.excepthook = _record_uncaught_of_thread


def _record_uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    logging.getLogger("uncaught").critical(
        "uncaught error: %s", error, exc_info=(kind, error, traceback)
    )


def _record_uncaught_of_thread(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is not None:
        _record_uncaught(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
