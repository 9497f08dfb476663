"""The operations of `google.pubsub.v1` that are played, from request message to response message.

Everything answers at once except `Pull`, which may wait.
"""

import asyncio
import re

from google.protobuf.empty_pb2 import Empty
from google.pubsub_v1 import types
from google.pubsub_v1.services.publisher.transports.rest_base import _BasePublisherRestTransport
from google.pubsub_v1.services.subscriber.transports.rest_base import _BaseSubscriberRestTransport

from standins.google.api import Caller, Rule, read_rules
from standins.google.pubsub.broker import Broker
from standins.google.pubsub.limits import Message, count_seconds, invalid, message_class
from standins.google.pubsub.push import Bells
from standins.google.pubsub.subscription import Delivery, Subscription

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
_TRANSPORTS = {"Publisher": _BasePublisherRestTransport, "Subscriber": _BaseSubscriberRestTransport}


def list_services() -> dict[str, list[Rule]]:
    """Return the rules of each service by its full name: of the methods that are answered here."""
    return {
        f"google.pubsub.v1.{name}": [
            rule for rule in read_rules([transport], types) if hasattr(Service, _name_verb(rule.method))
        ]
        for name, transport in _TRANSPORTS.items()
    }


class Service:
    """Answers every operation on one broker; a refusal is an `ApiError`."""

    def __init__(self, broker: Broker, bells: Bells) -> None:
        self.broker, self._bells = broker, bells

    async def answer(self, method: str, request: Message, caller: Caller) -> Message:
        """Answer a method; a pull waits for messages as long as its caller does."""
        act = getattr(self, _name_verb(method))
        until = asyncio.get_running_loop().time() + caller.patience_seconds
        while True:
            response = act(request)
            left = until - asyncio.get_running_loop().time()
            if method != "Pull" or response.received_messages or request.return_immediately or left <= 0:
                return Empty() if response is None else response
            await self._bells.wait(request.subscription, left)

    def create_topic(self, request: Message) -> Message:
        """Create a topic."""
        self.broker.create_topic(request)
        return request

    def get_topic(self, request: Message) -> Message:
        """Return a topic."""
        return self.broker.topic(request.topic).terms

    def publish(self, request: Message) -> Message:
        """Publish messages and return their ids."""
        return message_class("PublishResponse")(message_ids=self.broker.publish(request.topic, request.messages))

    def create_subscription(self, request: Message) -> Message:
        """Create a subscription."""
        self.broker.create_subscription(request)
        return self._show(request.name)

    def get_subscription(self, request: Message) -> Message:
        """Return a subscription."""
        return self._show(request.subscription)

    def modify_push_config(self, request: Message) -> None:
        """Change where a subscription pushes to; an empty config makes it a pull subscription."""
        terms = message_class("Subscription")()
        terms.CopyFrom(self.broker.subscription(request.subscription).terms)
        terms.push_config.CopyFrom(request.push_config)
        self.broker.change_subscription(terms)

    def acknowledge(self, request: Message) -> None:
        """Acknowledge deliveries."""
        self.broker.acknowledge(request.subscription, request.ack_ids)

    def modify_ack_deadline(self, request: Message) -> None:
        """Extend leases, or give them up with a deadline of 0."""
        self.broker.modify_ack_deadline(request.subscription, request.ack_ids, request.ack_deadline_seconds)

    def pull(self, request: Message) -> Message:
        """Hand out what is available now, possibly nothing."""
        batch = self.broker.pull(request.subscription, limit=request.max_messages)
        subscription = self.broker.subscription(request.subscription)
        received = [_receive(subscription, delivery) for delivery in batch]
        return message_class("PullResponse")(received_messages=received)

    def seek(self, request: Message) -> Message:
        """Put a subscription back to a time."""
        if not request.HasField("time"):
            raise invalid("target", request.snapshot, "a time")
        self.broker.seek(request.subscription, count_seconds(request.time))
        return message_class("SeekResponse")()

    def _show(self, name: str) -> Message:
        """Return a subscription as the API shows it, with what it has of its topic."""
        subscription = self.broker.subscription(name)
        topic = self.broker.topic(subscription.terms.topic).terms
        shown = message_class("Subscription")()
        shown.CopyFrom(subscription.terms)
        if topic.HasField("message_retention_duration"):
            shown.topic_message_retention_duration.CopyFrom(topic.message_retention_duration)
        return shown


def _receive(subscription: Subscription, delivery: Delivery) -> Message:
    """Return a delivery as a subscriber gets it; the attempt is told under a dead-letter policy."""
    attempt = delivery.attempt if subscription.terms.HasField("dead_letter_policy") else 0
    fields = {"ack_id": delivery.ack_id, "message": delivery.message, "delivery_attempt": attempt}
    return message_class("ReceivedMessage")(**fields)


def _name_verb(method: str) -> str:
    return _CAPITAL.sub("_", method).lower()
