"""From the structured log records of the exporter and the functions to observations. Pure.

A line that is no JSON object, or no record of interest, is None: processes write other things too.
"""

import json
from datetime import datetime
from typing import Any

from demo.loop.observations import Decided, MessagePublished

Json = dict[str, Any]


def parse_line(line: str) -> Json | None:
    """Return the record of one log line, or None when it is not a JSON object."""
    if not line.startswith("{"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def read_exporter_record(record: Json, seen_at: float) -> MessagePublished | None:
    """Return the publication that a record of the exporter tells of."""
    if record.get("message") != "published":
        return None
    return MessagePublished(
        at=_moment(record, seen_at),
        subject=str(record.get("subject", "")),
        observed=str(record.get("observed", "")),
    )


def read_function_record(record: Json, seen_at: float) -> Decided | None:
    """Return the decision that a record of a function tells of."""
    if not record.get("decision"):
        return None
    claim = record.get("claim")
    claim = claim if isinstance(claim, dict) else {}
    return Decided(
        at=_moment(record, seen_at),
        function=_text(record, "function"),
        wake=_text(record, "wake"),
        decision=_text(record, "decision"),
        reason=_text(record, "reason"),
        message=_text(record, "message"),
        namespace=_text(claim, "namespace"),
        workload=_text(claim, "name"),
        slot=_text(record, "slot"),
        pool=_text(record, "pool"),
        machine_type=_text(record, "machine_type"),
        node_count=int(record.get("node_count") or 0),
        topology=_text(record, "topology"),
        tier=_text(record, "tier"),
        reservation=_text(record, "reservation"),
    )


def _text(record: Json, key: str) -> str:
    value = record.get(key)
    return "" if value is None else str(value)


def _moment(record: Json, seen_at: float) -> float:
    """Return the record's own time as unix seconds, or the moment it was seen when it has none."""
    try:
        return datetime.fromisoformat(_text(record, "time")).timestamp()
    except ValueError:
        return seen_at
