"""Reads the log records of which `usage` is made, page by page, and says how many they are."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from cli.access.cli_settings import find_log_project, find_name, name_services
from cli.access.log_search import read_moment, require_logs
from cli.access.metric_points import read_points
from cli.moments import format_exact, format_moment
from shared.edges.google_calls import translate_errors
from shared.model.errors import ProvisionerError, Throttled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

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
_CHANGES = 'severity>=NOTICE AND jsonPayload.decision=("create" OR "resize" OR "delete")'
_DECISIONS = "jsonPayload.decision:*"
_SWEEPS = 'jsonPayload.message=("swept" OR "nodes of a node pool that may stay idle were marked")'
_NAME = "tpu-provisioner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The time whose records are read, in unix seconds."""

    begin: float
    end: float


def read_records(
    deployment: Deployment, span: Span, *, earlier: bool = True, wait: Callable[[float], object] = time.sleep
) -> Iterator[Record]:
    """Yield the records of a time in order; before them the changes of pools before it.

    Args:
        deployment: whose logs are read, of all of its projects.
        span: the time.
        earlier: whether changes before the time are read too.
        wait: sleeps for so many seconds when Cloud Logging refuses a page.

    Raises:
        Misconfigured: logs are not read here.
        ProvisionerError: they could not be read.
    """
    require_logs(deployment.open_logs)
    before = Span(begin=span.begin - EARLIER_SECONDS, end=span.begin)
    asked = [(before, (_CHANGES,))] * earlier + [(span, (_DECISIONS, _SWEEPS))]
    return chain.from_iterable(_merge(deployment, each, wanted, wait) for each, wanted in asked)


def _merge(
    deployment: Deployment, span: Span, wanted: Iterable[str], wait: Callable[[float], object]
) -> Iterator[Record]:
    streams = [
        _read(deployment, project, span, each, wait) for project in list_projects(deployment) for each in wanted
    ]
    return heapq.merge(*streams, key=itemgetter(0))


def list_projects(deployment: Deployment) -> list[str]:
    """Return the projects that have the logs of a deployment."""
    return list(dict.fromkeys(find_log_project(deployment.own, each) for each in deployment.ports.clusters))


def _read(
    deployment: Deployment, project: str, span: Span, wanted: str, wait: Callable[[float], object]
) -> Iterator[Record]:
    """Yield the records that fit. After a refused page it goes on where it was."""
    at, seen, until = span.begin, set[str](), format_exact(span.end)
    ours = name_services(deployment.own)
    client: Any = require_logs(deployment.open_logs)(project)
    while True:
        try:
            with translate_errors(f"ListLogEntries projects/{project}"):
                asked = f'timestamp>="{format_exact(at)}" AND timestamp<"{until}" AND {wanted}{ours}'
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


def count_records(deployment: Deployment, span: Span) -> int | None:
    """Return how many records a time has, by the deployment's own metrics; None if not known.

    The metrics are those of `infra/terraform/modules/provisioner/metrics.tf`. They also count the
    records that a sampled log does not keep.
    """
    if deployment.monitoring is None:
        return None
    home, name = list_projects(deployment)[0], find_name(deployment.own) or _NAME
    seconds = max(60, round(span.end - span.begin))
    found = 0
    for metric in ("decisions", "sweeps"):
        query = {
            "filter": f'metric.type="logging.googleapis.com/user/{name}/{metric}"',
            "interval.startTime": format_moment(span.begin),
            "interval.endTime": format_moment(span.end),
            "aggregation.alignmentPeriod": f"{seconds}s",
            "aggregation.perSeriesAligner": "ALIGN_SUM",
            "aggregation.crossSeriesReducer": "REDUCE_SUM",
        }
        try:
            found += sum(chain.from_iterable(read_points(deployment.monitoring, home, query)))
        except ProvisionerError:
            return None
    return found
