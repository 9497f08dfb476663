"""The way to a Pub/Sub topic: publishes batches through the generated client of google-cloud-pubsub.

The one module of the exporter that imports ``google.*``. It uses the package's generated `PublisherClient`, one
call per batch: the hand-written client on top of it starts a thread per message when batching is off, retries
inside for ten minutes and brings tracing along. Batching, retries and limits belong to the caller.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import grpc
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError
from google.pubsub_v1.services.publisher import PublisherClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.types import PubsubMessage

from shared.core.errors import (
    Denied,
    InvalidRequest,
    Misconfigured,
    NotFound,
    ProvisionerError,
    Throttled,
    Unavailable,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.events import Message

EMULATOR_VARIABLE = "PUBSUB_EMULATOR_HOST"
BATCH_MAX = 1_000
"""Messages in one request (https://cloud.google.com/pubsub/quotas#resource_limits)."""
_RECONNECT_SECONDS_MAX = 5
# gRPC itself waits up to two minutes before it tries to connect again; an outage should not outlast its cause.
_RECONNECT_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", _RECONNECT_SECONDS_MAX * 1_000),
)
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


class PubSubPublisher:
    """One topic of Pub/Sub, or of an emulator when ``PUBSUB_EMULATOR_HOST`` names one."""

    def __init__(self, topic: str, *, timeout_seconds: float = 10.0) -> None:
        """Find the credentials and prepare the connection; nothing is sent yet.

        The topic's existence is not probed: ``roles/pubsub.publisher`` does not allow that.

        Args:
            topic: ``projects/P/topics/T``.
            timeout_seconds: The longest wait for the answer to one batch.

        Raises:
            Misconfigured: there are no credentials.
        """
        self._topic, self._timeout_seconds = topic, timeout_seconds
        try:
            self._client = _client(os.environ.get(EMULATOR_VARIABLE, ""))
        except GoogleAuthError as error:
            raise Misconfigured((f"no Google credentials for Pub/Sub: {error}",)) from error

    def publish(self, messages: Sequence[Message]) -> list[str]:
        """Publish a batch and return the message ids, in order, once the service has stored it.

        After an error the batch may still have been stored: publishing it again can duplicate, never lose.

        Raises:
            Unavailable: no connection, deadline, or the service failed.
            Throttled: over quota.
            NotFound: the topic does not exist.
            Denied: the identity may not publish.
            InvalidRequest: the service refuses the batch as wrong.
        """
        batch = [PubsubMessage(data=each.data, attributes=each.attributes) for each in messages]
        try:
            answer = self._client.publish(
                topic=self._topic, messages=batch, retry=None, timeout=self._timeout_seconds
            )
        except exceptions.GoogleAPICallError as error:
            kind = next((ours for theirs, ours in _ERRORS if isinstance(error, theirs)), Unavailable)
            raise kind(f"publish to {self._topic}: {error.code} {error.message}") from error
        except (GoogleAuthError, grpc.RpcError) as error:
            raise Unavailable(f"publish to {self._topic}: {error}") from error
        except ValueError as error:
            # What grpc raises when `close` was called from another thread.
            raise Unavailable(f"publish to {self._topic}: connection closed: {error}") from error
        return list(answer.message_ids)

    def close(self) -> None:
        """Close the connection; a batch under way fails with `Unavailable`."""
        self._client.transport.close()  # type: ignore[no-untyped-call]  # generated code


def _client(emulator: str) -> PublisherClient:
    if emulator:
        channel = grpc.insecure_channel(emulator, options=_RECONNECT_OPTIONS)
        anonymous = AnonymousCredentials()  # type: ignore[no-untyped-call]  # google-auth is untyped
        return PublisherClient(transport=PublisherGrpcTransport(channel=channel, credentials=anonymous))
    return PublisherClient(transport=PublisherGrpcTransport(channel=_secure_channel))


def _secure_channel(host: str, **arguments: Any) -> grpc.Channel:
    options = (*arguments.pop("options", ()), *_RECONNECT_OPTIONS)
    return PublisherGrpcTransport.create_channel(host, options=options, **arguments)
