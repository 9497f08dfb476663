"""Reads dead letters, and publishes them again.

A dead letter is acknowledged only after its copy was stored. So an interruption can duplicate a
message, but cannot lose one. Duplicates are harmless, because a message only names an object. Dead
letters that are not chosen are released to the subscription. The log has why a message was refused.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cli.access.log_search import DAY_SECONDS, read_event_records
from shared.model.messages import Message
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cli.access.log_search import OpenLogs
    from cli.access.subscriptions import PubsubAdmin, PulledMessage
    from shared.edges.pubsub import PubsubTopic

GIVEN_UP = "attempts_exhausted"
"""The reason of a dead letter about which the logs say nothing."""
FORWARDED = "CloudPubSubDeadLetterSource"
"""Prefix of the attributes that Pub/Sub adds when it has used up all attempts
(https://cloud.google.com/pubsub/docs/dead-letter-topics)."""
MOST = 1000
"""Dead letters that one run takes if nothing else is asked for."""
HOLD_SECONDS = 600
EMPTY_PULLS = 3
"""Pub/Sub may answer a pull with nothing although there is something."""
PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One dead letter, and what became of it or would."""

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


@dataclass(slots=True)
class DeadLetterReport:
    """What one run did."""

    dead_letters: list[DeadLetter] = field(default_factory=list)
    """Those that were chosen."""
    done: int = 0
    """How many of them were published again, or discarded."""
    kept: int = 0
    """Seen and left where they are: not chosen."""
    seen: set[str] = field(default_factory=set)
    """The IDs of all dead letters that are there, chosen or not."""
    bounded: bool = False
    """There may be more: the bound was reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which dead letters are meant."""

    functions: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    """Of messages; empty: all."""
    most: int = MOST

    def fits(self, dead_letter: DeadLetter) -> bool:
        """Return whether a dead letter is meant."""
        named = not self.ids or dead_letter.message_id in self.ids
        return named and (not self.functions or dead_letter.function in self.functions)


class DeadLetterQueue:
    """The subscription of dead letters while it is being emptied."""

    def __init__(self, admin: PubsubAdmin, subscription: str) -> None:
        self._admin, self._subscription = admin, subscription
        self._held: list[str] = []

    def pull_batches(self, choice: Choice, report: DeadLetterReport) -> Iterator[list[PulledMessage]]:
        """Yield batches of the chosen dead letters, each one held. The report counts the others."""
        empty = 0
        while empty < EMPTY_PULLS and not report.bounded:
            pulled = self._admin.pull(self._subscription)
            if not pulled:
                empty += 1
                time.sleep(PAUSE_SECONDS)
                continue
            self._admin.hold(self._subscription, [each.ack_id for each in pulled], HOLD_SECONDS)
            self._held += [each.ack_id for each in pulled]
            fresh = list({each.message_id: each for each in pulled if each.message_id not in report.seen}.values())
            empty = 0 if fresh else empty + 1
            report.seen.update(each.message_id for each in fresh)
            fitting = [each for each in fresh if choice.fits(read_dead_letter(each))]
            room = choice.most - len(report.dead_letters)
            chosen, report.bounded = fitting[:room], len(fitting) >= room
            report.kept += len(fresh) - len(chosen)
            report.dead_letters += map(read_dead_letter, chosen)
            if chosen:
                yield chosen

    def acknowledge(self, dead_letters: list[PulledMessage]) -> None:
        """Take dead letters away for good."""
        ids = [each.ack_id for each in dead_letters]
        self._admin.acknowledge(self._subscription, ids)
        self._held = [each for each in self._held if each not in set(ids)]

    def give_back(self) -> None:
        """Let everything that is still held be delivered again at once."""
        if self._held:
            self._admin.hold(self._subscription, self._held, 0)
            self._held = []


def read_dead_letter(dead_letter: PulledMessage) -> DeadLetter:
    """Return what a dead letter says of itself."""
    attributes = dead_letter.message.attributes
    return DeadLetter(
        message_id=dead_letter.message_id,
        publish_time=dead_letter.publish_time,
        function=attributes.get(f"{FORWARDED}Subscription", "").rpartition("-")[2],
        subject=attributes.get("ce-subject", ""),
        event_id=attributes.get("ce-id", ""),
        attributes=attributes,
        data=dead_letter.message.data.decode("utf-8", "replace"),
    )


def add_reasons(dead_letters: Sequence[DeadLetter], open_logs: OpenLogs | None, cluster: str) -> list[DeadLetter]:
    """Return dead letters with what a function logged last about each of their events."""
    ids = sorted({each.event_id for each in dead_letters} - {""})
    found: dict[str, dict[str, Any]] = {}
    if ids and open_logs is not None:
        since = min(parse_time(each.publish_time) or 0.0 for each in dead_letters) - DAY_SECONDS
        for record in reversed(read_event_records(open_logs, cluster, ids, since=since)):
            found[str(record.get("event_id"))] = record
    return [
        replace(each, reason=str(record.get("reason")), error=str(record.get("message", "")))
        if (record := found.get(each.event_id))
        else replace(each, reason=GIVEN_UP)
        for each in dead_letters
    ]


def strip(message: Message) -> Message:
    """Return the message as its publisher sent it."""
    kept = {key: value for key, value in message.attributes.items() if not key.startswith(FORWARDED)}
    return Message(message.data, kept)


def read_dead_letters(queue: DeadLetterQueue, choice: Choice) -> DeadLetterReport:
    """Return the chosen dead letters, which all stay where they are."""
    report = DeadLetterReport()
    try:
        for _ in queue.pull_batches(choice, report):
            pass
    finally:
        queue.give_back()
    return report


def take_away(
    queue: DeadLetterQueue,
    choice: Choice,
    handle: Callable[[list[Message]], object],
    progress: Callable[[int], object],
) -> DeadLetterReport:
    """Handle the chosen dead letters batch by batch, and take each batch away when that is done."""
    report = DeadLetterReport()
    try:
        for batch in queue.pull_batches(choice, report):
            handle([strip(each.message) for each in batch])
            queue.acknowledge(batch)
            report.done += len(batch)
            progress(report.done)
    finally:
        queue.give_back()
    return report


def publish_again(
    queue: DeadLetterQueue, topic: PubsubTopic, choice: Choice, *, progress: Callable[[int], object]
) -> DeadLetterReport:
    """Publish the chosen dead letters again, batch by batch, and take them away."""
    return take_away(queue, choice, topic.publish, progress)
