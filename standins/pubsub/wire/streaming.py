"""StreamingPull.

One open stream, messages down, acknowledgements and lease changes up, flow control between.

Source of the protocol: the comments of StreamingPullRequest in
https://cloud.google.com/pubsub/docs/reference/rpc/google.pubsub.v1#streamingpullrequest
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc

from standins.pubsub.model.errors import BrokerError, invalid
from standins.pubsub.model.terms import MAX_ACK_DEADLINE_SECONDS, MIN_ACK_DEADLINE_SECONDS
from standins.pubsub.wire import classes, conversions

if TYPE_CHECKING:
    from standins.pubsub.bells import Bells
    from standins.pubsub.model.broker import Broker

BATCH = 1_000
BATCH_BYTES = 10_000_000


async def stream_messages(broker: Broker, bells: Bells, context: Any) -> None:
    """Serve one stream until the client closes it.

    Raises BrokerError for a bad request or a lost subscription.
    """
    first = await context.read()
    if first is grpc.aio.EOF:
        return
    stream = _Stream(broker, bells, context, first)
    reader = asyncio.create_task(stream.read())
    writer = asyncio.create_task(stream.write())
    try:
        done, _ = await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (reader, writer):
            task.cancel()
        await asyncio.gather(reader, writer, return_exceptions=True)


class _Stream:
    """Keep one stream's subscription, lease length and what it has outstanding."""

    def __init__(self, broker: Broker, bells: Bells, context: Any, first: Any) -> None:
        self._broker = broker
        self._bells = bells
        self._context = context
        self._name = first.subscription
        self._lease_seconds = 0
        self._max_messages = first.max_outstanding_messages
        self._max_bytes = first.max_outstanding_bytes
        self._outstanding: dict[str, int] = {}
        self._writing = asyncio.Lock()
        broker.subscription(self._name)
        self._set_lease(first.stream_ack_deadline_seconds)
        self._settle(first)

    async def read(self) -> None:
        """Take in acknowledgements and lease changes until the client closes its side."""
        while True:
            request = await self._context.read()
            if request is grpc.aio.EOF:
                return
            if request.stream_ack_deadline_seconds:
                self._set_lease(request.stream_ack_deadline_seconds)
            confirmation = self._settle(request)
            if confirmation is not None:
                await self._send(confirmation)

    async def write(self) -> None:
        """Send messages as they become available, within the client's limits."""
        while True:
            limit, max_bytes = self._room()
            batch = (
                self._broker.pull(self._name, limit=limit, lease_seconds=self._lease_seconds, max_bytes=max_bytes)
                if limit > 0 and max_bytes > 0
                else []
            )
            if not batch:
                self._broker.subscription(self._name)  # a deleted subscription ends the stream
                await self._bells.wait(self._name)
                continue
            self._outstanding |= {delivery.ack_id: len(delivery.message.data) for delivery in batch}
            terms = self._broker.subscription(self._name).terms
            await self._send(
                classes.StreamingPullResponse(
                    received_messages=[conversions.received_message(delivery, terms) for delivery in batch],
                    subscription_properties=self._properties(),
                )
            )

    async def _send(self, response: Any) -> None:
        async with self._writing:  # a gRPC stream takes one write at a time
            await self._context.write(response)

    def _room(self) -> tuple[int, int]:
        """Return how many messages and bytes the client still takes.

        Zero or less means no limit was set.
        """
        backlog = self._broker.subscription(self._name).backlog
        self._outstanding = {
            ack_id: size for ack_id, size in self._outstanding.items() if backlog.holds_lease(ack_id)
        }
        limit = self._max_messages - len(self._outstanding) if self._max_messages > 0 else BATCH
        max_bytes = self._max_bytes - sum(self._outstanding.values()) if self._max_bytes > 0 else BATCH_BYTES
        return min(limit, BATCH), min(max_bytes, BATCH_BYTES)

    def _set_lease(self, seconds: int) -> None:
        if not MIN_ACK_DEADLINE_SECONDS <= seconds <= MAX_ACK_DEADLINE_SECONDS:
            raise invalid(
                "stream_ack_deadline_seconds",
                seconds,
                f"{MIN_ACK_DEADLINE_SECONDS} to {MAX_ACK_DEADLINE_SECONDS} seconds",
            )
        self._lease_seconds = seconds

    def _settle(self, request: Any) -> Any:
        """Apply a request.

        Return the confirmation that an exactly-once subscription owes, else None.
        """
        deadlines = list(zip(request.modify_deadline_ack_ids, request.modify_deadline_seconds, strict=False))
        if len(request.modify_deadline_ack_ids) != len(request.modify_deadline_seconds):
            raise invalid(
                "modify_deadline_seconds", list(request.modify_deadline_seconds), "one number for each ack id"
            )
        refused_acks = self._refusals_of_acks(list(request.ack_ids))
        refused_deadlines: list[str] = []
        for ack_id, seconds in deadlines:
            refused_deadlines += self._refusals_of_deadline(ack_id, seconds)
        return self._confirmation(request, refused_acks, refused_deadlines)

    def _refusals_of_acks(self, ack_ids: list[str]) -> list[str]:
        try:
            if ack_ids:
                self._broker.acknowledge(self._name, ack_ids)
        except BrokerError as error:
            if not error.ack_failures:
                raise
            return list(error.ack_failures)
        return []

    def _refusals_of_deadline(self, ack_id: str, seconds: int) -> list[str]:
        try:
            self._broker.modify_ack_deadline(self._name, [ack_id], seconds)
        except BrokerError as error:
            if not error.ack_failures:
                raise
            return list(error.ack_failures)
        return []

    def _confirmation(self, request: Any, refused_acks: list[str], refused_deadlines: list[str]) -> Any:
        exactly_once = self._broker.subscription(self._name).terms.exactly_once
        if not exactly_once or not (request.ack_ids or request.modify_deadline_ack_ids):
            return None
        response = classes.StreamingPullResponse(subscription_properties=self._properties())
        response.acknowledge_confirmation.invalid_ack_ids.extend(refused_acks)
        response.acknowledge_confirmation.ack_ids.extend(_without(request.ack_ids, refused_acks))
        changed = _without(request.modify_deadline_ack_ids, refused_deadlines)
        response.modify_ack_deadline_confirmation.invalid_ack_ids.extend(refused_deadlines)
        response.modify_ack_deadline_confirmation.ack_ids.extend(changed)
        return response

    def _properties(self) -> Any:
        terms = self._broker.subscription(self._name).terms
        return classes.StreamingPullResponse.SubscriptionProperties(
            exactly_once_delivery_enabled=terms.exactly_once, message_ordering_enabled=terms.ordered
        )


def _without(ack_ids: Any, refused: list[str]) -> list[str]:
    return [ack_id for ack_id in ack_ids if ack_id not in refused]
