"""The commands `replay`, and `dead-letters list` and `discard`.

Pushes since a time come again by a seek, dead letters by a new publish.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.access import open_chosen
from cli.access.deployment import DEAD_LETTERS, PUSHED, name_subscription, name_topic
from cli.access.log_search import DAY_SECONDS, read_event_records
from cli.exit_codes import EPILOG, BadInput, ExitCode, answering
from cli.printing import (
    Column,
    Format,
    Output,
    Sure,
    as_data,
    count,
    format_exact,
    format_moment,
    open_console,
    parse_since,
    print_data,
    print_line,
    print_table,
    warn,
)
from shared.model.messages import Message
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from cli.access.connections import Deployment, PubsubAdmin, PulledMessage
    from cli.access.log_search import OpenLogs


GIVEN_UP = "attempts_exhausted"  # the reason of a dead letter about which the logs say nothing
FORWARDED = "CloudPubSubDeadLetterSource"
"""Prefix of the attributes that Pub/Sub adds when it has used up all attempts
(https://cloud.google.com/pubsub/docs/dead-letter-topics)."""
HOLD_SECONDS = 600
EMPTY_PULLS = 3  # Pub/Sub may answer a pull with nothing although there is something
PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter, and what the log says of it."""

    pulled: PulledMessage
    reason: str = ""
    error: str = ""
    """After `add_reasons`: the last reason that was logged for its event, and its message."""

    def read(self, attribute: str) -> str:
        """Return an attribute; empty if it does not have it."""
        return self.pulled.message.attributes.get(attribute, "")

    @property
    def message_id(self) -> str:
        """Return the ID that Pub/Sub has given it."""
        return self.pulled.message_id

    @property
    def function(self) -> str:
        """Return the function that refused it until Pub/Sub gave it up."""
        return self.read(f"{FORWARDED}Subscription").rpartition("-")[2]


def walk_dead_letters(
    admin: PubsubAdmin,
    subscription: str,
    ids: Collection[str] = (),
    handle: Callable[[list[Message]], object] | None = None,
) -> list[DeadLetter]:
    """Return all dead letters. Those with the IDs, or all, are handled and taken away in batches.

    Without a handler all of them stay.
    """
    present, held, empty = dict[str, DeadLetter](), set[str](), 0
    try:
        while empty < EMPTY_PULLS:
            pulled = _pull(admin, subscription, held)
            fresh = {each.message_id: DeadLetter(each) for each in pulled if each.message_id not in present}
            present.update(fresh)
            empty = 0 if fresh else empty + 1
            chosen = {each.pulled.ack_id: strip(each.pulled.message) for each in _choose(fresh.values(), ids)}
            if chosen and handle:
                handle(list(chosen.values()))
                admin.acknowledge(subscription, list(chosen))
                held.difference_update(chosen)
    finally:
        if held:
            admin.hold(subscription, sorted(held), 0)
    return list(present.values())


def _choose(dead_letters: Iterable[DeadLetter], ids: Collection[str]) -> list[DeadLetter]:
    """Return those with the IDs, or all."""
    return [each for each in dead_letters if not ids or each.message_id in ids]


def _pull(admin: PubsubAdmin, subscription: str, held: set[str]) -> list[PulledMessage]:
    """Return the messages of one pull, and hold them."""
    pulled = admin.pull(subscription)
    if pulled:
        admin.hold(subscription, [each.ack_id for each in pulled], HOLD_SECONDS)
        held.update(each.ack_id for each in pulled)
    else:
        time.sleep(PAUSE_SECONDS)
    return pulled


def add_reasons(dead_letters: Sequence[DeadLetter], open_logs: OpenLogs | None, cluster: str) -> list[DeadLetter]:
    """Return dead letters with what a function logged last about each of their events."""
    ids = sorted({each.read("ce-id") for each in dead_letters} - {""})
    records: dict[str, dict[str, Any]] = {}
    if ids and open_logs is not None:
        since = min(parse_time(each.pulled.publish_time) or 0.0 for each in dead_letters) - DAY_SECONDS
        for record in reversed(read_event_records(open_logs, cluster, ids, since=since)):
            records[str(record.get("event_id"))] = record
    last = [(each, records.get(each.read("ce-id"), {"reason": GIVEN_UP})) for each in dead_letters]
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
    Column("publish_time", lambda each: each.pulled.publish_time, "PUBLISHED"),
    Column("function", heading="FUNCTION"),
    Column("subject", lambda each: each.read("ce-subject"), "SUBJECT"),
    Column("reason", heading="REASON"),
    Column("error", heading="MESSAGE"),
    Column("event_id", lambda each: each.read("ce-id")),
    Column("attributes", lambda each: each.pulled.message.attributes),
    Column("data", lambda each: each.pulled.message.data.decode("utf-8", "replace")),
]


def confirm(question: str) -> None:
    """Return if a person agrees; where nobody can be asked the command ends."""
    typer.confirm(question, err=True, abort=True)


@answering
def replay(
    since: Annotated[
        str,
        typer.Option(metavar="TIME", help="Push again all messages since this time: RFC 3339, or 15m, 2h, 3d."),
    ] = "",
    output: Output = Format.TABLE,
    *,
    dead_letters: Annotated[bool, typer.Option("--dead-letters", help="Publish dead letters again.")] = False,
    sure: Sure = False,
) -> ExitCode:
    """Deliver messages again. This is always safe.

    A function decides from the present state, never from the content of a message. Give one of
    --since and --dead-letters. It asks first. `status` shows what would be decided now.

    Example: tpu-provisioner replay --since 2h
    """
    if bool(since) == dead_letters:
        got = "both" if since else "none"
        raise BadInput(f"replay: needs one source (got {got}); valid: --since or --dead-letters")
    deployment = open_chosen()
    if since:
        return seek_since(since, deployment, output, sure=sure)
    topic = deployment.pubsub.open_topic(name_topic(deployment.own))
    if not sure:
        confirm(f"Publish {count(len(_walk(deployment)), 'dead letter')} again?")
    _print_done(_walk(deployment, (), topic.publish), 0, output, "published", "published again")
    return ExitCode.FINE


def seek_since(since: str, deployment: Deployment, form: Format, *, sure: bool) -> ExitCode:
    """Let everything that was published since a moment be pushed again.

    What waits unacknowledged from before counts as acknowledged then, as
    https://cloud.google.com/pubsub/docs/replay-overview says; the next tick answers it.
    """
    moment = parse_since(since, now=deployment.ports.clock.now())
    to = format_moment(moment)
    names = [name_subscription(deployment.own, each) for each in PUSHED]
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


dead_letters = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Show or remove the messages that Pub/Sub gave up. `replay --dead-letters` delivers them again.",
)


@dead_letters.command("list", epilog=EPILOG)
@answering
def list_dead_letters(output: Output = Format.TABLE) -> ExitCode:
    """List the dead letters, with the reasons that the functions logged. All of them stay.

    JSON and YAML have the attributes and the data of each.

    Example: tpu-provisioner dead-letters list -o yaml
    """
    listed = list_reasons(open_chosen())
    if output.for_programs:
        print_data({"dead_letters": [as_data(_COLUMNS, each) for each in listed]}, output)
        return ExitCode.FINE
    console = open_console()
    if listed:
        print_table(console, _COLUMNS, listed)
        print_line(console)
    print_line(console, count(len(listed), "dead letter"))
    return ExitCode.FINE


@dead_letters.command("discard", epilog=EPILOG)
@answering
def discard(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID...", help="IDs of messages, as the list shows them.")
    ] = None,
    output: Output = Format.TABLE,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Remove all of them.")] = False,
    sure: Sure = False,
) -> ExitCode:
    """Remove dead letters for good. It asks first.

    It takes the named ones, or with --all every one.

    Example: tpu-provisioner dead-letters discard 1234567890
    """
    wanted = ids or []
    if bool(wanted) == everything:
        raise BadInput("dead-letters discard: needs IDs, or --all alone; valid: one of these")
    deployment = open_chosen()
    if not sure:
        confirm(f"Remove {count(len(_choose(_walk(deployment), wanted)), 'dead letter')} for good?")
    present = _walk(deployment, wanted, lambda _messages: None)
    done = _choose(present, wanted)
    _print_done(done, len(present) - len(done), output, "discarded", "removed")
    absent = sorted(set(wanted) - {each.message_id for each in present})
    for each in absent:
        warn(f"no dead letter has the ID {each[:80]!r}; tpu-provisioner dead-letters list shows them")
    return ExitCode.FINDINGS if absent else ExitCode.FINE


def list_reasons(deployment: Deployment) -> list[DeadLetter]:
    """Return the dead letters, which all stay, with what the functions logged about them."""
    return add_reasons(_walk(deployment), deployment.open_logs, next(iter(deployment.ports.clusters)))


def _walk(deployment: Deployment, *how: Any) -> list[DeadLetter]:
    return walk_dead_letters(deployment.pubsub, name_subscription(deployment.own, DEAD_LETTERS), *how)


def _print_done(done: Sequence[DeadLetter], left: int, form: Format, key: str, words: str) -> None:
    """Print what became of dead letters that were published again or discarded."""
    if form.for_programs:
        rows = [as_data(_COLUMNS, each) for each in done]
        print_data({"dead_letters": rows, key: len(done), "left": left}, form)
    else:
        print_line(open_console(), f"{len(done)} {words}, {left} not selected")
