"""Delivers messages again: pushes since a time by a seek, dead letters by a new publish."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from cli.access.cli_settings import DEAD_LETTERS, find_subscription, find_topic, list_pushed
from cli.exit_codes import BadInput, ExitCode
from cli.messages.dead_letters import (
    MOST,
    Choice,
    DeadLetter,
    DeadLetterQueue,
    DeadLetterReport,
    add_reasons,
    publish_again,
    read_dead_letters,
    take_away,
)
from cli.moments import format_exact, format_moment, parse_since
from cli.printing import (
    Column,
    Format,
    as_data,
    count,
    format_age,
    open_console,
    print_data,
    print_line,
    print_table,
    styled,
)
from shared.edges.pubsub import PubsubTopic

if TYPE_CHECKING:
    from cli.access.operator_access import Deployment
    from cli.access.subscriptions import PubsubAdmin

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What the command line asked for."""

    since: str = ""
    dead_letters: bool = False
    functions: tuple[str, ...] = ()
    most: int | None = None
    """Largest number of dead letters."""
    sure: bool = False
    """Nobody is asked."""

    def check(self) -> None:
        """Accept a request that says one thing."""
        if bool(self.since) == self.dead_letters:
            got = "both" if self.since else "none"
            raise BadInput(f"replay: needs one source (got {got}); valid: --since or --dead-letters")
        if self.most and not self.dead_letters:
            raise BadInput("--max: works only with --dead-letters (got --since); valid: no --max")


def confirm(question: str) -> None:
    """Return if a person agrees."""
    if not has_terminal():
        raise BadInput(f"--yes: is needed, because there is no terminal to ask on. {question}")
    if not typer.confirm(question, err=True):
        raise BadInput("nothing was changed")


def has_terminal() -> bool:
    """Return whether a person can answer."""
    return sys.stdin.isatty()


def seek_since(request: Replay, deployment: Deployment, form: Format) -> ExitCode:
    """Let everything that was published since a moment be pushed again.

    What waits unacknowledged from before counts as acknowledged then, as
    https://cloud.google.com/pubsub/docs/replay-overview says; the next tick answers it.
    """
    admin, now = deployment.pubsub, deployment.ports.clock.now()
    moment = parse_since(request.since, now=now)
    names = list_pushed(deployment.own, request.functions)
    subscriptions = [find_subscription(deployment.own, each) for each in names]
    if not request.sure:
        kept = "".join(dict.fromkeys(_describe_kept(admin, each, now - moment) for each in subscriptions))
        question = f"Deliver the messages of {', '.join(names)} again from {format_moment(moment)}?"
        confirm(f"{question}{kept} Pub/Sub cannot count them.")
    problems = {}
    for each in subscriptions:
        problems[each] = _find_problem(admin, each)
        if not problems[each]:
            admin.seek(each, format_exact(moment))
    to = format_moment(moment)
    if form.for_programs:
        rows = [{"subscription": name, "to": to, "problem": problem} for name, problem in problems.items()]
        print_data({"subscriptions": rows}, form)
    else:
        for name, problem in problems.items():
            text = styled(f"{name}: {problem}", "bad") if problem else f"{name} is set back to {to}"
            print_line(open_console(), text)
    return ExitCode.FINDINGS if any(problems.values()) else ExitCode.FINE


def _describe_kept(admin: PubsubAdmin, name: str, seconds: float) -> str:
    """Return for how long the topic of a subscription keeps messages; empty if that is unknown."""
    subscription = admin.find_subscription(name)
    topic = admin.find_topic(subscription.topic) if subscription else None
    kept = topic.message_retention_duration if topic else None
    if topic is None or not kept:
        return ""
    short = ", which is less than that" if seconds > kept.total_seconds() else ""
    return (
        f" The topic {topic.name.rpartition('/')[2]} keeps messages for {format_age(kept.total_seconds())}{short}."
    )


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


def publish_dead_letters(request: Replay, deployment: Deployment, form: Format) -> ExitCode:
    """Publish the chosen dead letters again."""
    choice = Choice(functions=request.functions, most=request.most or MOST)
    topic = PubsubTopic(deployment.open_publisher, find_topic(deployment.own))
    if not request.sure:
        confirm(f"Publish {_count(deployment, choice)} again?")
    _print_done(publish_again(open_queue(deployment), topic, choice, progress=_say_progress), form, "published")
    return ExitCode.FINE


def discard(ids: tuple[str, ...], deployment: Deployment, form: Format, *, sure: bool) -> ExitCode:
    """Take the named dead letters away for good, or all of them."""
    choice = Choice(ids=ids)
    if not sure:
        confirm(f"Remove {_count(deployment, choice)} for good?")
    report = take_away(open_queue(deployment), choice, lambda _messages: None, lambda _done: None)
    _print_done(report, form, "discarded")
    absent = sorted(set(ids) - report.seen)
    for each in absent:
        hint = "tpu-provisioner dead-letters list shows them"
        typer.echo(f"no dead letter has the ID {each[:80]!r}; {hint}", err=True)
    return ExitCode.FINDINGS if absent else ExitCode.FINE


def list_reasons(deployment: Deployment, choice: Choice) -> DeadLetterReport:
    """Return the chosen dead letters, which all stay, with what the functions logged about them."""
    report = read_dead_letters(open_queue(deployment), choice)
    cluster = next(iter(deployment.ports.clusters))
    report.dead_letters = add_reasons(report.dead_letters, deployment.open_logs, cluster)
    return report


def print_dead_letters(report: DeadLetterReport, form: Format) -> None:
    """Print dead letters that all stay."""
    if form.for_programs:
        print_data(_describe(report), form)
        return
    console = open_console()
    if report.dead_letters:
        print_table(console, _COLUMNS, report.dead_letters)
        print_line(console)
    more = ", and more" if report.bounded else ""
    print_line(console, f"{count(len(report.dead_letters), 'dead letter')}{more}")


def open_queue(deployment: Deployment) -> DeadLetterQueue:
    """Return the dead letters of a deployment."""
    return DeadLetterQueue(deployment.pubsub, find_subscription(deployment.own, DEAD_LETTERS))


def _count(deployment: Deployment, choice: Choice) -> str:
    return count(len(read_dead_letters(open_queue(deployment), choice).dead_letters), "dead letter")


def _say_progress(published: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{published} published again\n")
        sys.stderr.flush()


def _describe(report: DeadLetterReport) -> dict[str, Any]:
    return {"dead_letters": [as_data(_COLUMNS, each) for each in report.dead_letters], "bounded": report.bounded}


def _print_done(report: DeadLetterReport, form: Format, done: str) -> None:
    """Print what became of dead letters that were published again or discarded."""
    if form.for_programs:
        print_data(_describe(report) | {done: report.done, "left": report.kept}, form)
        return
    console, words = open_console(), {"published": "published again", "discarded": "removed"}
    print_line(console, f"{report.done} {words[done]}, {report.kept} not selected")
    if report.bounded:
        print_line(console, styled("stopped at --max; there can be more", "warn"))
