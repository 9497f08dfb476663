"""One run of ``why``: reads the history in each cluster, prints it, and follows new entries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import typer

from cli.exit_codes import ExitCode
from cli.explanation.history_text import print_entries, print_history, select_entries
from cli.explanation.why import find_owner, list_absent_kinds, parse_workload, tell
from cli.moments import parse_since
from cli.printing import Format, open_console, print_data
from cli.repeating import repeat
from shared.model.errors import ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cli.access.operator_access import Deployment
    from cli.explanation.history import Entry
    from cli.explanation.why import History


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
