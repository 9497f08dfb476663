"""Prints the status for people: pools, what waits, failed creations, and one line of sums."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from cli.printing import count, format_age, print_columns, print_line, short_cluster, styled
from shared.model.decisions import Verdict
from shared.model.times import format_minute, parse_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from cli.fleet.failed_creations import FailureRow
    from cli.fleet.status import Status
    from cli.fleet.status_rows import PoolRow, WaitingRow


_SHOW = "tpu-provisioner status -o wide shows each with its message"


def print_status(console: Console, status: Status, *, wide: bool) -> None:
    """Print the status for people: pools, then what waits, then one line that sums it up."""
    if status.pools:
        headings = ["POOL", "WORKLOAD", "STATE", "CHIPS", "HOSTS", "AGE", "REASON"]
        extra = ["ATTEMPT", "FAILURE", "CLUSTER", "SLICE", "NODES", "MACHINE", "TOPOLOGY", "MESSAGE"]
        print_columns(console, headings + extra * wide, [_pool_cells(row, wide=wide) for row in status.pools])
    if status.waiting:
        if status.pools:
            print_line(console)
        headings = ["WAITING SLICE", "WORKLOAD", "FOR", "DECISION", "REASON", "ATTEMPT", "FAILURE", "NEXT TRY"]
        extra = ["CLUSTER", "LEADER", "POOL", "MESSAGE"]
        print_columns(console, headings + extra * wide, [_waiting_cells(row, wide=wide) for row in status.waiting])
    if status.failures:
        print_line(console)
        headings = ["FAILED SLICE", "WORKLOAD", "TIMES", "LAST FAILURE", "ZONE", "SINCE", "LAST"]
        print_columns(
            console, headings + ["MESSAGE"] * wide, [_failure_cells(each, wide=wide) for each in status.failures]
        )
    if status.left_alone and wide:
        print_line(console)
        headings = ["POD LEFT ALONE", "FOR", "REASON", "CLUSTER", "MESSAGE"]
        print_columns(console, headings, [_alone_cells(row) for row in status.left_alone])
    if status.pools or status.waiting:
        print_line(console)
    _print_sums(console, status)
    for trouble in status.troubles:
        print_line(console, styled(str(trouble), "warn"))


def _print_sums(console: Console, status: Status) -> None:
    chips, idle = sum(row.chips for row in status.pools), sum(row.chips_idle for row in status.pools)
    tail = f"; {status.stuck} need{'s' * (status.stuck == 1)} a person" if status.stuck else ""
    unused = f" ({idle} idle)" if idle else ""
    if status.asked:
        print_line(
            console,
            f"{count(len(status.pools), 'pool')} with {count(chips, 'chip')}{unused}, "
            f"{count(len(status.waiting), 'slice')} waiting{tail}",
        )
    if status.left_alone:
        print_line(console, tell_left_alone(status.left_alone))
    for cluster, why in status.stops.items():
        text = f"{short_cluster(cluster)}: {why}"
        print_line(console, styled(text, "bad"))


def tell_left_alone(rows: Sequence[WaitingRow]) -> str:
    """Return how many pods wait for something else, with the reasons; empty if there are none."""
    if not rows:
        return ""
    reasons = ", ".join(f"{times} {reason}" for reason, times in Counter(row.reason for row in rows).most_common())
    return f"not for this provisioner: {count(len(rows), 'leader pod')} waiting ({reasons}); {_SHOW}"


def _pool_cells(row: PoolRow, *, wide: bool) -> list[Any]:
    age = format_age(row.age_seconds)
    look = "bad" if row.stuck else "ok" if row.state == "RUNNING" else "warn"
    cells = [
        row.pool,
        f"{row.namespace}/{row.workload}",
        styled(row.state, look),
        str(row.chips),
        "-" if row.hosts_busy is None else f"{row.hosts_busy}/{row.nodes}",
        age,
        styled(row.reason + _tell_idle(row), "bad" if row.stuck else ""),
    ]
    extra = [
        str(row.attempt),
        row.failure or "-",
        short_cluster(row.cluster),
        row.slice or "-",
        str(row.nodes),
        row.machine_type,
        row.topology or "-",
        row.message,
    ]
    return cells + extra * wide


def _tell_idle(row: PoolRow) -> str:
    if not row.warm:
        return ""
    most = format_age(row.idle_seconds_max)
    return (
        f": up to {most}" if row.idle_seconds is None else f": idle for {format_age(row.idle_seconds)} of {most}"
    )


def _waiting_cells(row: WaitingRow, *, wide: bool) -> list[Any]:
    waited = format_age(row.waiting_seconds)
    cells = [
        row.slice or "(all)",
        f"{row.namespace}/{row.workload}",
        waited,
        styled(row.decision, "bad" if row.stuck else ""),
        styled(row.reason, "bad" if row.stuck else ""),
        _tell_attempt(row),
        row.failure or "-",
        _format_next(row),
    ]
    return cells + [short_cluster(row.cluster), row.pod or "-", row.pool or "-", row.message] * wide


def _alone_cells(row: WaitingRow) -> list[Any]:
    waited = format_age(row.waiting_seconds)
    return [f"{row.namespace}/{row.pod}", waited, row.reason, short_cluster(row.cluster), row.message]


def _tell_attempt(row: WaitingRow) -> str:
    """Return the attempt, and which candidate of how many it tries."""
    if row.attempt is None:
        return "-"
    parts = row.candidate.split("-")
    return f"{row.attempt} ({' '.join(parts[:3])})" if row.candidate else str(row.attempt)


def _failure_cells(row: FailureRow, *, wide: bool) -> list[Any]:
    cells = [
        row.slice or "-",
        f"{row.namespace}/{row.workload}",
        str(row.count),
        styled(row.failure, "bad" if row.lasts else "warn"),
        row.zone or "-",
        row.since,
        f"{format_age(row.last_seconds)} ago",
    ]
    return cells + [row.error] * wide


def _format_next(row: WaitingRow) -> str:
    """Return when a failed creation is tried again; ``-`` if never by itself."""
    at = parse_time(row.next_try)
    if at is not None:
        return format_minute(at)
    return "now" if row.failure and row.decision == Verdict.CREATE else "-"
