"""The log of a process: one JSON object per line, with severity, message, time and fields."""

import json
import logging
import sys
import warnings
from datetime import UTC, datetime


def silence_cancelled_connects() -> None:
    """Drop the warning about a connection attempt that the end of the process cancelled.

    anyio races the addresses of a host in tasks of their own; one that is cancelled before its
    first step leaves a coroutine "never awaited", which the interpreter reports on its way out, as
    plain text in a log of JSON lines.
    """
    warnings.filterwarnings("ignore", message=r"coroutine 'connect_tcp\.", category=RuntimeWarning)


_STANDARD_FIELDS = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {
    "message",
    "taskName",
    "color_message",  # uvicorn's own, for terminals
}


def write_record(message: str, severity: str = "INFO", **fields: object) -> None:
    """Write one record to standard output."""
    sys.stdout.write(_render(severity, message, datetime.now(UTC), fields) + "\n")
    sys.stdout.flush()


class JsonFormatter(logging.Formatter):
    """Writes a record of the logging module as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, object] = {"logger": record.name}
        fields |= {name: value for name, value in record.__dict__.items() if name not in _STANDARD_FIELDS}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return _render(record.levelname, record.getMessage(), datetime.fromtimestamp(record.created, UTC), fields)


def log_as_json(level: int = logging.INFO) -> None:
    """Send every record of the logging module to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    silence_cancelled_connects()
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _render(severity: str, message: str, moment: datetime, fields: dict[str, object]) -> str:
    time = moment.isoformat().replace("+00:00", "Z")
    return json.dumps({"severity": severity, "message": message, "time": time} | fields, default=str)
