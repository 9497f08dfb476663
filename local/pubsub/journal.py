"""The log: one JSON object per line on stderr, with severity, message, time and the fields of a record."""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys

from local.shutdown_noise import silence_cancelled_connects

_STANDARD_FIELDS = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {
    "message",
    "taskName",
    "color_message",  # uvicorn's own, for terminals
}


class JsonFormatter(logging.Formatter):
    """Write a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "severity": record.levelname,
            "message": record.getMessage(),
            "time": dt.datetime.fromtimestamp(record.created, tz=dt.UTC).isoformat().replace("+00:00", "Z"),
            "logger": record.name,
        }
        line |= {name: value for name, value in record.__dict__.items() if name not in _STANDARD_FIELDS}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_as_json(level: int = logging.INFO) -> None:
    """Send every log record of the process to stderr as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    silence_cancelled_connects()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("httpcore").setLevel(logging.WARNING)
