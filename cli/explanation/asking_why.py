"""One run of ``why``: reads the history in each cluster, prints it, and follows new entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from cli.endings import Ending
from cli.explanation.story_text import print_entries, print_story, select_entries
from cli.explanation.why import add_present, list_absent_kinds, parse_workload, tell
from cli.moments import parse_since
from cli.printing import Format, open_console, print_data
from cli.repeating import repeat
from shared.core.errors import ProvisionerError

if TYPE_CHECKING:
    from cli.access.operator_access import Deployment
    from cli.explanation.why import Story


def ask_why(
    deployment: Deployment, workload: str, namespace: str, *, since: str, form: Format, follow: bool
) -> Ending:
    """Print the history of a workload and return the exit code that it means.

    Raises:
        BadInput: the workload or the time is not valid.
    """
    home, name = parse_workload(workload, namespace)
    begin = parse_since(since, now=deployment.ports.clock.now()) if since else None
    wide, several = form is Format.WIDE, len(deployment.ports.clusters) > 1
    seen: set[tuple[float, str, str, str]] | None = None
    ending = Ending.FINE
    for stories in repeat(lambda: _tell_all(deployment, home, name), endless=follow):
        known = [story for story in stories if story.known]
        entries = [each for story in known for each in select_entries(story, wide=wide, since=begin)]
        keys = {(each.at, each.source, each.about, each.text) for each in entries}
        if form.for_programs:
            data = [story.as_data(since=begin) for story in known]
            print_data(data, form)
        elif seen is None:
            for story in known:
                now = deployment.ports.clock.now()
                print_story(open_console(), story, several=several, wide=wide, now=now, since=begin)
        else:
            new = keys - seen
            print_entries(
                open_console(), [each for each in entries if (each.at, each.source, each.about, each.text) in new]
            )
        seen = keys | (seen or set())
        if not known and not follow:
            _say_unknown(deployment, stories, f"{home}/{name}")
        ending = Ending.FINE if known and not any(story.now.stuck for story in known) else Ending.FINDINGS
    return ending


def _tell_all(deployment: Deployment, home: str, name: str) -> list[Story]:
    stories = [tell(deployment, cluster, home, name) for cluster in deployment.ports.clusters]
    for story in stories:
        add_present(story, deployment)
    return stories


def _say_unknown(deployment: Deployment, stories: list[Story], workload: str) -> None:
    typer.echo(f"workload {workload} is unknown: no object, Event, pool or log names it", err=True)
    for story in stories:
        try:
            absent = list_absent_kinds(deployment, story.cluster)
        except ProvisionerError:
            absent = []  # the lines below say what does not answer
        if absent:
            typer.echo(f"kinds without an answer in {story.cluster}: {', '.join(absent)}", err=True)
        for unread in story.unread:
            typer.echo(f"not read: {unread}", err=True)
