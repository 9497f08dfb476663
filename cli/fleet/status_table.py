"""Prints the status for people: pools, what waits, and one line of sums."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cli.printing import Column, count, format_age, format_minute, print_line, print_table, short_cluster, styled
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.text import Text

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


def _show_next(row: WaitingRow) -> str:
    at = parse_time(row.next_try)
    return "-" if at is None else format_minute(at)


_WIDE: list[Column[Row]] = [
    Column("CLUSTER", lambda row: short_cluster(row.cluster), wide=True),
    Column("KIND", lambda row: row.kind, wide=True),
    Column("MESSAGE", lambda row: row.message, wide=True),
]
POOLS: list[Column[PoolRow]] = [
    Column("POOL", lambda row: row.pool),
    Column("WORKLOAD", lambda row: row.owner),
    Column("STATE", _show_state),
    Column("CHIPS", lambda row: str(row.chips)),
    Column("BUSY", lambda row: f"{row.hosts_busy}/{row.nodes}"),
    Column("AGE", lambda row: format_age(row.age_seconds)),
    Column("PLAN", _show_plan),
    Column("REASON", _show_reason),
    Column("SLOT", lambda row: row.slot or "-", wide=True),
    Column("ATTEMPT", lambda row: str(row.attempt), wide=True),
    Column("FAILURE", lambda row: row.failure or "-", wide=True),
    Column("MACHINE", lambda row: row.machine_type, wide=True),
    Column("TOPOLOGY", lambda row: row.topology or "-", wide=True),
    *_WIDE,
]
WAITING: list[Column[WaitingRow]] = [
    Column("WAITING", lambda row: row.owner),
    Column("NEEDS", lambda row: row.shape or "-"),
    Column("SLICES", lambda row: str(row.slices)),
    Column("FOR", lambda row: format_age(row.waiting_seconds)),
    Column("DECISION", lambda row: styled(row.decision, _look(row))),
    Column("REASON", _show_reason),
    Column("ATTEMPT", _show_attempt),
    Column("FAILED", lambda row: f"{row.failures} x {row.failure}" if row.failures else "-"),
    Column("NEXT TRY", _show_next),
    *_WIDE,
]
LEFT_ALONE: list[Column[WaitingRow]] = [
    Column("LEFT ALONE", lambda row: row.owner),
    Column("FOR", lambda row: format_age(row.waiting_seconds)),
    Column("REASON", _show_reason),
    *_WIDE,
]


def print_status(console: Console, status: Status, *, wide: bool) -> None:
    """Print the status for people: pools, then what waits, then what sums it up."""
    if status.pools:
        print_table(console, POOLS, status.pools, wide=wide)
        print_line(console)
    if status.waiting:
        print_table(console, WAITING, status.waiting, wide=wide)
        print_line(console)
    if status.left_alone and wide:
        print_table(console, LEFT_ALONE, status.left_alone, wide=True)
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
