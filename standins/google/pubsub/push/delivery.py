"""Sending pushes: one task per push subscription, one more per request under way.

The model leases, counts and retries; here is only HTTP. No answer by the ack deadline is a nack,
like any status that is not one of the documented acknowledgements.
"""

import asyncio
import logging
from dataclasses import dataclass

import httpx

from standins.google.errors import ApiError
from standins.google.pubsub.bells import Bells
from standins.google.pubsub.model.broker import Broker
from standins.google.pubsub.model.entries import Delivery
from standins.google.pubsub.model.subscription import Subscription
from standins.google.pubsub.push.envelope import body_of
from standins.google.pubsub.push.tokens import TokenSigner
from standins.google.pubsub.push.window import PushWindow

# Source: https://cloud.google.com/pubsub/docs/push#receive_push
ACK_STATUSES = frozenset({102, 200, 201, 202, 204})

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PushTools:
    """Hold what every pusher shares."""

    broker: Broker
    bells: Bells
    client: httpx.AsyncClient
    signer: TokenSigner


class PushSender:
    """Keep a pusher running for every subscription that has a push endpoint."""

    def __init__(self, tools: PushTools) -> None:
        self._tools = tools
        self._pushers: dict[str, Pusher] = {}
        tools.broker.listen(self._notice)

    def _notice(self, name: str) -> None:
        subscription = self._tools.broker.subscriptions.get(name)
        if subscription is None or subscription.terms.push is None:
            return
        present = self._pushers.get(name)
        if present is not None and not present.task.done():
            return
        self._pushers[name] = Pusher(name, self._tools)
        self._pushers[name].task.add_done_callback(_report_crash)

    async def drop_connections(self) -> int:
        """Abort every push under way; each is redelivered. Return how many there were."""
        return sum([await pusher.abort() for pusher in list(self._pushers.values())])

    async def stop(self) -> None:
        """End all pushers and what they have under way."""
        pushers = list(self._pushers.values())
        for pusher in pushers:
            pusher.task.cancel()
        await asyncio.gather(*(pusher.task for pusher in pushers), return_exceptions=True)
        for pusher in pushers:
            await pusher.abort()


class Pusher:
    """Push a subscription's messages until it is deleted or a pull subscription."""

    def __init__(self, name: str, tools: PushTools) -> None:
        self.name = name
        self._tools = tools
        self._window = PushWindow()
        self._under_way: set[asyncio.Task[None]] = set()
        self.task = asyncio.create_task(self._run(), name=f"push {name}")

    async def abort(self) -> int:
        """Cancel the requests under way and return how many there were."""
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return len(tasks)

    async def _run(self) -> None:
        broker = self._tools.broker
        while True:
            subscription = broker.subscriptions.get(self.name)
            if subscription is None or subscription.terms.push is None:
                return
            pause = self._window.resume_at - broker.clock()
            if pause <= 0:
                self._start_pushes(subscription)
            await self._tools.bells.wait(self.name, pause if pause > 0 else None)

    def _start_pushes(self, subscription: Subscription) -> None:
        room = self._window.size - len(self._under_way)
        if room < 1:
            return
        for delivery in self._tools.broker.pull(self.name, limit=room):
            task = asyncio.create_task(self._push(subscription, delivery))
            self._under_way.add(task)
            task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        _report_crash(task)
        self._tools.bells.ring(self.name)

    async def _push(self, subscription: Subscription, delivery: Delivery) -> None:
        started = self._tools.broker.clock()
        outcome = "aborted"
        try:
            status = await self._send(subscription, delivery)
            outcome = str(status)
            acked = status in ACK_STATUSES
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL) as error:
            outcome = f"{type(error).__name__}: {error}"
            acked = False
        except asyncio.CancelledError:
            self._settle(delivery, acked=False)
            raise
        self._learn(subscription, acked=acked, started=started)
        self._settle(delivery, acked=acked)
        log.log(
            logging.INFO if acked else logging.WARNING,
            "push",
            extra={
                "subscription": self.name,
                "message_id": delivery.message.message_id,
                "attempt": delivery.attempt,
                "outcome": outcome,
                "acked": acked,
            },
        )

    async def _send(self, subscription: Subscription, delivery: Delivery) -> int:
        push = subscription.terms.push
        if push is None:
            raise httpx.InvalidURL(f"{self.name} is no push subscription any more")
        body = body_of(delivery, subscription)
        headers = {"content-type": "application/json"}
        if push.oidc_email:
            audience = push.oidc_audience or push.endpoint
            token = self._tools.signer.token(email=push.oidc_email, audience=audience)
            headers["authorization"] = f"Bearer {token}"
        async with asyncio.timeout(subscription.lease_seconds()):
            response = await self._tools.client.post(push.endpoint, content=body, headers=headers)
        return response.status_code

    def _learn(self, subscription: Subscription, *, acked: bool, started: float) -> None:
        broker = self._tools.broker
        now = broker.clock()
        self._window.record(
            acked=acked, latency_seconds=now - started, now=now, pausing=subscription.terms.retry is None
        )

    def _settle(self, delivery: Delivery, *, acked: bool) -> None:
        broker = self._tools.broker
        try:
            if acked:
                broker.acknowledge(self.name, [delivery.ack_id])
            else:
                broker.modify_ack_deadline(self.name, [delivery.ack_id], 0)
        except ApiError as error:  # deleted or replayed while the request was under way
            log.info("push outcome is moot", extra={"subscription": self.name, "reason": error.message})


def _report_crash(task: asyncio.Task[None]) -> None:
    """Log what ended a task that should not have ended that way.

    Its messages come back when their leases end.
    """
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("push task crashed", exc_info=error, extra={"task": task.get_name()})
