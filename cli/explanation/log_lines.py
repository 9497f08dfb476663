"""Prints what the functions and the exporter logged lately, a line for each record."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.access.cli_settings import find_log_project, name_services
from cli.access.deployment_choice import open_chosen
from cli.exit_codes import ExitCode, end_with, told
from cli.logs.log_search import LOUD, list_newest, read_moment, require_logs
from cli.moments import format_exact, format_moment, parse_since
from cli.printing import Format, choose_format, count, open_console, print_columns, print_data, print_line, styled
from cli.repeating import repeat
from cli.shared_options import AsJson, Follow, Namespace, Output  # noqa: TC001 -- typer reads the annotations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from cli.access.operator_access import Deployment

_HEADINGS = ["TIME", "FROM", "SEVERITY", "WHAT"]
LINES_MAX = 1000
"""The most records that are shown; Cloud Logging gives as many at a time."""


class Part(StrEnum):
    """What writes records: each function, and the exporter."""

    PROVISION = "provision"
    COLLECT = "collect"
    SETTLE = "settle"
    SWEEP = "sweep"
    EXPORTER = "exporter"


class Severity(StrEnum):
    """The least severity that is shown."""

    DEBUG = "debug"
    INFO = "info"
    NOTICE = "notice"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One record."""

    id: str
    at: float
    """Unix seconds."""
    service: str
    """The name of the function as it is deployed, or of the exporter."""
    severity: str
    message: str
    reason: str
    workload: str
    """``KIND NAMESPACE/NAME``; empty for a record that is about none."""
    record: dict[str, Any]
    """All that was logged."""

    def as_data(self) -> dict[str, Any]:
        """Return it for programs."""
        data = asdict(self)
        del data["at"], data["id"]
        return {"time": format_exact(self.at), **data}


def logs(
    part: Annotated[
        Part | None, typer.Argument(metavar="PART", help="Only records of this part: " + ", ".join(Part) + ".")
    ] = None,
    namespace: Namespace = "",
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Show only newer records: RFC 3339, or 15m, 2h, 3d.")
    ] = "1h",
    severity: Annotated[
        Severity, typer.Option(help="Show only this severity and above. notice: created, deleted or refused.")
    ] = Severity.INFO,
    most: Annotated[
        int,
        typer.Option(
            "--max", metavar="NUMBER", min=1, max=LINES_MAX, help=f"Only the newest so many, up to {LINES_MAX}."
        ),
    ] = 200,
    output: Output = Format.TABLE,
    *,
    follow: Follow = False,
    as_json: AsJson = False,
) -> None:
    """Show what the functions and the exporter logged.

    `why WORKLOAD` shows the history of one workload, and its Events too.

    Example: tpu-provisioner logs provision --severity notice --since 15m
    """
    with told():
        form = choose_format(output, as_json=as_json, endless="--follow" if follow else "")
        deployment = open_chosen()
        begin = parse_since(since, now=deployment.ports.clock.now())
        wanted = _write_filter(deployment, part, severity, namespace)
        seen: set[str] | None = None
        for found in repeat(lambda: read_lines(deployment, wanted, since=begin, most=most), endless=follow):
            new = [each for each in found if seen is None or each.id not in seen]
            if form.for_programs:
                print_data([each.as_data() for each in found], form)
            else:
                _print(open_console(), new, wide=form is Format.WIDE, first=seen is None)
            if seen is None and len(found) == most:
                typer.echo(f"{count(most, 'record')}, and older ones are left out; --max shows more", err=True)
            if seen is None and not found:
                typer.echo(f"no records since {format_moment(begin)}", err=True)
            seen = {each.id for each in found} | (seen or set())
    end_with(ExitCode.FINE)


def _write_filter(deployment: Deployment, part: Part | None, severity: Severity, namespace: str) -> str:
    """Return the filter of Cloud Logging. Only our records have a service and a version.

    The service of an exporter is the same in each deployment, so its cluster tells whose it is
    (https://cloud.google.com/monitoring/api/resources#tag_k8s_container).
    """
    wanted = ["jsonPayload.service:*", "jsonPayload.version:*", f"severity>={severity.upper()}"]
    if part is Part.EXPORTER:
        wanted.append('jsonPayload.logger:"exporter."')
    elif part:
        wanted.append(f'jsonPayload.function="{part}"')
    if namespace:
        wanted.append(f"jsonPayload.claim.namespace={json.dumps(namespace)}")
    names = [each.rpartition("/")[2] for each in deployment.ports.clusters]
    exporters = _is_any("resource.labels.cluster_name", names)
    if services := name_services(deployment.own).removeprefix(" AND "):
        wanted.append(f"({services} OR {exporters})")
    if chosen := deployment.chosen:
        named = (_is_any(path, chosen) for path in ("jsonPayload.cluster", "jsonPayload.claim.cluster"))
        wanted.append(f"({' OR '.join(named)} OR {exporters})")
    return " AND ".join(wanted)


def _is_any(path: str, values: Sequence[str]) -> str:
    return f"{path}=({' OR '.join(map(json.dumps, values))})"


def read_lines(deployment: Deployment, wanted: str, *, since: float, most: int) -> list[Line]:
    """Return the newest records that fit, in order of time, from all projects of the deployment.

    Raises:
        Misconfigured: logs are not read here.
        ProvisionerError: they could not be read.
    """
    open_logs = require_logs(deployment.open_logs)
    of_projects = {find_log_project(deployment.own, cluster): cluster for cluster in deployment.ports.clusters}
    entries = {
        each.insert_id or f"{each.timestamp} {each.payload}": each
        for cluster in of_projects.values()
        for each in list_newest(open_logs, cluster, wanted, since=since, most=most)
    }
    found = sorted((_describe(key, each) for key, each in entries.items()), key=lambda each: each.at)
    return found[-most:]


def _describe(key: str, entry: Any) -> Line:
    record = entry.payload if isinstance(entry.payload, dict) else {"message": str(entry.payload)}
    claim = record.get("claim")
    who = f"{claim.get('kind')} {claim.get('namespace')}/{claim.get('name')}" if isinstance(claim, dict) else ""
    return Line(
        id=key,
        at=read_moment(entry) or 0.0,
        service=str(record.get("service") or ""),
        severity=str(entry.severity or "DEFAULT"),
        message=str(record.get("message") or ""),
        reason=str(record.get("reason") or ""),
        workload=who,
        record=record,
    )


def _print(console: Console, lines: Sequence[Line], *, wide: bool, first: bool) -> None:
    """Print records as columns at first, and those that come later a line each."""
    rows = []
    for each in lines:
        what = f"{each.workload}: {each.message}" if each.workload else each.message
        what += f" [{each.reason}]" if each.reason else ""
        if wide:
            rest = {key: value for key, value in each.record.items() if key not in _TOLD}
            what += f" {json.dumps(rest, ensure_ascii=False)}"
        rows.append((format_moment(each.at), each.service, each.severity, what, each.severity in LOUD))
    if first and rows:
        print_columns(console, _HEADINGS, [[*row[:3], styled(row[3], "bad" if row[4] else "")] for row in rows])
        return
    for row in rows:
        print_line(console, styled("   ".join(row[:4]), "bad" if row[4] else ""))


_TOLD = ("message", "reason", "service", "severity", "time", "version", "logger", "claim", "function")
