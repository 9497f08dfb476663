"""Reads dead letters, and publishes them again or removes them.

A dead letter is acknowledged only after it was handled. So an interruption can duplicate a message,
but cannot lose one. Duplicates are harmless, because a message only names an object. Dead letters
that are not chosen are released to the subscription. The log has why a message was refused.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cli.access.log_search import DAY_SECONDS, read_event_records
from shared.model.messages import Message
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cli.access.log_search import OpenLogs
    from cli.access.subscriptions import PubsubAdmin, PulledMessage

GIVEN_UP = "attempts_exhausted"
"""The reason of a dead letter about which the logs say nothing."""
FORWARDED = "CloudPubSubDeadLetterSource"
"""Prefix of the attributes that Pub/Sub adds when it has used up all attempts
(https://cloud.google.com/pubsub/docs/dead-letter-topics)."""
HOLD_SECONDS = 600
EMPTY_PULLS = 3
"""Pub/Sub may answer a pull with nothing although there is something."""
PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One dead letter, and what the log says of it."""

    message_id: str
    publish_time: str
    function: str
    subject: str
    event_id: str
    """Its attribute ``ce-id``."""
    attributes: dict[str, str]
    data: str
    reason: str = ""
    error: str = ""
    """After `add_reasons`: the last reason that was logged for the event, and its message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which dead letters are meant."""

    functions: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    """Of messages; empty: all."""

    def fits(self, dead_letter: DeadLetter) -> bool:
        """Return whether a dead letter is meant."""
        named = not self.ids or dead_letter.message_id in self.ids
        return named and (not self.functions or dead_letter.function in self.functions)


@dataclass(slots=True)
class Report:
    """What one run saw."""

    dead_letters: list[DeadLetter] = field(default_factory=list)
    """Those that were chosen."""
    seen: set[str] = field(default_factory=set)
    """The IDs of all dead letters that are there, chosen or not."""

    @property
    def left(self) -> int:
        """How many were not chosen."""
        return len(self.seen) - len(self.dead_letters)


def walk_dead_letters(
    admin: PubsubAdmin, subscription: str, choice: Choice, handle: Callable[[list[Message]], object] | None = None
) -> Report:
    """Handle the chosen dead letters batch by batch, and take each batch away when that is done.

    Without a handler all of them stay.
    """
    report, held, empty = Report(), set[str](), 0
    try:
        while empty < EMPTY_PULLS:
            pulled = admin.pull(subscription)
            if not pulled:
                empty += 1
                time.sleep(PAUSE_SECONDS)
                continue
            admin.hold(subscription, [each.ack_id for each in pulled], HOLD_SECONDS)
            held |= {each.ack_id for each in pulled}
            fresh = {each.message_id: each for each in pulled if each.message_id not in report.seen}
            empty = 0 if fresh else empty + 1
            report.seen |= fresh.keys()
            chosen = [each for each in fresh.values() if choice.fits(read_dead_letter(each))]
            if chosen and handle:
                handle([strip(each.message) for each in chosen])
                admin.acknowledge(subscription, [each.ack_id for each in chosen])
                held -= {each.ack_id for each in chosen}
            report.dead_letters += map(read_dead_letter, chosen)
    finally:
        if held:
            admin.hold(subscription, sorted(held), 0)
    return report


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
