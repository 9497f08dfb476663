"""One Pub/Sub topic by Google's own client, for the exporter's events and for replays.

It is the client that Google's publisher itself is built on, asked for one request at a time:
batching, repetition and limits belong to the caller (docs/decisions/clients.md).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from google.api_core.gapic_v1.client_info import ClientInfo

from shared.edges.google import translate_errors
from shared.model.errors import InvalidRequest, Unavailable
from shared.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.pubsub_v1.services.publisher import PublisherClient

    from shared.model.messages import Message

BATCH_MAX = 1_000  # assumes: publish
"""Messages in one request (https://cloud.google.com/pubsub/quotas#resource_limits)."""
TIMEOUT_SECONDS = 10.0  # the longest wait for the answer to one request
CLIENT = ClientInfo(user_agent=f"tpu-provisioner/{VERSION}")  # type: ignore[no-untyped-call]


class PubsubTopic:
    """One topic, usable from several threads."""

    def __init__(
        self,
        open_client: Callable[[], PublisherClient],
        topic: str,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        """Prepare. The client is opened at the first use, so in the process that uses it.

        Nothing is sent: a publisher may not ask whether the topic exists.
        """
        self._open, self.name, self.timeout_seconds = open_client, topic, timeout_seconds
        self._lock = threading.Lock()
        self._client: PublisherClient | None = None

    def publish(self, messages: Sequence[Message]) -> list[str]:
        """Publish a batch and return the message ids, in order, once the service has stored it.

        It is one request: nothing is repeated inside. After an error the batch may still have been
        stored: publishing it again can duplicate, never lose. `InvalidRequest` says that the
        service never accepts one of the messages.
        """
        batch = [{"data": each.data, "attributes": each.attributes} for each in messages]
        request = {"topic": self.name, "messages": batch}
        try:
            with translate_errors(f"Publish {self.name}"):
                client = self.get_client()
                ids = client.publish(request, retry=None, timeout=self.timeout_seconds).message_ids
                if len(ids) != len(messages):
                    raise ValueError(f"{len(ids)} ids for {len(messages)} messages")
        except Unavailable:
            # A gRPC channel waits up to two minutes before it connects again; a new one does not.
            self.close()
            raise
        except InvalidRequest as error:
            if error.status == "INVALID_ARGUMENT":
                raise
            # By a proxy, for example: it says nothing of the messages.
            raise Unavailable(f"{self.name}: {error}") from error
        return list(ids)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.transport.close()  # type: ignore[no-untyped-call]

    def get_client(self) -> PublisherClient:
        """Return the open client; the first call opens it."""
        with self._lock:
            self._client = self._client or self._open()
            return self._client
