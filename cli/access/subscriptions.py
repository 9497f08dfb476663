"""Pub/Sub for an operator by Google's own clients: get, seek, pull, acknowledge.

No call is repeated inside.

https://cloud.google.com/pubsub/docs/reference/rest/v1/projects.subscriptions
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import msgspec
from google.pubsub_v1.services.publisher import PublisherClient
from google.pubsub_v1.services.publisher.transports import PublisherRestTransport
from google.pubsub_v1.services.subscriber import SubscriberClient
from google.pubsub_v1.services.subscriber.transports import SubscriberRestTransport

from shared.edges.google import translate_errors
from shared.edges.pubsub import CLIENT
from shared.model.errors import NotFound
from shared.model.messages import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.auth.credentials import Credentials
    from google.pubsub_v1.types import ReceivedMessage, Subscription, Topic

T = TypeVar("T")
PULL_MAX = 100
_TIMEOUT_SECONDS = 30.0


class PulledMessage(msgspec.Struct, frozen=True):
    """One message that was pulled and is held until it is acknowledged or given back."""

    ack_id: str
    message_id: str
    publish_time: str
    """RFC 3339."""
    message: Message


def open_subscriber(endpoint: str, credentials: Credentials) -> SubscriberClient:
    """Return a client over REST."""
    transport = SubscriberRestTransport(host=endpoint.rstrip("/"), credentials=credentials)
    return SubscriberClient(transport=transport)


def open_publisher_over_rest(endpoint: str, credentials: Credentials) -> PublisherClient:
    """Return a client over REST, which has no threads."""
    transport = PublisherRestTransport(host=endpoint.rstrip("/"), credentials=credentials, client_info=CLIENT)
    return PublisherClient(transport=transport)


class PubsubAdmin:
    """The API; every method raises the errors of `shared.model.errors`."""

    def __init__(
        self, open_publisher: Callable[[], PublisherClient], open_subscriber: Callable[[], SubscriberClient]
    ) -> None:
        """Prepare; the clients are opened at their first use, and nothing is sent before."""
        self._open_publisher, self._open_subscriber = open_publisher, open_subscriber
        self._publisher: PublisherClient | None = None
        self._subscriber: SubscriberClient | None = None

    def find_topic(self, name: str) -> Topic | None:
        """Return a topic, or None when there is none."""
        return self._find(name, lambda: self._topics.get_topic(topic=name, retry=None, timeout=_TIMEOUT_SECONDS))

    def find_subscription(self, name: str) -> Subscription | None:
        """Return a subscription, or None when there is none."""
        return self._find(
            name,
            lambda: self._subscriptions.get_subscription(subscription=name, retry=None, timeout=_TIMEOUT_SECONDS),
        )

    def seek(self, subscription: str, time: str) -> None:
        """Put a subscription back to a time (RFC 3339)."""
        request = {"subscription": subscription, "time": datetime.fromisoformat(time)}
        with translate_errors(f"Seek {subscription}"):
            self._subscriptions.seek(request, retry=None, timeout=_TIMEOUT_SECONDS)

    def pull(self, subscription: str) -> list[PulledMessage]:  # assumes: subscriptions
        """Return up to `PULL_MAX` messages. An empty answer does not prove an empty queue."""
        request = {"subscription": subscription, "max_messages": PULL_MAX, "return_immediately": True}
        with translate_errors(f"Pull {subscription}"):
            answer = self._subscriptions.pull(request, retry=None, timeout=_TIMEOUT_SECONDS)
        return [_read_pulled(each) for each in answer.received_messages]

    def acknowledge(self, subscription: str, ack_ids: Sequence[str]) -> None:
        """Take messages away for good."""
        request = {"subscription": subscription, "ack_ids": list(ack_ids)}
        with translate_errors(f"Acknowledge {subscription}"):
            self._subscriptions.acknowledge(request, retry=None, timeout=_TIMEOUT_SECONDS)

    def hold(self, subscription: str, ack_ids: Sequence[str], seconds: int) -> None:
        """Keep messages from being delivered again for so long; 0 gives them back at once."""
        request = {"subscription": subscription, "ack_ids": list(ack_ids), "ack_deadline_seconds": seconds}
        with translate_errors(f"ModifyAckDeadline {subscription}"):
            self._subscriptions.modify_ack_deadline(request, retry=None, timeout=_TIMEOUT_SECONDS)

    @property
    def _topics(self) -> PublisherClient:
        self._publisher = self._publisher or self._open_publisher()
        return self._publisher

    @property
    def _subscriptions(self) -> SubscriberClient:
        self._subscriber = self._subscriber or self._open_subscriber()
        return self._subscriber

    def _find(self, name: str, get: Callable[[], T]) -> T | None:
        try:
            with translate_errors(f"Get {name}"):
                return get()
        except NotFound:
            return None


def _read_pulled(received: ReceivedMessage) -> PulledMessage:
    pulled = received.message
    message = Message(pulled.data, dict(pulled.attributes))
    return PulledMessage(received.ack_id, pulled.message_id, pulled.publish_time.rfc3339(), message)
