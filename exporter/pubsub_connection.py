"""Opens the exporter's connection to Pub/Sub over gRPC, before the first batch needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
from google.pubsub_v1.services.publisher import PublisherClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport

from shared.edges.google import translate_errors
from shared.edges.pubsub import CLIENT
from shared.model.errors import Unavailable

if TYPE_CHECKING:
    from shared.edges.pubsub import PubsubTopic


def open_publisher() -> PublisherClient:
    """Return a client over gRPC with the application default credentials.

    It reads the variables that Google's clients read, PUBSUB_EMULATOR_HOST for example. It has
    threads of its own, so it suits a process that always has CPU, and that does not fork.
    """
    return PublisherClient(client_info=CLIENT)


def connect(topic: PubsubTopic) -> None:
    """Open the connection now, so that the first batch does not wait for it.

    Nothing is sent, so this does not show whether the topic exists.

    Raises:
        ProvisionerError: `Unavailable` if there is no connection in the topic's time-out, or
            `Denied` without credentials. The next call tries again.
    """
    with translate_errors(f"connect to publish to {topic.name}"):
        transport = topic.get_client().transport
        if not isinstance(transport, PublisherGrpcTransport):
            return
        ready = grpc.channel_ready_future(transport.grpc_channel)
        try:
            ready.result(topic.timeout_seconds)
        except grpc.FutureTimeoutError as error:
            ready.cancel()
            topic.close()
            raise Unavailable(f"no connection in {topic.timeout_seconds:g} s") from error
