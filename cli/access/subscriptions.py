"""Pub/Sub for an operator by Google's own clients: get, seek, pull, acknowledge.

No call is repeated inside.

https://cloud.google.com/pubsub/docs/reference/rest/v1/projects.subscriptions
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from google.pubsub_v1.services.publisher import PublisherClient
from google.pubsub_v1.services.publisher.transports import PublisherRestTransport
from google.pubsub_v1.services.subscriber import SubscriberClient
from google.pubsub_v1.services.subscriber.transports import SubscriberRestTransport

from shared.edges.google import CLIENT, translate_errors
from shared.model.errors import NotFound
from shared.model.messages import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.auth.credentials import Credentials
    from google.pubsub_v1.types import Subscription, Topic

PULL_MAX = 100
_TIMEOUT_SECONDS = 30.0


class PulledMessage(msgspec.Struct, frozen=True):
    """One message that was pulled and is held until it is acknowledged or given back."""

    ack_id: str
    message_id: str
    publish_time: str  # RFC 3339
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
        self.open_publisher, self._open_subscriber = open_publisher, open_subscriber

    @cached_property
    def _publisher(self) -> PublisherClient:
        return self.open_publisher()

    @cached_property
    def _subscriber(self) -> SubscriberClient:
        return self._open_subscriber()

    def find_topic(self, name: str) -> Topic | None:
        """Return a topic, or None when there is none."""
        try:
            topic: Topic = self._call("get_topic", name, topic=name)
        except NotFound:
            return None
        return topic

    def find_subscription(self, name: str) -> Subscription | None:
        """Return a subscription, or None when there is none."""
        try:
            subscription: Subscription = self._call("get_subscription", name, subscription=name)
        except NotFound:
            return None
        return subscription

    def seek(self, name: str, time: str) -> None:
        """Put a subscription back to a time (RFC 3339)."""
        self._call("seek", name, subscription=name, time=datetime.fromisoformat(time))

    def pull(self, name: str) -> list[PulledMessage]:  # assumes: subscriptions
        """Return up to `PULL_MAX` messages. An empty answer does not prove an empty queue."""
        answer = self._call("pull", name, subscription=name, max_messages=PULL_MAX, return_immediately=True)
        return [
            PulledMessage(
                each.ack_id,
                each.message.message_id,
                each.message.publish_time.rfc3339(),
                Message(each.message.data, dict(each.message.attributes)),
            )
            for each in answer.received_messages
        ]

    def acknowledge(self, name: str, ack_ids: Sequence[str]) -> None:
        """Take messages away for good."""
        self._call("acknowledge", name, subscription=name, ack_ids=list(ack_ids))

    def hold(self, name: str, ack_ids: Sequence[str], seconds: int) -> None:
        """Keep messages from being delivered again for so long; 0 gives them back at once."""
        request = {"ack_ids": list(ack_ids), "ack_deadline_seconds": seconds}
        self._call("modify_ack_deadline", name, subscription=name, **request)

    def _call(self, method: str, name: str, **request: Any) -> Any:
        client: Any = self._publisher if method == "get_topic" else self._subscriber
        with translate_errors(f"{method} {name}"):
            return getattr(client, method)(request=request, retry=None, timeout=_TIMEOUT_SECONDS)
