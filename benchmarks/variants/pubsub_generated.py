"""A drop-in for ``shared/edges/pubsub_topic.py``: the generated client of google-cloud-pubsub, over gRPC.

The package's generated `PublisherClient`, one call per batch, not the hand-written client on top of it: that one
batches, retries and starts threads by itself. Errors are translated as an edge must; no token, as to a stand-in.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import grpc
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.pubsub_v1.services.publisher import PublisherClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.types import PubsubMessage

from shared.core.errors import Denied, InvalidRequest, NotFound, ProvisionerError, Throttled, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.events import Message
    from shared.edges.google_rest import GoogleRest

_TIMEOUT_SECONDS = 10.0
_ERRORS: tuple[tuple[type[Exception], type[ProvisionerError]], ...] = (
    (exceptions.NotFound, NotFound),
    (exceptions.Forbidden, Denied),
    (exceptions.Unauthorized, Denied),
    (exceptions.TooManyRequests, Throttled),
    (exceptions.ServerError, Unavailable),
    # The service's client libraries retry these two, although their codes are those of a client's fault.
    (exceptions.Aborted, Unavailable),
    (exceptions.Cancelled, Unavailable),
    (exceptions.ClientError, InvalidRequest),
)


class PubsubTopic:
    """One topic over gRPC, at the address in `BENCHMARK_PUBSUB_GRPC`."""

    def __init__(self, _rest: GoogleRest, topic: str) -> None:
        """Prepare; nothing is sent yet. The connection is not the one that the original is given."""
        self._topic = topic
        channel = grpc.insecure_channel(os.environ["BENCHMARK_PUBSUB_GRPC"])
        anonymous = AnonymousCredentials()  # type: ignore[no-untyped-call]  # google-auth is untyped
        self._client = PublisherClient(transport=PublisherGrpcTransport(channel=channel, credentials=anonymous))

    def publish(self, messages: Sequence[Message]) -> list[str]:
        """Publish a batch and return the message ids, in order, once the service has stored it.

        Raises:
            ProvisionerError: `Unavailable`, `Throttled`, `NotFound`, `Denied` or `InvalidRequest`.
        """
        batch = [PubsubMessage(data=each.data, attributes=each.attributes) for each in messages]
        try:
            answer = self._client.publish(topic=self._topic, messages=batch, retry=None, timeout=_TIMEOUT_SECONDS)
        except exceptions.GoogleAPICallError as error:
            kind = next((ours for theirs, ours in _ERRORS if isinstance(error, theirs)), Unavailable)
            raise kind(f"publish to {self._topic}: {error.code} {error.message}") from error
        return list(answer.message_ids)

    def keep(self, message: Message) -> None:
        """Keep one message that can never succeed."""
        self.publish([message])
