"""What the functions logged, by Cloud Logging's ``entries:list``.

https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from cli.history import Entry
from cli.moments import format_moment
from shared.core.errors import Unavailable
from shared.core.times import parse_time

if TYPE_CHECKING:
    from shared.edges.google_rest import GoogleRest

DAY_SECONDS = 86_400.0
PAGE_SIZE = 500
_LOUD = ("ERROR", "CRITICAL", "ALERT", "EMERGENCY", "WARNING")


class _LogEntry(msgspec.Struct, rename="camel"):
    timestamp: str = ""
    severity: str = ""
    json_payload: dict[str, Any] = {}


class _LogEntries(msgspec.Struct):
    entries: list[_LogEntry] = []


def read_logs(rest: GoogleRest, cluster: str, namespace: str, name: str, *, now: float) -> list[Entry]:
    """Return the decisions that the functions logged about one workload: the newest 500 of the last day."""
    wanted = (
        f"jsonPayload.claim.name={json.dumps(name)} AND jsonPayload.claim.namespace={json.dumps(namespace)} "
        f"AND jsonPayload.claim.cluster={json.dumps(cluster)}"
    )
    return [_describe(each) for each in _list(rest, cluster, wanted, now=now)]


def find_last_sweep(rest: GoogleRest, cluster: str, *, now: float) -> float | None:
    """Return when a sweep last ended, in unix seconds; None when none is found in the last day."""
    wanted = 'jsonPayload.function="sweep" AND jsonPayload.message="swept"'
    found = _list(rest, cluster, wanted, now=now, page_size=1)
    return parse_time(found[0].timestamp) if found else None


def _list(
    rest: GoogleRest, cluster: str, wanted: str, *, now: float, page_size: int = PAGE_SIZE
) -> list[_LogEntry]:
    """Return the newest entries of the last day that fit."""
    body = {
        "resourceNames": ["/".join(cluster.split("/")[:2])],
        "filter": f'timestamp>="{format_moment(now - DAY_SECONDS)}" AND {wanted}',
        "orderBy": "timestamp desc",
        "pageSize": page_size,
    }
    answer = rest.call("POST", "v2/entries:list", body)
    try:
        return msgspec.json.decode(answer or b"{}", type=_LogEntries).entries
    except msgspec.DecodeError as error:
        raise Unavailable(f"Cloud Logging's answer cannot be read: {error}") from error


def _describe(entry: _LogEntry) -> Entry:
    said = entry.json_payload
    pool, decision = str(said.get("pool") or ""), str(said.get("decision") or "")
    return Entry(
        at=parse_time(entry.timestamp) or 0.0,
        source="log",
        about=f"{said.get('function', '')} {pool}".strip(),
        text=f"{decision}: {said.get('message', '')} [{said.get('reason', '')}]",
        bad=entry.severity in _LOUD,
        message=f"{said.get('message', '')} [{said.get('reason', '')}]",
    )
