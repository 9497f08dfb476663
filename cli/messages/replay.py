"""Delivers messages again: pushes since a time by a seek, dead letters by a new publish."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from cli.access.cli_settings import DEAD_LETTERS, find_subscription, find_topic, list_pushed
from cli.exit_codes import BadInput, ExitCode
from cli.messages.dead_letters import Choice, DeadLetter, Report, add_reasons, walk_dead_letters
from cli.moments import format_exact, format_moment, parse_since
from cli.printing import Column, Format, as_data, count, open_console, print_data, print_line, print_table, styled
from shared.edges.pubsub import PubsubTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cli.access.operator_access import Deployment
    from cli.access.subscriptions import PubsubAdmin
    from shared.model.messages import Message

_COLUMNS: list[Column[DeadLetter]] = [
    Column("message_id", heading="ID"),
    Column("publish_time", heading="PUBLISHED"),
    Column("function", heading="FUNCTION"),
    Column("subject", heading="SUBJECT"),
    Column("reason", heading="REASON"),
    Column("error", heading="MESSAGE"),
    Column("event_id"),
    Column("attributes"),
    Column("data"),
]


def confirm(question: str) -> None:
    """Return if a person agrees."""
    if not has_terminal():
        raise BadInput(f"--yes: is needed, because there is no terminal to ask on. {question}")
    if not typer.confirm(question, err=True):
        raise BadInput("nothing was changed")


def has_terminal() -> bool:
    """Return whether a person can answer."""
    return sys.stdin.isatty()


def seek_since(
    since: str, functions: Sequence[str], deployment: Deployment, form: Format, *, sure: bool
) -> ExitCode:
    """Let everything that was published since a moment be pushed again.

    What waits unacknowledged from before counts as acknowledged then, as
    https://cloud.google.com/pubsub/docs/replay-overview says; the next tick answers it.
    """
    admin = deployment.pubsub
    moment = parse_since(since, now=deployment.ports.clock.now())
    names, to = list_pushed(deployment.own, functions), format_moment(moment)
    subscriptions = [find_subscription(deployment.own, each) for each in names]
    problems = {each: _find_problem(admin, each) for each in subscriptions}
    if not sure:
        confirm(f"Deliver the messages of {', '.join(names)} again from {to}? Pub/Sub cannot count them.")
    for name, problem in problems.items():
        if not problem:
            admin.seek(name, format_exact(moment))
    if form.for_programs:
        rows = [{"subscription": name, "to": to, "problem": problem} for name, problem in problems.items()]
        print_data({"subscriptions": rows}, form)
    else:
        for name, problem in problems.items():
            text = styled(f"{name}: {problem}", "bad") if problem else f"{name} is set back to {to}"
            print_line(open_console(), text)
    return ExitCode.FINDINGS if any(problems.values()) else ExitCode.FINE


def _find_problem(admin: PubsubAdmin, name: str) -> str:
    """Return why nothing comes back to a subscription; empty if it may."""
    subscription = admin.find_subscription(name)
    if subscription is None:
        return f"the subscription {name} does not exist"
    topic = admin.find_topic(subscription.topic)
    if (topic is not None and topic.message_retention_duration) or subscription.retain_acked_messages:
        return ""
    command = f"gcloud pubsub topics update {subscription.topic} --message-retention-duration=7d"
    return f"acknowledged messages are not kept, so none is delivered again; to keep them from now on: {command}"


def publish_dead_letters(choice: Choice, deployment: Deployment, form: Format, *, sure: bool) -> ExitCode:
    """Publish the chosen dead letters again."""
    topic = PubsubTopic(deployment.pubsub.open_publisher, find_topic(deployment.own))
    if not sure:
        confirm(f"Publish {_count(deployment, choice)} again?")
    _print_done(_walk(deployment, choice, topic.publish), form, "published", "published again")
    return ExitCode.FINE


def discard(ids: tuple[str, ...], deployment: Deployment, form: Format, *, sure: bool) -> ExitCode:
    """Take the named dead letters away for good, or all of them."""
    choice = Choice(ids=ids)
    if not sure:
        confirm(f"Remove {_count(deployment, choice)} for good?")
    report = _walk(deployment, choice, lambda _messages: None)
    _print_done(report, form, "discarded", "removed")
    absent = sorted(set(ids) - report.seen)
    for each in absent:
        hint = "tpu-provisioner dead-letters list shows them"
        typer.echo(f"no dead letter has the ID {each[:80]!r}; {hint}", err=True)
    return ExitCode.FINDINGS if absent else ExitCode.FINE


def list_reasons(deployment: Deployment) -> list[DeadLetter]:
    """Return the dead letters, which all stay, with what the functions logged about them."""
    report = _walk(deployment, Choice())
    return add_reasons(report.dead_letters, deployment.open_logs, next(iter(deployment.ports.clusters)))


def print_dead_letters(dead_letters: Sequence[DeadLetter], form: Format) -> None:
    """Print dead letters that all stay."""
    if form.for_programs:
        print_data({"dead_letters": [as_data(_COLUMNS, each) for each in dead_letters]}, form)
        return
    console = open_console()
    if dead_letters:
        print_table(console, _COLUMNS, dead_letters)
        print_line(console)
    print_line(console, count(len(dead_letters), "dead letter"))


def _walk(
    deployment: Deployment, choice: Choice, handle: Callable[[list[Message]], object] | None = None
) -> Report:
    return walk_dead_letters(deployment.pubsub, find_subscription(deployment.own, DEAD_LETTERS), choice, handle)


def _count(deployment: Deployment, choice: Choice) -> str:
    return count(len(_walk(deployment, choice).dead_letters), "dead letter")


def _print_done(report: Report, form: Format, key: str, words: str) -> None:
    """Print what became of dead letters that were published again or discarded."""
    done = len(report.dead_letters)
    if form.for_programs:
        rows = [as_data(_COLUMNS, each) for each in report.dead_letters]
        print_data({"dead_letters": rows, key: done, "left": report.left}, form)
    else:
        print_line(open_console(), f"{done} {words}, {report.left} not selected")
