"""Push delivery: what is sent to an endpoint, how many at a time; and waking up whoever waits.

One task per push subscription, one more per request under way. The model leases, counts and
retries. No answer by the ack deadline is a nack, like any status that is not one of the documented
acknowledgements. Pushes carry no token: whether a caller may call is for Cloud Run.
"""

import asyncio
import contextlib
import json
import logging
from collections import defaultdict, deque
from typing import Any

import httpx
from google.protobuf import json_format

from standins.google.errors import ApiError
from standins.google.pubsub.broker import Broker
from standins.google.pubsub.subscription import Delivery, Subscription

# Source: https://cloud.google.com/pubsub/docs/push#receive_push
ACK_STATUSES = frozenset({102, 200, 201, 202, 204})
_SLEEP_SECONDS_MAX = 3_600.0
_WINDOW_START, _WINDOW_MAX, _SAMPLE = 4, 100, 100
_SLOW_SECONDS, _ACK_SHARE_MIN = 1.0, 0.99
log = logging.getLogger(__name__)


class Bells:
    """Ring for those who wait on a subscription's name.

    There is no await between looking and waiting, so no wake-up is lost.
    """

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)

    def ring(self, name: str) -> None:
        """Wake everyone who waits on the name."""
        for future in self._waiting.pop(name, set()):
            if not future.done():
                future.set_result(None)

    async def wait(self, name: str, timeout_seconds: float | None = None) -> None:
        """Return when the name rings, or after a timeout in real seconds."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[name].add(future)
        with contextlib.suppress(TimeoutError):
            try:
                async with asyncio.timeout(timeout_seconds):
                    await future
            finally:
                self._waiting[name].discard(future)


async def keep_time(broker: Broker) -> None:
    """Let time act on the broker when a lease ends or a delayed message becomes available."""
    changed = asyncio.Event()
    broker.listen(lambda _: changed.set())
    while True:
        changed.clear()
        moment = broker.next_event_at()
        seconds = _SLEEP_SECONDS_MAX if moment is None else max(0.0, moment - broker.clock())
        # Not wait_for: until Python 3.12 it loses a cancellation that comes in the moment of
        # the change (https://github.com/python/cpython/issues/86296), and whoever cancelled
        # this would wait for ever.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, _SLEEP_SECONDS_MAX)):
                await changed.wait()
        broker.settle()


def describe_push(delivery: Delivery, subscription: Subscription) -> bytes:
    """Return what to send for a delivery. `deliveryAttempt` stands only under a dead-letter policy.

    Whether the real service leaves the field `data` out of a message that has none is not
    documented; a careful handler accepts both.
    """
    message = {"data": "", **json_format.MessageToDict(delivery.message)}
    message |= {"message_id": message["messageId"], "publish_time": message["publishTime"]}
    document: dict[str, Any] = {"message": message, "subscription": subscription.name}
    if subscription.terms.HasField("dead_letter_policy"):
        document["deliveryAttempt"] = delivery.attempt
    return json.dumps(document).encode()


class PushWindow:
    """How many pushes of a subscription may be under way."""

    def __init__(self) -> None:
        self.size = _WINDOW_START
        self._outcomes: deque[tuple[bool, float]] = deque(maxlen=_SAMPLE)

    def record(self, *, acked: bool, seconds: float) -> None:
        """Learn from one answered push: grow while all goes well, shrink at a failure."""
        self._outcomes.append((acked, seconds))
        count = len(self._outcomes)
        share = sum(acked for acked, _ in self._outcomes) / count
        mean = sum(seconds for _, seconds in self._outcomes) / count
        if not acked:
            self.size = max(1, self.size // 2)
        elif share >= _ACK_SHARE_MIN and mean < _SLOW_SECONDS:
            self.size = min(_WINDOW_MAX, self.size + 1)


class PushSender:
    """Keeps a pusher running for every subscription that has a push endpoint."""

    def __init__(self, broker: Broker, bells: Bells, client: httpx.AsyncClient) -> None:
        self._broker, self._bells, self._client = broker, bells, client
        self._pushers: dict[str, Pusher] = {}
        broker.listen(self._notice)

    def _notice(self, name: str) -> None:
        if find_endpoint(self._broker, name) is None:
            return
        present = self._pushers.get(name)
        if present is None or present.task.done():
            self._pushers[name] = Pusher(name, self._broker, self._bells, self._client)
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


def find_endpoint(broker: Broker, name: str) -> str | None:
    """Return where a subscription pushes to; None if it does not, or is gone."""
    subscription = broker.subscriptions.get(name)
    return subscription.terms.push_config.push_endpoint or None if subscription else None


class Pusher:
    """Pushes a subscription's messages until it is deleted or a pull subscription."""

    def __init__(self, name: str, broker: Broker, bells: Bells, client: httpx.AsyncClient) -> None:
        self.name = name
        self._broker, self._bells, self._client = broker, bells, client
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
        while endpoint := find_endpoint(self._broker, self.name):
            room = self._window.size - len(self._under_way)
            for delivery in self._broker.pull(self.name, limit=room) if room > 0 else ():
                task = asyncio.create_task(self._push(endpoint, delivery))
                self._under_way.add(task)
                task.add_done_callback(self._finish)
            await self._bells.wait(self.name)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        _report_crash(task)
        self._bells.ring(self.name)

    async def _push(self, endpoint: str, delivery: Delivery) -> None:
        started, acked = self._broker.clock(), False
        try:
            status = await self._send(endpoint, delivery)
            outcome, acked = str(status), status in ACK_STATUSES
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, ApiError) as error:
            outcome = f"{type(error).__name__}: {error}"
        except asyncio.CancelledError:
            self._settle(delivery, acked=False)
            raise
        self._window.record(acked=acked, seconds=self._broker.clock() - started)
        self._settle(delivery, acked=acked)
        fields = {"subscription": self.name, "message_id": delivery.message.message_id}
        fields |= {"attempt": delivery.attempt, "outcome": outcome, "acked": acked}
        log.log(logging.INFO if acked else logging.WARNING, "push", extra=fields)

    async def _send(self, endpoint: str, delivery: Delivery) -> int:
        subscription = self._broker.subscription(self.name)
        headers = {"content-type": "application/json"}
        async with asyncio.timeout(subscription.terms.ack_deadline_seconds):
            body = describe_push(delivery, subscription)
            response = await self._client.post(endpoint, content=body, headers=headers)
        return response.status_code

    def _settle(self, delivery: Delivery, *, acked: bool) -> None:
        try:
            if acked:
                self._broker.acknowledge(self.name, [delivery.ack_id])
            else:
                self._broker.modify_ack_deadline(self.name, [delivery.ack_id], 0)
        except ApiError as error:  # deleted or replayed while the request was under way
            log.info("push outcome is moot", extra={"subscription": self.name, "reason": error.message})


def _report_crash(task: asyncio.Task[None]) -> None:
    """Log what ended a task that should not have ended that way.

    Its messages come back when their leases end.
    """
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("push task crashed", exc_info=error, extra={"task": task.get_name()})
