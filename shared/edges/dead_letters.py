"""Keeps messages that can never succeed in a Pub/Sub topic, each with the reason why.

https://cloud.google.com/pubsub/docs/reference/rest/v1/projects.topics/publish
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from shared.core.errors import ProvisionerError, Retryable, Unavailable

if TYPE_CHECKING:
    from shared.core.events import Message
    from shared.edges.google_rest import GoogleRest


class PubsubDeadLetters:
    """`shared.core.ports.DeadLetters` in one topic."""

    def __init__(self, rest: GoogleRest, topic: str) -> None:
        self._rest = rest
        self._topic = topic

    def keep(self, message: Message) -> None:
        """Publish one message to the dead-letter topic.

        Raises:
            Unavailable: it could not be kept, for whatever cause; the caller hands the original back to Pub/Sub.
        """
        data = base64.b64encode(message.data).decode()
        try:
            self._rest.call(
                "POST",
                f"v1/{self._topic}:publish",
                {"messages": [{"data": data, "attributes": message.attributes}]},
            )
        except Retryable:
            raise
        except ProvisionerError as error:
            raise Unavailable(f"the message could not be kept in {self._topic}: {error}") from error
