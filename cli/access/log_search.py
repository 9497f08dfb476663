"""What the functions logged, by google-cloud-logging.

https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from cli.printing import format_exact
from shared.model.errors import Misconfigured
from shared.settings import describe_problem, name_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from google.auth.credentials import Credentials
    from google.cloud.logging_v2 import Client

    OpenLogs = Callable[[str], Client]
    """Opens the logs of a project."""


class Record(NamedTuple):
    """One entry of the logs."""

    at: float  # when it was written, in unix seconds
    fields: dict[str, Any]  # none if it has only a text
    severity: str = ""


DAY_SECONDS = 86_400.0
RECORDS_MAX = 500
PAGE_SIZE = 1000  # the most that Cloud Logging gives at a time
IDS_AT_ONCE = 20
"""Events of one question: Pub/Sub tries a message 20 times, and each try may be a record."""


def open_logs(endpoint: str, credentials: Credentials, project: str) -> Client:
    """Return a client of Cloud Logging over REST, without threads."""
    # Imported at the first use: half a second that the other commands need not wait for.
    from google.cloud.logging_v2 import Client  # noqa: PLC0415 -- see above

    options = {"api_endpoint": endpoint.rstrip("/")}
    client: Client = cast("Any", Client)(
        project=project, credentials=credentials, client_options=options, _use_grpc=False
    )
    return client


def require_logs(open_logs: OpenLogs | None) -> OpenLogs:
    """Return what opens the logs."""
    if open_logs is None:
        what, valid = "is empty, so there are no logs to read", "https://logging.googleapis.com"
        raise Misconfigured((describe_problem(name_variable("logging_endpoint"), what, valid=valid),))
    return open_logs


def read_answers(open_logs: OpenLogs, cluster: str, *, now: float) -> list[Record]:
    """Return what was created or refused in a cluster: the newest 500 records of the last day."""
    wanted = 'severity>=NOTICE OR jsonPayload.reason="paused"'
    wanted = f"({wanted}) AND jsonPayload.claim.cluster={json.dumps(cluster)}"
    records = list_newest(open_logs, cluster, wanted, since=now - DAY_SECONDS)
    return [each for each in records if isinstance(each.fields.get("claim"), dict)]


def read_event_records(
    open_logs: OpenLogs, cluster: str, ids: Sequence[str], *, since: float
) -> list[dict[str, Any]]:
    """Return what was logged about events, each record with a reason, the newest first."""
    records: list[Record] = []
    for at in range(0, len(ids), IDS_AT_ONCE):
        names = " OR ".join(json.dumps(each) for each in ids[at : at + IDS_AT_ONCE])
        wanted = f"jsonPayload.event_id=({names}) AND jsonPayload.reason:*"
        records += list_newest(open_logs, cluster, wanted, since=since)
    return [each.fields for each in records]


def find_last_tick(
    open_logs: OpenLogs, cluster: str, function: str, *, now: float, ours: str = ""
) -> tuple[float, dict[str, int]] | None:
    """Return when the last tick of a cluster ended, and how many decisions of each verdict it made.

    With them are `errors`, and workloads `left`. None: none is found in the last day.
    """
    wanted = (
        f'jsonPayload.wake="tick" AND jsonPayload.counts:* AND jsonPayload.function="{function}" '
        f'AND jsonPayload.cluster="{cluster}"{ours}'
    )
    for each in list_newest(open_logs, cluster, wanted, since=now - DAY_SECONDS, most=1):
        return each.at, {str(key): int(value) for key, value in each.fields["counts"].items()}
    return None


def find_last_error(open_logs: OpenLogs, cluster: str, function: str, *, since: float, ours: str = "") -> str:
    """Return the newest error that a function logged in a tick, with its reason; empty for none."""
    wanted = f'jsonPayload.wake="tick" AND jsonPayload.decision="none" AND jsonPayload.function="{function}"{ours}'
    records = list_newest(open_logs, cluster, wanted, since=since, most=1)
    return "".join(f"{each.fields.get('message')} [{each.fields.get('reason')}]" for each in records)


def find_last_report(open_logs: OpenLogs, cluster: str, *, now: float) -> float | None:
    """Return when a cluster's exporter last published an event, in unix seconds.

    It is None if it published none in the last day.
    """
    wanted = f'jsonPayload.message="published" AND jsonPayload.cluster="{cluster}"'
    records = list_newest(open_logs, cluster, wanted, since=now - DAY_SECONDS, most=1)
    return records[0].at if records else None


def list_newest(
    open_logs: OpenLogs, cluster: str, wanted: str, *, since: float, most: int = RECORDS_MAX
) -> list[Record]:
    """Return the newest records since a time in unix seconds that fit, the newest first."""
    options = {"order_by": "timestamp desc", "page_size": most, "max_results": most}
    return list(_read(open_logs, cluster.split("/")[1], wanted, since, **options))


def read_all(open_logs: OpenLogs, project: str, wanted: str, *, since: float) -> Iterator[Record]:
    """Return all records since a time in unix seconds that fit, the oldest first.

    Cloud Logging answers 60 pages of 1,000 a minute (https://cloud.google.com/logging/quotas).
    """
    return _read(open_logs, project, wanted, since, order_by="timestamp asc", page_size=PAGE_SIZE)


def _read(open_logs: OpenLogs, project: str, wanted: str, since: float, **options: Any) -> Iterator[Record]:
    from shared.edges.google import translate_errors  # noqa: PLC0415 -- see open_logs

    with translate_errors(f"ListLogEntries projects/{project}"):
        client: Any = open_logs(project)
        for entry in client.list_entries(filter_=f'timestamp>="{format_exact(since)}" AND {wanted}', **options):
            moment = entry.timestamp.timestamp() if entry.timestamp else since
            fields = entry.payload if isinstance(entry.payload, dict) else {}
            yield Record(moment, fields, entry.severity or "")
