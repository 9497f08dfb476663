"""What a person may do on the board: each act changes something, so each needs ``--write``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.access.cli_settings import find_topic
from cli.exit_codes import BadInput
from cli.messages.dead_letters import Choice, discard, publish_again
from cli.messages.replay import list_reasons, open_queue
from shared.edges.pubsub import PubsubTopic

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.access.operator_access import Deployment
    from cli.messages.dead_letters import DeadLetter

DEAD_LETTERS_SHOWN_MAX = 200


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


def list_dead_letters(deployment: Deployment) -> list[DeadLetter]:
    """Return the dead letters; all of them stay where they are."""
    return list_reasons(deployment, Choice(most=DEAD_LETTERS_SHOWN_MAX)).dead_letters


def replay_dead_letter(deployment: Deployment, message_id: str) -> str:
    """Publish one dead letter again with its first attributes, and then acknowledge it."""
    topic = PubsubTopic(deployment.open_publisher, find_topic(deployment.own))
    choice = Choice(ids=(message_id,))
    if not publish_again(open_queue(deployment), topic, choice, progress=lambda _published: None).published:
        raise BadInput(_absent(message_id))
    return f"dead letter {message_id} is published again"


def discard_dead_letter(deployment: Deployment, message_id: str) -> str:
    """Acknowledge one dead letter, so that it is gone for good."""
    if not discard(open_queue(deployment), Choice(ids=(message_id,))).discarded:
        raise BadInput(_absent(message_id))
    return f"dead letter {message_id} is discarded"


def _absent(message_id: str) -> str:
    return f"message_id: there is no such dead letter now (got {message_id!r}); valid: one that the board shows"
