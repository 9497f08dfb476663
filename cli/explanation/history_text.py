"""One run of ``why``: prints the history of a workload, repetitions as one row."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from cli.exit_codes import ExitCode
from cli.explanation.why import parse_workload, tell
from cli.fleet.rows import needs_a_person
from cli.printing import (
    Column,
    Format,
    count,
    format_age,
    format_moment,
    open_console,
    parse_since,
    print_data,
    print_line,
    print_table,
    short_cluster,
    styled,
    warn,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console
    from rich.text import Text

    from cli.access.connections import Deployment
    from cli.explanation.why import Entry, History
    from cli.fleet.rows import Row, WaitingRow
    from cli.fleet.status import Status

_VARIES = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\boperation-[-\w]+|-[a-z0-9]{5}$|\d+")
"""What differs between repetitions: times, names of operations, ends of names of pods, numbers."""


_COLUMNS: list[Column[Entry]] = [
    Column("at", heading="TIME", show=lambda each: format_moment(each.at)),
    Column("source", heading="SOURCE"),
    Column("about", heading="ABOUT"),
    Column("text", heading="WHAT", show=lambda each: styled(each.text, "bad" if each.bad else "")),
]


def collapse(entries: Sequence[Entry], *, now: float) -> list[Entry]:
    """Return the entries; those that repeat each other are one, at the time of the first.

    Its text is that of the last one, with how often it came and how long ago.
    """
    alike: dict[tuple[str, str, str], list[Entry]] = {}
    for each in entries:
        about, text = _VARIES.sub("#", each.about), _VARIES.sub("#", each.text)
        alike.setdefault((each.source, about, text), []).append(each)
    collapsed = [same[0] if len(same) == 1 else _merge(same, now) for same in alike.values()]
    return sorted(collapsed, key=lambda each: each.at)


def _merge(same: Sequence[Entry], now: float) -> Entry:
    last = same[-1]
    text = f"{len(same)} x, last {format_age(max(0.0, now - last.at))} ago: {last.text}"
    return replace(last, at=same[0].at, text=text)


def print_history(
    console: Console, history: History, *, several: bool, form: Format, now: float, since: float = 0.0
) -> None:
    """Print a history for people, then the present state."""
    if several:
        print_line(console, styled(short_cluster(history.cluster), "dim"))
    shown = [each for each in history.entries if each.at >= since]
    rows = shown if form is Format.WIDE else collapse(shown, now=now)
    if rows:
        print_table(console, _COLUMNS, rows)
        print_line(console)
    for line in (*_list_rows(history.now), *_list_others(history)):
        print_line(console, line)


def _list_rows(now: Status) -> Iterator[Text]:
    """Yield what the plan does with each pool, and for each need that waits."""
    for pool in now.pools:
        slot = f", slot {pool.slot}, attempt {pool.attempt}" if pool.slot else ""
        yield _write(f"pool {pool.pool} is {pool.state}{slot}: {pool.decision}, {pool.message}", pool)
    for row in now.waiting:
        yield _write(_describe_wait(row), row)
    for row in now.left_alone:
        yield _write(f"a pod waits, and no node pool is created for it: {row.message}", row)


def _list_others(history: History) -> Iterator[Text]:
    """Yield what the owner reads beside what the rows say, and the runbook's words."""
    shown = {row.message for row in (*history.now.pools, *history.now.waiting, *history.now.left_alone)}
    others = [each for each in history.decisions if each.message not in shown]
    for each in others:
        text = f"now: {each.verdict}: {each.message} [{each.reason}]"
        yield styled(text, "bad" if needs_a_person(each) else "")
    if history.now.is_empty and not others:
        yield _describe_nothing(history)
    for reason, summary in history.reasons.items():
        yield styled(f"runbook, {reason}: {summary} (tpu-provisioner explain {reason})", "dim")
    yield from (styled(f"not read: {each}", "warn") for each in history.unread)


def _describe_wait(row: WaitingRow) -> str:
    """Return what waits and why, with what was tried, and what the limits leave."""
    waits = "waits" if row.slices == 1 else "wait"
    needs = f" for {row.shape}" if row.shape else ""
    parts = [f"{count(row.slices, 'slice')} {waits}{needs}: {row.message}"]
    parts += [f"{count(row.failures, 'creation')} failed, the last by {row.failure}"] * bool(row.failures)
    parts += [f"the next try is at {row.next_try}"] * bool(row.next_try)
    return "; ".join(parts)


def _describe_nothing(history: History) -> Text:
    """Return what is known of a workload without pools and without pods that wait."""
    state = "has no pools with its labels, and no pod that waits for one"
    if not history.exists:
        state = "does not exist, and has no pools"
    if history.now.errors:
        state = "has an unknown state, because a source could not be read"
    line = f"now: {history.kind or 'workload'} {history.namespace}/{history.name} {history.suspended or state}"
    return styled(line, "warn" if history.suspended else "")


def _write(text: str, row: Row) -> Text:
    reason = f" [{row.reason}]" if row.reason else ""
    return styled(f"now: {text}{reason}", "bad" if row.stuck else "ok")


def show_why(
    deployment: Deployment, workload: Sequence[str], namespace: str, since: str, form: Format
) -> ExitCode:
    """Print the history of a workload, or of that of a pod, and return the exit code it means."""
    kind, home, name = parse_workload(workload, namespace)
    now, clusters = deployment.ports.clock.now(), deployment.ports.clusters
    begin = parse_since(since, now=now) if since else 0.0
    histories = [tell(deployment, cluster, kind, home, name) for cluster in clusters]
    present = [each for each in histories if each.exists or each.entries]
    if form.for_programs:
        print_data([each.as_data(since=begin) for each in present], form)
    else:
        for each in present:
            print_history(open_console(), each, several=len(clusters) > 1, form=form, now=now, since=begin)
    return _find_code(present) if present else _warn_of_nothing(f"{home}/{name}", histories)


def _find_code(histories: Sequence[History]) -> ExitCode:
    unsettled = any(each.now.troubles or each.now.errors for each in histories)
    return ExitCode.FINDINGS if unsettled else ExitCode.FINE


def _warn_of_nothing(workload: str, histories: Sequence[History]) -> ExitCode:
    unread = [text for each in histories for text in each.unread]
    what = "could not be read: no source that answers" if unread else "is unknown: no object, Event, pool or log"
    warn(f"workload {workload} {what} names it")
    for text in unread:
        warn(f"not read: {text}")
    return ExitCode.UNREACHABLE if unread else ExitCode.FINDINGS
