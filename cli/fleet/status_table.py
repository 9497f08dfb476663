"""Prints the status for people: pools, what waits, and one line of sums."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from cli.exit_codes import ExitCode
from cli.fleet.status import read_status
from cli.printing import (
    Column,
    Format,
    count,
    format_age,
    format_minute,
    open_console,
    print_data,
    print_line,
    print_table,
    short_cluster,
    styled,
    warn,
)
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.text import Text

    from cli.access.operator_access import Deployment
    from cli.fleet.rows import PoolRow, Row, WaitingRow
    from cli.fleet.status import Status

_SHOW = "tpu-provisioner status -o wide shows each with its message"


def _look(row: Row) -> str:
    return "bad" if row.stuck else ""


def _show_reason(row: Row) -> str | Text:
    return styled(row.reason or "-", _look(row))


def _show_state(row: PoolRow) -> str | Text:
    return styled(row.state, "bad" if row.failure else "ok" if row.state == "RUNNING" else "warn")


def _show_plan(row: PoolRow) -> str | Text:
    idle = "" if row.idle_seconds is None else f", idle for {format_age(row.idle_seconds)}"
    return styled(row.decision + idle, _look(row))


def _show_attempt(row: WaitingRow) -> str:
    if row.attempt is None:
        return "-"
    return f"{row.attempt} ({row.candidate})" if row.candidate else str(row.attempt)


def _show_failures(row: WaitingRow) -> str:
    return f"{row.failures} x {row.failure}" if row.failures else "-"


def _show_next(row: WaitingRow) -> str:
    at = parse_time(row.next_try)
    return "-" if at is None else format_minute(at)


_WIDE: list[Column[Any]] = [
    Column("cluster", heading="CLUSTER", show=lambda row: short_cluster(row.cluster), wide=True),
    Column("kind", heading="KIND", wide=True),
    Column("message", heading="MESSAGE", wide=True),
]
POOLS: list[Column[PoolRow]] = [
    Column("pool", heading="POOL"),
    Column("owner", heading="WORKLOAD"),
    Column("state", heading="STATE", show=_show_state),
    Column("chips", heading="CHIPS"),
    Column("hosts_busy", heading="BUSY", show=lambda row: f"{row.hosts_busy}/{row.nodes}"),
    Column("age_seconds", heading="AGE", show=lambda row: format_age(row.age_seconds)),
    Column("decision", heading="PLAN", show=_show_plan),
    Column("reason", heading="REASON", show=_show_reason),
    Column("slot", heading="SLOT", wide=True),
    Column("attempt", heading="ATTEMPT", wide=True),
    Column("failure", heading="FAILURE", wide=True),
    Column("machine_type", heading="MACHINE", wide=True),
    Column("topology", heading="TOPOLOGY", wide=True),
    *_WIDE,
]
WAITING: list[Column[WaitingRow]] = [
    Column("owner", heading="WAITING"),
    Column("shape", heading="NEEDS"),
    Column("slices", heading="SLICES"),
    Column("waiting_seconds", heading="FOR", show=lambda row: format_age(row.waiting_seconds)),
    Column("decision", heading="DECISION", show=lambda row: styled(row.decision, _look(row))),
    Column("reason", heading="REASON", show=_show_reason),
    Column("attempt", heading="ATTEMPT", show=_show_attempt),
    Column("failures", heading="FAILED", show=_show_failures),
    Column("next_try", heading="NEXT TRY", show=_show_next),
    *_WIDE,
]
LEFT_ALONE: list[Column[WaitingRow]] = [
    Column("owner", heading="LEFT ALONE"),
    Column("waiting_seconds", heading="FOR", show=lambda row: format_age(row.waiting_seconds)),
    Column("reason", heading="REASON", show=_show_reason),
    *_WIDE,
]


def show_status(deployment: Deployment, namespace: str, form: Format) -> ExitCode:
    """Print the present status and return the exit code that it means."""
    status = read_status(deployment.ports, namespace=namespace, open_logs=deployment.open_logs)
    if form.for_programs:
        print_data(status.as_data(), form)
    else:
        print_status(open_console(), status, wide=form is Format.WIDE)
    for text in (*(f"not read: {each}" for each in status.unread), *(f"error: {each}" for each in status.errors)):
        warn(text)
    if status.errors:
        return ExitCode.UNREACHABLE
    return ExitCode.FINDINGS if status.troubles else ExitCode.FINE


def print_status(console: Console, status: Status, *, wide: bool) -> None:
    """Print the status for people: pools, then what waits, then what sums it up."""
    tables: list[tuple[list[Column[Any]], Sequence[Row]]] = [
        (POOLS, status.pools),
        (WAITING, status.waiting),
        (LEFT_ALONE, status.left_alone if wide else []),
    ]
    for columns, rows in tables:
        if rows:
            print_table(console, columns, rows, wide=wide)
            print_line(console)
    _print_sums(console, status)
    for trouble in status.troubles:
        print_line(console, styled(str(trouble), "warn"))


def _sum_up(status: Status) -> str:
    """Return how many pools, chips and waiting slices there are, and what needs a person."""
    chips, idle = sum(row.chips for row in status.pools), sum(row.chips_idle for row in status.pools)
    unused = f" ({idle} idle)" if idle else ""
    stuck, slices = len(status.troubles), sum(row.slices for row in status.waiting)
    tail = f"; {stuck} need{'s' * (stuck == 1)} a person" if stuck else ""
    pools = f"{count(len(status.pools), 'pool')} with {count(chips, 'chip')}{unused}"
    return f"{pools}, {count(slices, 'slice')} waiting{tail}"


def _print_sums(console: Console, status: Status) -> None:
    if not (status.errors and status.is_empty):
        print_line(console, _sum_up(status))
    for cluster, rooms in status.room.items():
        told = ", ".join(f"{count(room, 'chip')} in namespace {name}" for name, room in sorted(rooms.items()))
        print_line(console, f"{short_cluster(cluster)}: the limits leave room for {told}")
    if status.left_alone:
        print_line(console, tell_left_alone(status.left_alone))
    for cluster, why in status.stops.items():
        print_line(console, styled(f"{short_cluster(cluster)}: {why}", "bad"))


def tell_left_alone(rows: Sequence[WaitingRow]) -> str:
    """Return how many workloads wait for something else, with the reasons; empty if none does."""
    if not rows:
        return ""
    reasons = ", ".join(f"{times} {reason}" for reason, times in Counter(row.reason for row in rows).most_common())
    return f"not for this provisioner: {count(len(rows), 'workload')} waiting ({reasons}); {_SHOW}"
