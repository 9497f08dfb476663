"""Prints the history of a workload: repetitions are one row, and a row divides its UIDs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from cli.fleet.failed_creations import tell_failures
from cli.fleet.status_rows import tell_reason
from cli.moments import format_moment
from cli.printing import format_age, print_columns, print_line, short_cluster, styled
from shared.model.decisions import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console
    from rich.text import Text

    from cli.explanation.history import Entry
    from cli.explanation.why import History
    from cli.fleet.status_rows import WaitingRow

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
    """Print a history for people, then the present state.

    Args:
        console: where to.
        history: of one workload in one cluster.
        several: there are several clusters, so this one is named.
        wide: with details, and each repetition.
        now: unix seconds.
        since: unix seconds; earlier entries are left out.
    """
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
    for row in now.pools:
        line = f"now: pool {row.pool} is {row.state}: {row.message} {tell_reason(row)}"
        print_line(console, styled(line, _look(row.stuck)))
    failing = {each.key for each in now.failures}
    told = {row.key for row in now.waiting if row.failure}
    for waiting in now.waiting:
        if waiting.decision == Verdict.CREATE and waiting.key in failing - told:
            continue  # what it would ask for is not news: GKE has refused it
        line = f"now: {_tell_who(waiting)}: {waiting.message} {tell_reason(waiting)}"
        print_line(console, styled(line, _look(waiting.stuck)))
    for failed in (each for each in now.failures if each.key not in told):
        print_line(console, styled(f"now: {tell_failures(failed, now.pools)}", _look(failed.lasts)))
    for alone in now.left_alone:
        why = f"{alone.message} {tell_reason(alone)}"
        line = f"now: pod {alone.pod} waits, and no node pool is created for it: {why}"
        print_line(console, styled(line, "warn"))
    if now.is_empty:
        here = "has no pools with its labels, and no pod that waits for one"
        state = here if history.exists else "does not exist, and has no pools"
        if now.errors:
            state = "has an unknown state, because a source could not be read"
        line = f"now: {history.kind or 'workload'} {history.namespace}/{history.name} {history.suspended or state}"
        print_line(console, styled(line, "warn" if history.suspended else ""))


def _tell_who(waiting: WaitingRow) -> str:
    return f"slice {waiting.slice} waits"


def _look(stuck: bool) -> str:  # noqa: FBT001 -- private, and named by its callers' rows
    return "bad" if stuck else "ok"
