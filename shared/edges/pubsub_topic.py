"""The way to a Pub/Sub topic over REST v1: the exporter's events and the functions' dead letters.

Why not the official client here: importing it alone costs more memory than the whole exporter may take; see
`docs/decisions/0002-clients.md`. Batching, retries and limits belong to the caller.
https://cloud.google.com/pubsub/docs/reference/rest/v1/projects.topics/publish
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import msgspec

from shared.core.errors import ProvisionerError, Retryable, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.events import Message
    from shared.edges.google_rest import GoogleRest

BATCH_MAX = 1_000
"""Messages in one request (https://cloud.google.com/pubsub/quotas#resource_limits)."""


class _Published(msgspec.Struct, rename="camel"):
    message_ids: list[str] = []


_PUBLISHED = msgspec.json.Decoder(_Published)


class PubsubTopic:
    """One topic, usable from several threads; `shared.core.ports.DeadLetters` when it is the dead-letter topic."""

    def __init__(self, rest: GoogleRest, topic: str) -> None:
        """Prepare; nothing is sent, and the topic's existence is not probed: publishers may not ask.

        Args:
            rest: The Pub/Sub API.
            topic: ``projects/P/topics/T``.
        """
        self._rest = rest
        self._topic = topic

    def publish(self, messages: Sequence[Message]) -> list[str]:
        """Publish a batch and return the message ids, in order, once the service has stored it.

        After an error the batch may still have been stored: publishing it again can duplicate, never lose.

        Raises:
            ProvisionerError: `Unavailable`, `Throttled`, `NotFound`, `Denied` or `InvalidRequest`.
        """
        batch = [
            {"data": base64.b64encode(each.data).decode(), "attributes": each.attributes} for each in messages
        ]
        answer = self._rest.call("POST", f"v1/{self._topic}:publish", {"messages": batch})
        try:
            return _PUBLISHED.decode(answer).message_ids
        except msgspec.DecodeError as error:
            raise Unavailable(f"publish to {self._topic}: unexpected answer: {error}") from error

    def keep(self, message: Message) -> None:
        """Keep one message that can never succeed.

        Raises:
            Retryable: it could not be kept, for whatever cause; the caller hands the original back to Pub/Sub.
        """
        try:
            self.publish([message])
        except Retryable:
            raise
        except ProvisionerError as error:
            raise Unavailable(f"the message could not be kept in {self._topic}: {error}") from error
