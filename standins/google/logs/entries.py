"""Log files of processes as Cloud Logging would show them.

One entry per line, read anew at every question.
"""

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from standins.google.logs.filters import SEVERITIES

Json = dict[str, Any]


def read_entries(folder: Path, project: str) -> Iterator[Json]:
    """Yield every line of every ``*.log`` of a folder as a log entry.

    A JSON object becomes ``jsonPayload`` without the fields that Cloud Logging lifts out of it
    (https://cloud.google.com/logging/docs/structured-logging); anything else becomes
    ``textPayload``.
    """
    for path in sorted(folder.glob("*.log")):
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat()
        text = path.read_text(encoding="utf-8", errors="replace")
        # A line that is being written has no end yet.
        for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines()):
            if line.strip():
                yield _read_line(line, number, process=path.stem, project=project, written=written)


def _read_line(line: str, number: int, *, process: str, project: str, written: str) -> Json:
    entry: Json = {
        "logName": f"projects/{project}/logs/run.googleapis.com%2Fstdout",
        "resource": {"type": "cloud_run_revision", "labels": {"project_id": project, "service_name": process}},
        "insertId": hashlib.sha256(f"{process}\n{number}".encode()).hexdigest()[:20],
        "timestamp": written,
        "severity": "DEFAULT",
    }
    try:
        body = json.loads(line)
    except ValueError:
        return entry | {"textPayload": line}
    if not isinstance(body, dict):
        return entry | {"textPayload": line}
    severity = str(body.pop("severity", "DEFAULT"))
    entry["severity"] = severity if severity in SEVERITIES else "DEFAULT"
    entry["timestamp"] = _read_time(body.pop("time", None)) or written
    return entry | {"jsonPayload": body}


def _read_time(text: Any) -> str:
    try:
        datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return ""
    return str(text)
