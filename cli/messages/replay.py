"""Delivers messages again: pushes since a time by a seek, dead letters by a new publish."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import typer

from cli.access.deployment import DEAD_LETTERS, list_pushed, name_subscription, name_topic
from cli.access.log_search import DAY_SECONDS, read_event_records
from cli.exit_codes import ExitCode
from cli.printing import (
    Column,
    Format,
    as_data,
    count,
    format_exact,
    format_moment,
    open_console,
    parse_since,
    print_data,
    print_line,
    print_table,
)
from shared.model.messages import Message
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cli.access.connections import Deployment, PubsubAdmin, PulledMessage
    from cli.access.log_search import OpenLogs


GIVEN_UP = "attempts_exhausted"  # the reason of a dead letter about which the logs say nothing
FORWARDED = "CloudPubSubDeadLetterSource"
"""Prefix of the attributes that Pub/Sub adds when it has used up all attempts
(https://cloud.google.com/pubsub/docs/dead-letter-topics)."""
HOLD_SECONDS = 600
EMPTY_PULLS = 3  # Pub/Sub may answer a pull with nothing although there is something
PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One dead letter, and what the log says of it."""

    message_id: str
    publish_time: str
    function: str
    subject: str
    event_id: str  # its attribute ``ce-id``
    attributes: dict[str, str]
    data: str
    reason: str = ""
    error: str = ""
    """After `add_reasons`: the last reason that was logged for the event, and its message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which dead letters are meant."""

    functions: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()  # of messages; empty: all

    def fits(self, dead_letter: DeadLetter) -> bool:
        """Return whether a dead letter is meant."""
        named = not self.ids or dead_letter.message_id in self.ids
        return named and (not self.functions or dead_letter.function in self.functions)


@dataclass(slots=True)
class Report:
    """What one run saw."""

    dead_letters: list[DeadLetter] = field(default_factory=list)  # those that were chosen
    present: set[str] = field(default_factory=set)
    """The IDs of all dead letters that are there, chosen or not."""

    @property
    def left(self) -> int:
        """How many were not chosen."""
        return len(self.present) - len(self.dead_letters)


def walk_dead_letters(
    admin: PubsubAdmin, subscription: str, choice: Choice, handle: Callable[[list[Message]], object] | None = None
) -> Report:
    """Handle the chosen dead letters batch by batch, and take each batch away when that is done.

    Without a handler all of them stay.
    """
    report, held, empty = Report(), set[str](), 0
    try:
        while empty < EMPTY_PULLS:
            fresh = _pull_fresh(admin, subscription, held, report.present)
            empty = 0 if fresh else empty + 1
            chosen = [each for each in fresh if choice.fits(read_dead_letter(each))]
            if chosen and handle:
                handle([strip(each.message) for each in chosen])
                acknowledged = [each.ack_id for each in chosen]
                admin.acknowledge(subscription, acknowledged)
                held.difference_update(acknowledged)
            report.dead_letters += map(read_dead_letter, chosen)
    finally:
        if held:
            admin.hold(subscription, sorted(held), 0)
    return report


def _pull_fresh(admin: PubsubAdmin, subscription: str, held: set[str], present: set[str]) -> list[PulledMessage]:
    """Return the messages of one pull that no earlier one brought, and hold all of them."""
    pulled = admin.pull(subscription)
    if not pulled:
        time.sleep(PAUSE_SECONDS)
        return []
    admin.hold(subscription, [each.ack_id for each in pulled], HOLD_SECONDS)
    held.update(each.ack_id for each in pulled)
    fresh = {each.message_id: each for each in pulled if each.message_id not in present}
    present.update(fresh)
    return list(fresh.values())


def read_dead_letter(pulled: PulledMessage) -> DeadLetter:
    """Return what a dead letter says of itself."""
    attributes = pulled.message.attributes
    return DeadLetter(
        message_id=pulled.message_id,
        publish_time=pulled.publish_time,
        function=attributes.get(f"{FORWARDED}Subscription", "").rpartition("-")[2],
        subject=attributes.get("ce-subject", ""),
        event_id=attributes.get("ce-id", ""),
        attributes=attributes,
        data=pulled.message.data.decode("utf-8", "replace"),
    )


def add_reasons(dead_letters: Sequence[DeadLetter], open_logs: OpenLogs | None, cluster: str) -> list[DeadLetter]:
    """Return dead letters with what a function logged last about each of their events."""
    ids = sorted({each.event_id for each in dead_letters} - {""})
    records: dict[str, dict[str, Any]] = {}
    if ids and open_logs is not None:
        since = min(parse_time(each.publish_time) or 0.0 for each in dead_letters) - DAY_SECONDS
        for record in reversed(read_event_records(open_logs, cluster, ids, since=since)):
            records[str(record.get("event_id"))] = record
    unknown = {"reason": GIVEN_UP, "message": ""}
    last = [(each, records.get(each.event_id, unknown)) for each in dead_letters]
    return [
        replace(each, reason=str(record.get("reason")), error=str(record.get("message", "")))
        for each, record in last
    ]


def strip(message: Message) -> Message:
    """Return the message as its publisher sent it."""
    kept = {key: value for key, value in message.attributes.items() if not key.startswith(FORWARDED)}
    return Message(message.data, kept)


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
    """Return if a person agrees; where nobody can be asked the command ends."""
    typer.confirm(question, err=True, abort=True)


def seek_since(
    since: str, functions: Sequence[str], deployment: Deployment, form: Format, *, sure: bool
) -> ExitCode:
    """Let everything that was published since a moment be pushed again.

    What waits unacknowledged from before counts as acknowledged then, as
    https://cloud.google.com/pubsub/docs/replay-overview says; the next tick answers it.
    """
    moment = parse_since(since, now=deployment.ports.clock.now())
    to = format_moment(moment)
    names = [name_subscription(deployment.own, each) for each in list_pushed(functions)]
    if not sure:
        confirm(f"Deliver the messages of {', '.join(names)} again from {to}? Pub/Sub cannot count them.")
    for name in names:
        deployment.pubsub.seek(name, format_exact(moment))
    if form.for_programs:
        print_data({"subscriptions": names, "to": to}, form)
    else:
        for name in names:
            print_line(open_console(), f"{name} is set back to {to}")
    return ExitCode.FINE


def publish_dead_letters(choice: Choice, deployment: Deployment, form: Format, *, sure: bool) -> ExitCode:
    """Publish the chosen dead letters again."""
    topic = deployment.pubsub.open_topic(name_topic(deployment.own))
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
    absent = sorted(set(ids) - report.present)
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
    return walk_dead_letters(deployment.pubsub, name_subscription(deployment.own, DEAD_LETTERS), choice, handle)


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
