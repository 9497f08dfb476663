"""One run of ``why``: prints the history of a workload, and follows new entries.

Repetitions are one row, and a row divides its UIDs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import typer

from cli.exit_codes import ExitCode
from cli.explanation.why import find_owner, list_absent_kinds, parse_workload, tell
from cli.fleet.rows import needs_a_person
from cli.moments import format_moment, parse_since, repeat
from cli.printing import (
    Format,
    count,
    format_age,
    open_console,
    print_columns,
    print_data,
    print_line,
    short_cluster,
    styled,
)
from shared.model.errors import ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console
    from rich.text import Text

    from cli.access.operator_access import Deployment
    from cli.explanation.history import Entry
    from cli.explanation.why import History
    from cli.fleet.rows import Row, WaitingRow

_VARIES = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\boperation-[-\w]+|\d+")
"""What differs between repetitions: times, names of operations, numbers."""


def select_entries(history: History, *, wide: bool, since: float | None) -> list[Entry]:
    """Return the entries that are shown, in order of time; details only when `wide`."""
    return [each for each in history.entries if (wide or not each.detail) and (since is None or each.at >= since)]


def collapse(entries: Sequence[Entry], *, now: float) -> list[Entry]:
    """Return the entries; those that repeat each other are one, at the time of the first.

    Its text is that of the last one, with how often it came and how long ago.
    """
    alike: dict[tuple[str, str, str, str], list[Entry]] = {}
    for each in entries:
        about = _VARIES.sub("#", each.about)
        alike.setdefault((each.source, about, _VARIES.sub("#", each.text), each.owner_uid), []).append(each)
    found = []
    for same in alike.values():
        first, last = same[0], same[-1]
        if len(same) > 1:
            ago = format_age(max(0.0, now - last.at))
            text = f"{len(same)} x, last {ago} ago: {last.text}"
            first = replace(last, at=first.at, text=text)
        found.append(first)
    return sorted(found, key=lambda each: each.at)


def print_history(
    console: Console, history: History, *, several: bool, wide: bool, now: float, since: float | None = None
) -> None:
    """Print a history for people, then the present state."""
    if several:
        print_line(console, styled(short_cluster(history.cluster), "dim"))
    shown = select_entries(history, wide=wide, since=since)
    rows = _divide(shown if wide else collapse(shown, now=now), history)
    if rows:
        print_columns(console, ["TIME", "SOURCE", "ABOUT", "WHAT"], rows)
        print_line(console)
    hidden = len(select_entries(history, wide=True, since=since)) - len(shown)
    if hidden:
        print_line(console, styled(f"{hidden} more with -o wide: steps of Kubernetes, and repetitions", "dim"))
    _print_present(console, history)
    for each in history.unread:
        print_line(console, styled(f"not read: {each}", "warn"))


def print_entries(console: Console, entries: Iterable[Entry]) -> None:
    """Print entries that came later, a line each."""
    for each in entries:
        line = f"{format_moment(each.at)}   {each.source}   {each.about}   {each.text}"
        print_line(console, styled(line, "bad" if each.bad else ""))


def _divide(entries: Sequence[Entry], history: History) -> list[list[str | Text]]:
    """Return a row for each entry, and one before each later workload of this name."""
    rows: list[list[str | Text]] = []
    known: set[str] = set()
    for each in entries:
        if each.owner_uid and each.owner_uid not in known:
            if known:
                what = f"another {history.kind or 'workload'} of this name, UID {each.owner_uid}"
                rows.append(
                    [format_moment(each.at), "-", f"{history.namespace}/{history.name}", styled(what, "dim")]
                )
            known.add(each.owner_uid)
        rows.append(
            [format_moment(each.at), each.source, each.about, styled(each.text, "bad" if each.bad else "")]
        )
    return rows


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
    """Return what the owner is told beside what the rows say."""
    told = {row.message for row in (*history.now.waiting, *history.now.left_alone)}
    return [
        styled(f"now: {each.verdict}: {each.message} [{each.reason}]", "bad" if needs_a_person(each) else "")
        for each in history.decisions
        if each.message not in told
    ]


def _describe_wait(row: WaitingRow) -> str:
    """Return what waits and why, with what was tried, and what the limits leave."""
    parts = [f"{count(row.slices, 'slice')} of {row.shape or 'it'} wait: {row.message}"]
    parts += [f"{count(row.failures, 'creation')} failed, the last by {row.failure}"] * bool(row.failures)
    parts += [f"the next try is at {row.next_try}"] * bool(row.next_try)
    parts += [f"the limits leave room for {row.room_chips} chips"] * (row.room_chips is not None)
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


@dataclass(slots=True, kw_only=True)
class Asking:
    """How a history is shown, and what of it was shown before."""

    form: Format
    since: float | None
    several: bool
    """There are several clusters, so each is named."""
    seen: set[tuple[float, str, str, str]] | None = None
    """None before anything was shown."""
    histories: list[History] = field(default_factory=list)
    """Those that are known."""

    def show(self, histories: Sequence[History], now: float) -> None:
        """Print what is known: all of it at first, then only new entries."""
        self.histories = [history for history in histories if history.known]
        entries = self._select()
        before = self.seen
        self.seen = {each.key for each in entries} | (before or set())
        if self.form.for_programs:
            print_data([history.as_data(since=self.since) for history in self.histories], self.form)
        elif before is None:
            self._print_all(now)
        else:
            print_entries(open_console(), [each for each in entries if each.key not in before])

    def _print_all(self, now: float) -> None:
        wide = self.form is Format.WIDE
        for history in self.histories:
            print_history(open_console(), history, several=self.several, wide=wide, now=now, since=self.since)

    def _select(self) -> list[Entry]:
        wide = self.form is Format.WIDE
        return [each for one in self.histories for each in select_entries(one, wide=wide, since=self.since)]


def ask_why(
    deployment: Deployment, workload: Sequence[str], namespace: str, *, since: str, form: Format, follow: bool
) -> ExitCode:
    """Print the history of a workload, or of that of a pod, and return the exit code it means."""
    kind, home, name = parse_workload(workload, namespace)
    clusters, clock = deployment.ports.clusters, deployment.ports.clock
    begin = parse_since(since, now=clock.now()) if since else None
    asking, code = Asking(form=form, since=begin, several=len(clusters) > 1), ExitCode.FINE

    def look() -> list[History]:
        named = dict.fromkeys(clusters, (kind, name))
        if kind == "Pod":
            named = {each: find_owner(deployment, each, home, name) for each in clusters}
        return [tell(deployment, each, home, owner, of) for each, (of, owner) in named.items()]

    for histories in repeat(look, endless=follow):
        asking.show(histories, clock.now())
        if not asking.histories and not follow:
            _say_unknown(deployment, histories, f"{home}/{name}")
        code = _find_code(histories, asking.histories)
    return code


def _find_code(histories: Sequence[History], known: Sequence[History]) -> ExitCode:
    if not known:
        return ExitCode.UNREACHABLE if any(history.unread for history in histories) else ExitCode.FINDINGS
    stuck = any(history.now.troubles or history.now.errors for history in known)
    return ExitCode.FINDINGS if stuck else ExitCode.FINE


def _say_unknown(deployment: Deployment, histories: Sequence[History], workload: str) -> None:
    what = "is unknown: no object, Event, pool or log names it"
    if any(history.unread for history in histories):
        what = "could not be read: no source that answers names it"
    typer.echo(f"workload {workload} {what}", err=True)
    for history in histories:
        try:
            absent = list_absent_kinds(deployment, history.cluster)
        except ProvisionerError:
            absent = []  # the lines below say what does not answer
        if absent:
            typer.echo(f"kinds without an answer in {history.cluster}: {', '.join(absent)}", err=True)
        for unread in history.unread:
            typer.echo(f"not read: {unread}", err=True)
