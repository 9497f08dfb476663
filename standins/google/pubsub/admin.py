"""What the real service does not have.

History, counters, and dropped connections.

Everything is under `/admin/` of the REST port, plus `/certs` with the public keys of the push
tokens.
"""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from standins.google.errors import ApiError, error_response
from standins.google.pubsub.model.broker import Broker
from standins.google.pubsub.model.resources import Message
from standins.google.pubsub.model.subscription import Subscription, timestamp
from standins.google.pubsub.push import TokenSigner

Disconnect = Callable[[], Awaitable[int]]


class Admin:
    """Answer the admin requests of one broker."""

    def __init__(self, broker: Broker, signer: TokenSigner, disconnect: Disconnect) -> None:
        self._broker = broker
        self._signer = signer
        self._disconnect = disconnect

    def routes(self) -> list[Route]:
        """Return the Starlette routes."""
        return [
            Route("/admin/messages", self._messages, methods=["GET"]),
            Route("/admin/subscriptions", self._subscriptions, methods=["GET"]),
            Route("/admin/disconnect", self._drop, methods=["POST"]),
            Route("/certs", self._certs, methods=["GET"]),
            Route("/healthz", self._healthz, methods=["GET"]),
        ]

    async def _messages(self, request: Request) -> Response:
        try:
            topic = self._broker.topic(request.query_params.get("topic", ""))
        except ApiError as error:
            return error_response(error)
        return JSONResponse({"messages": [message_record(message) for message in topic.published]})

    async def _subscriptions(self, _: Request) -> Response:
        self._broker.settle()
        records = [subscription_record(found) for found in self._broker.subscriptions.values()]
        return JSONResponse({"subscriptions": records})

    async def _drop(self, _: Request) -> Response:
        return JSONResponse({"abortedPushes": await self._disconnect()})

    async def _certs(self, _: Request) -> Response:
        return JSONResponse(self._signer.jwks())

    async def _healthz(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})


def message_record(message: Message) -> dict[str, Any]:
    """Return a published message as the admin API shows it."""
    return {
        "messageId": message.message_id,
        "publishTime": timestamp(message.publish_time),
        "attributes": dict(message.attributes),
        "data": base64.b64encode(message.data).decode(),
        "orderingKey": message.ordering_key,
    }


def subscription_record(subscription: Subscription) -> dict[str, Any]:
    """Return a subscription's counters.

    `backlog` counts every unacknowledged message, handed out or not.
    """
    backlog = subscription.backlog
    counters = backlog.counters
    return {
        "name": subscription.name,
        "topic": subscription.topic,
        "pushEndpoint": subscription.terms.push.endpoint if subscription.terms.push else "",
        "delivered": counters.delivered,
        "acked": counters.acked,
        "nacked": counters.nacked,
        "expired": counters.expired,
        "deadLettered": counters.dead_lettered,
        "dropped": counters.dropped,
        "filtered": subscription.filtered,
        "outstanding": backlog.outstanding,
        "backlog": backlog.unacknowledged,
    }
