"""One run of ``why``: prints the history of a workload, repetitions as one row."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cli.exit_codes import ExitCode
from cli.explanation.why import find_owner, parse_workload, tell
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
    from collections.abc import Sequence

    from rich.console import Console
    from rich.text import Text

    from cli.access.connections import Deployment
    from cli.explanation.why import Entry, History
    from cli.fleet.rows import Row, WaitingRow

_VARIES = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\boperation-[-\w]+|\d+")
"""What differs between repetitions: times, names of operations, numbers."""


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
    collapsed = []
    for same in alike.values():
        first, last = same[0], same[-1]
        if len(same) > 1:
            ago = format_age(max(0.0, now - last.at))
            text = f"{len(same)} x, last {ago} ago: {last.text}"
            first = replace(last, at=first.at, text=text)
        collapsed.append(first)
    return sorted(collapsed, key=lambda each: each.at)


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
    _print_present(console, history)
    for each in history.unread:
        print_line(console, styled(f"not read: {each}", "warn"))


def _print_present(console: Console, history: History) -> None:
    now = history.now
    for pool in now.pools:
        slot = f", slot {pool.slot}, attempt {pool.attempt}" if pool.slot else ""
        _print_now(console, f"pool {pool.pool} is {pool.state}{slot}: {pool.decision}, {pool.message}", pool)
    for row in now.waiting:
        _print_now(console, _describe_wait(row), row)
    for row in now.left_alone:
        _print_now(console, f"a pod waits, and no node pool is created for it: {row.message}", row)
    others = _describe_others(history)
    for line in others or [_describe_nothing(history)] * now.is_empty:
        print_line(console, line)
    for reason, summary in history.reasons.items():
        print_line(console, styled(f"runbook, {reason}: {summary} (tpu-provisioner explain {reason})", "dim"))


def _describe_others(history: History) -> list[Text]:
    """Return what the owner reads beside what the rows say."""
    shown = {row.message for row in (*history.now.waiting, *history.now.left_alone)}
    return [
        styled(f"now: {each.verdict}: {each.message} [{each.reason}]", "bad" if needs_a_person(each) else "")
        for each in history.decisions
        if each.message not in shown
    ]


def _describe_wait(row: WaitingRow) -> str:
    """Return what waits and why, with what was tried, and what the limits leave."""
    parts = [f"{count(row.slices, 'slice')} of {row.shape or 'it'} wait: {row.message}"]
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


def _print_now(console: Console, text: str, row: Row) -> None:
    reason = f" [{row.reason}]" if row.reason else ""
    print_line(console, styled(f"now: {text}{reason}", "bad" if row.stuck else "ok"))


def show_why(
    deployment: Deployment, workload: Sequence[str], namespace: str, since: str, form: Format
) -> ExitCode:
    """Print the history of a workload, or of that of a pod, and return the exit code it means."""
    kind, home, name = parse_workload(workload, namespace)
    now, clusters = deployment.ports.clock.now(), deployment.ports.clusters
    begin = parse_since(since, now=now) if since else 0.0
    histories = [_tell(deployment, cluster, kind, home, name) for cluster in clusters]
    present = [each for each in histories if each.known]
    if form.for_programs:
        print_data([each.as_data(since=begin) for each in present], form)
    else:
        _print_histories(present, several=len(clusters) > 1, form=form, now=now, since=begin)
    if not present:
        return _warn_of_nothing(f"{home}/{name}", histories)
    return ExitCode.FINDINGS if any(each.stuck for each in present) else ExitCode.FINE


def _print_histories(histories: Sequence[History], **how: Any) -> None:
    for each in histories:
        print_history(open_console(), each, **how)


def _tell(deployment: Deployment, cluster: str, kind: str, namespace: str, name: str) -> History:
    if kind == "Pod":
        kind, name = find_owner(deployment, cluster, namespace, name)
    return tell(deployment, cluster, namespace, name, kind)


def _warn_of_nothing(workload: str, histories: Sequence[History]) -> ExitCode:
    unread = [text for each in histories for text in each.unread]
    what = "could not be read: no source that answers" if unread else "is unknown: no object, Event, pool or log"
    warn(f"workload {workload} {what} names it")
    for text in unread:
        warn(f"not read: {text}")
    return ExitCode.UNREACHABLE if unread else ExitCode.FINDINGS
