"""What the functions logged, by google-cloud-logging.

https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from cli.moments import format_moment
from shared.edges.google import translate_errors
from shared.model.errors import Misconfigured
from shared.settings import describe_problem, name_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.auth.credentials import Credentials
    from google.cloud.logging_v2 import Client

    OpenLogs = Callable[[str], Client]
    """Opens the logs of a project."""

DAY_SECONDS = 86_400.0
ENTRIES_MAX = 500
IDS_AT_ONCE = 20
"""Events of one question: Pub/Sub tries a message 20 times, and each try may be a record."""


def open_logs(endpoint: str, credentials: Credentials, project: str) -> Client:
    """Return a client of Cloud Logging over REST, without threads."""
    # Imported at the first use: half a second that the other commands need not wait for.
    from google.cloud.logging_v2 import Client  # noqa: PLC0415 -- see above

    options = {"api_endpoint": endpoint.rstrip("/")}
    made: Client = cast("Any", Client)(
        project=project, credentials=credentials, client_options=options, _use_grpc=False
    )
    return made


def require_logs(open_logs: OpenLogs | None) -> OpenLogs:
    """Return what opens the logs."""
    if open_logs is None:
        what, valid = "is empty, so there are no logs to read", "https://logging.googleapis.com"
        raise Misconfigured((describe_problem(name_variable("logging_endpoint"), what, valid=valid),))
    return open_logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a function did or answered about one workload, as its log record says."""

    at: float
    """Unix seconds."""
    claim: dict[str, str]
    decision: str
    """A verdict; ``none`` if the answer failed with an error."""
    reason: str
    message: str


def read_answers(open_logs: OpenLogs, cluster: str, *, now: float) -> list[Answered]:
    """Return what was created or refused in a cluster: the newest 500 records of the last day."""
    wanted = f"severity>=NOTICE AND jsonPayload.claim.cluster={json.dumps(cluster)}"
    answers = []
    for entry in list_of_day(open_logs, cluster, wanted, now=now, most=ENTRIES_MAX):
        at, claim = read_moment(entry), read_record(entry).get("claim")
        if at is not None and isinstance(claim, dict):
            texts = {key: str(read_record(entry).get(key) or "") for key in ("decision", "reason", "message")}
            names = {str(key): str(value) for key, value in claim.items()}
            answers.append(Answered(at=at, claim=names, **texts))
    return answers


def read_event_records(
    open_logs: OpenLogs, cluster: str, ids: Sequence[str], *, since: float
) -> list[dict[str, Any]]:
    """Return what was logged about events, each record with a reason, the newest first."""
    entries: list[Any] = []
    for at in range(0, len(ids), IDS_AT_ONCE):
        names = " OR ".join(json.dumps(each) for each in ids[at : at + IDS_AT_ONCE])
        wanted = f"jsonPayload.event_id=({names}) AND jsonPayload.reason:*"
        entries += list_newest(open_logs, cluster, wanted, since=since, most=ENTRIES_MAX)
    return list(map(read_record, entries))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """The end of one tick."""

    at: float
    """Unix seconds."""
    counts: dict[str, int]
    """How many decisions of each verdict it made, with ``errors``, and workloads ``left``."""


def find_last_tick(
    open_logs: OpenLogs, cluster: str, function: str, *, now: float, ours: str = ""
) -> Ticked | None:
    """Return the last tick of a cluster that ended; None when none is found in the last day."""
    wanted = (
        f'jsonPayload.wake="tick" AND jsonPayload.counts:* AND jsonPayload.function="{function}" '
        f'AND jsonPayload.cluster="{cluster}"{ours}'
    )
    for entry in list_of_day(open_logs, cluster, wanted, now=now, most=1):
        at, counts = read_moment(entry), read_record(entry).get("counts")
        if at is not None and isinstance(counts, dict):
            return Ticked(at=at, counts={str(key): int(value or 0) for key, value in counts.items()})
    return None


def find_last_report(open_logs: OpenLogs, cluster: str, *, now: float) -> float | None:
    """Return when a cluster's exporter last published an event, in unix seconds.

    It is None if it published none in the last day.
    """
    wanted = f'jsonPayload.message="published" AND jsonPayload.cluster="{cluster}"'
    found = list_of_day(open_logs, cluster, wanted, now=now, most=1)
    return read_moment(found[0]) if found else None


def list_of_day(open_logs: OpenLogs, cluster: str, wanted: str, *, now: float, most: int) -> list[Any]:
    """Return the newest entries of the last day that fit."""
    return list_newest(open_logs, cluster, wanted, since=now - DAY_SECONDS, most=most)


def list_newest(open_logs: OpenLogs, cluster: str, wanted: str, *, since: float, most: int) -> list[Any]:
    """Return the newest entries since a time in unix seconds that fit, the newest first."""
    project = cluster.split("/")[1]
    with translate_errors(f"ListLogEntries projects/{project}"):
        client: Any = open_logs(project)
        found = client.list_entries(
            filter_=f'timestamp>="{format_moment(since)}" AND {wanted}',
            order_by="timestamp desc",
            page_size=most,
            max_results=most,
        )
        return list(found)


def read_record(entry: Any) -> dict[str, Any]:
    """Return the fields of an entry; none if it has only a text."""
    return entry.payload if isinstance(entry.payload, dict) else {}


def read_moment(entry: Any) -> float | None:
    """Return when an entry was written, in unix seconds; None if it does not say."""
    moment: float | None = entry.timestamp.timestamp() if entry.timestamp else None
    return moment
