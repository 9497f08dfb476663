"""What a person may do on the board: each act changes something, so each needs ``--write``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.cli_settings import DEAD_LETTERS, find_subscription, find_topic
from cli.endings import BadInput
from cli.letters import Choice, LetterBox, LetterReport, publish_again
from shared.edges.pubsub_topic import PubsubTopic

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.letters import DeadLetter
    from cli.operator_access import Deployment

LETTERS_SHOWN_MAX = 200


class ActFailed(Exception):
    """An act could not be done; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A button of the board, beside those of dead letters."""

    name: str
    """In the address: small letters and dashes."""
    label: str
    about: str
    """A sentence: what it does."""
    perform: Callable[[], str]
    """Does it, and returns a sentence: what was done. Raises ActFailed."""


def open_box(deployment: Deployment) -> LetterBox:
    """Return the dead letters of a deployment.

    Raises:
        Misconfigured: the settings do not name their subscription.
    """
    subscription = find_subscription(deployment.own, DEAD_LETTERS)
    return LetterBox(deployment.pubsub, subscription, now=deployment.ports.clock.now())


def list_letters(deployment: Deployment) -> list[DeadLetter]:
    """Return the dead letters; all of them stay where they are."""
    box, report = open_box(deployment), LetterReport()
    try:
        for _ in box.pull_batches(Choice(most=LETTERS_SHOWN_MAX), report):
            pass
    finally:
        box.give_back()
    return report.letters


def replay_letter(deployment: Deployment, message_id: str) -> str:
    """Publish one dead letter again with its first attributes, and then acknowledge it.

    Raises:
        BadInput: there is no such letter, or its topic is not known.
    """
    ends = deployment.own.operations_topic
    topic = PubsubTopic(deployment.open_publisher, find_topic(deployment.own))
    report = publish_again(
        open_box(deployment),
        topic,
        Choice(message_id=message_id),
        operations=PubsubTopic(deployment.open_publisher, ends) if ends else None,
        progress=lambda _published: None,
    )
    if not report.published:
        raise BadInput(_absent(message_id))
    return f"dead letter {message_id} is published again"


def discard_letter(deployment: Deployment, message_id: str) -> str:
    """Acknowledge one dead letter, so that it is gone for good.

    Raises:
        BadInput: there is no such letter.
    """
    box, report = open_box(deployment), LetterReport()
    try:
        for batch in box.pull_batches(Choice(message_id=message_id), report):
            box.acknowledge([letter for letter, _ in batch])
    finally:
        box.give_back()
    if not report.letters:
        raise BadInput(_absent(message_id))
    return f"dead letter {message_id} is discarded"


def _absent(message_id: str) -> str:
    return f"message_id: there is no such dead letter now (got {message_id!r}); valid: one that the board shows"
