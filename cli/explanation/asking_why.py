"""One run of ``why``: reads the history in each cluster, prints it, and follows new entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from cli.exit_codes import ExitCode
from cli.explanation.history_text import print_entries, print_history, select_entries
from cli.explanation.why import list_absent_kinds, parse_workload, tell
from cli.moments import parse_since
from cli.printing import Format, open_console, print_data
from cli.repeating import repeat
from shared.model.errors import ProvisionerError

if TYPE_CHECKING:
    from cli.access.operator_access import Deployment
    from cli.explanation.why import History


def ask_why(
    deployment: Deployment, workload: str, namespace: str, *, since: str, form: Format, follow: bool
) -> ExitCode:
    """Print the history of a workload and return the exit code that it means.

    Raises:
        BadInput: the workload or the time is not valid.
    """
    home, name = parse_workload(workload, namespace)
    begin = parse_since(since, now=deployment.ports.clock.now()) if since else None
    wide, several = form is Format.WIDE, len(deployment.ports.clusters) > 1
    seen: set[tuple[float, str, str, str]] | None = None
    code = ExitCode.FINE
    for histories in repeat(lambda: _tell_all(deployment, home, name), endless=follow):
        known = [history for history in histories if history.known]
        entries = [each for history in known for each in select_entries(history, wide=wide, since=begin)]
        keys = {each.key for each in entries}
        if form.for_programs:
            data = [history.as_data(since=begin) for history in known]
            print_data(data, form)
        elif seen is None:
            for history in known:
                now = deployment.ports.clock.now()
                print_history(open_console(), history, several=several, wide=wide, now=now, since=begin)
        else:
            print_entries(open_console(), [each for each in entries if each.key not in seen])
        seen = keys | (seen or set())
        if not known and not follow:
            _say_unknown(deployment, histories, f"{home}/{name}")
        fine = known and not any(history.now.troubles or history.now.errors for history in known)
        unread = not known and any(history.unread for history in histories)
        code = ExitCode.FINE if fine else ExitCode.UNREACHABLE if unread else ExitCode.FINDINGS
    return code


def _tell_all(deployment: Deployment, home: str, name: str) -> list[History]:
    return [tell(deployment, cluster, home, name) for cluster in deployment.ports.clusters]


def _say_unknown(deployment: Deployment, histories: list[History], workload: str) -> None:
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
