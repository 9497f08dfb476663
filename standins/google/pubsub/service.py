"""The operations of `google.pubsub.v1` that are played, from request message to response message.

Everything answers at once except `Pull`, which may wait.
"""

import asyncio
from collections.abc import Callable

from google.protobuf.empty_pb2 import Empty
from google.pubsub_v1 import types
from google.pubsub_v1.services.publisher.transports.rest_base import _BasePublisherRestTransport
from google.pubsub_v1.services.subscriber.transports.rest_base import _BaseSubscriberRestTransport

from standins.google.api import Caller, Rule, read_rules
from standins.google.pubsub.broker import Broker
from standins.google.pubsub.limits import Message, count_seconds, invalid, message_class
from standins.google.pubsub.push import Bells

_TRANSPORTS = {"Publisher": _BasePublisherRestTransport, "Subscriber": _BaseSubscriberRestTransport}


class Service:
    """Answers every operation on one broker; a refusal is an `ApiError`."""

    def __init__(self, broker: Broker, bells: Bells) -> None:
        self._broker, self._bells = broker, bells
        self._acts: dict[str, Callable[[Message], Message | None]] = {
            "CreateTopic": broker.create_topic,
            "GetTopic": lambda ask: broker.topic(ask.topic).terms,
            "Publish": lambda ask: _answer("Publish", message_ids=broker.publish(ask.topic, ask.messages)),
            "CreateSubscription": lambda ask: broker.create_subscription(ask).terms,
            "GetSubscription": lambda ask: broker.subscription(ask.subscription).terms,
            "ModifyPushConfig": self._modify_push_config,
            "Acknowledge": lambda ask: broker.acknowledge(ask.subscription, ask.ack_ids),
            "ModifyAckDeadline": lambda ask: broker.modify_ack_deadline(
                ask.subscription, ask.ack_ids, ask.ack_deadline_seconds
            ),
            "Pull": self._pull,
            "Seek": self._seek,
        }

    def list_rules(self) -> dict[str, list[Rule]]:
        """Return the rules of each service by its full name: of what is answered here."""
        return {
            f"google.pubsub.v1.{name}": [
                rule for rule in read_rules([transport], types) if rule.method in self._acts
            ]
            for name, transport in _TRANSPORTS.items()
        }

    async def answer(self, method: str, request: Message, caller: Caller) -> Message:
        """Answer a method; a pull waits for messages as long as its caller does."""
        until = asyncio.get_running_loop().time() + caller.patience_seconds
        while True:
            response = self._acts[method](request)
            left = until - asyncio.get_running_loop().time()
            if response is None:
                return Empty()
            if method != "Pull" or response.received_messages or request.return_immediately or left <= 0:
                return response
            await self._bells.wait(request.subscription, left)

    def _modify_push_config(self, request: Message) -> None:
        """Change where a subscription pushes to; an empty config makes it a pull subscription."""
        terms = message_class("Subscription")()
        terms.CopyFrom(self._broker.subscription(request.subscription).terms)
        terms.push_config.CopyFrom(request.push_config)
        self._broker.change_subscription(terms)

    def _pull(self, request: Message) -> Message:
        """Hand out what is available now; the attempt is told under a dead-letter policy."""
        counted = self._broker.subscription(request.subscription).terms.HasField("dead_letter_policy")
        batch = self._broker.pull(request.subscription, limit=request.max_messages)
        received = [
            {"ack_id": each.ack_id, "message": each.message, "delivery_attempt": each.attempt if counted else 0}
            for each in batch
        ]
        return _answer("Pull", received_messages=received)

    def _seek(self, request: Message) -> Message:
        if not request.HasField("time"):
            raise invalid("target", request.snapshot, "a time")
        self._broker.seek(request.subscription, count_seconds(request.time))
        return _answer("Seek")


def _answer(method: str, **fields: object) -> Message:
    return message_class(f"{method}Response")(**fields)
