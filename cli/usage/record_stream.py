"""Reads the log records of which `usage` is made, page by page."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from cli.access.cli_settings import find_log_project, name_services
from cli.access.log_search import read_moment, require_logs
from cli.moments import format_exact
from shared.edges.google import translate_errors
from shared.model.errors import Throttled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cli.access.operator_access import Deployment

    Record = tuple[float, Mapping[str, Any]]

PAGE_SIZE = 1000
"""The most that Cloud Logging gives at a time."""
EARLIER_SECONDS = 30 * 86_400.0
"""So far before the begin the creates and deletes of pools are read too. A log bucket keeps records
for 30 days if nobody sets another time: https://cloud.google.com/logging/quotas#logs_retention_periods."""
QUOTA_SECONDS = 10.0
"""The pause after Cloud Logging refused a page: a project has 60 reads in a minute
(https://cloud.google.com/logging/quotas#api-limits)."""
_CHANGES = 'severity>=NOTICE AND jsonPayload.decision=("create" OR "delete")'


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The time whose records are read, in unix seconds."""

    begin: float
    end: float


def read_records(
    deployment: Deployment, span: Span, *, earlier: bool = True, wait: Callable[[float], object] = time.sleep
) -> Iterator[Record]:
    """Yield the creates and deletes of a time in order."""
    require_logs(deployment.open_logs)
    begin = span.begin - EARLIER_SECONDS * earlier
    streams = [
        _read(deployment, project, Span(begin=begin, end=span.end), wait) for project in list_projects(deployment)
    ]
    return heapq.merge(*streams, key=itemgetter(0))


def list_projects(deployment: Deployment) -> list[str]:
    """Return the projects that have the logs of a deployment."""
    return list(dict.fromkeys(find_log_project(deployment.own, each) for each in deployment.ports.clusters))


def _read(deployment: Deployment, project: str, span: Span, wait: Callable[[float], object]) -> Iterator[Record]:
    """Yield the records that fit. After a refused page it goes on where it was."""
    at, seen, until = span.begin, set[str](), format_exact(span.end)
    ours = name_services(deployment.own)
    client: Any = require_logs(deployment.open_logs)(project)
    while True:
        try:
            with translate_errors(f"ListLogEntries projects/{project}"):
                asked = f'timestamp>="{format_exact(at)}" AND timestamp<"{until}" AND {_CHANGES}{ours}'
                for entry in client.list_entries(filter_=asked, order_by="timestamp asc", page_size=PAGE_SIZE):
                    moment = read_moment(entry) or at
                    if moment > at:
                        at = moment
                        seen.clear()
                    key = entry.insert_id or str(entry.payload)
                    if key not in seen and isinstance(entry.payload, dict):
                        seen.add(key)
                        yield moment, entry.payload
        except Throttled:
            wait(QUOTA_SECONDS)
        else:
            return
