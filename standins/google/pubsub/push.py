"""Push delivery: what is sent to an endpoint, how it is signed, how many at a time.

One task per push subscription, one more per request under way. The model leases, counts and
retries. No answer by the ack deadline is a nack, like any status that is not one of the documented
acknowledgements.
"""

import asyncio
import base64
import hashlib
import json
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import crypt, jwt

from standins.google.errors import ApiError
from standins.google.pubsub.bells import Bells
from standins.google.pubsub.model.broker import Broker
from standins.google.pubsub.model.resources import Delivery
from standins.google.pubsub.model.subscription import Subscription, timestamp


def body_of(delivery: Delivery, subscription: Subscription) -> bytes:
    """Return what to send for a delivery. `deliveryAttempt` stands only under a dead-letter policy.

    Whether the real service leaves the field `data` out of a message that has none is not
    documented; a careful handler accepts both.
    """
    message = delivery.message
    published = timestamp(message.publish_time)
    inner: dict[str, Any] = {
        "data": base64.b64encode(message.data).decode(),
        "messageId": message.message_id,
        "message_id": message.message_id,
        "publishTime": published,
        "publish_time": published,
    }
    if message.attributes:
        inner["attributes"] = dict(message.attributes)
    if message.ordering_key:
        inner["orderingKey"] = message.ordering_key
    document: dict[str, Any] = {"message": inner, "subscription": subscription.name}
    if subscription.terms.dead_letter is not None:
        document["deliveryAttempt"] = delivery.attempt
    return json.dumps(document).encode()


START_SIZE = 4
MAX_SIZE = 100
SLOW_SECONDS = 1.0
MIN_ACK_SHARE = 0.99
MIN_PAUSE_SECONDS = 0.1
MAX_PAUSE_SECONDS = 60.0
SAMPLE = 100


class PushWindow:
    """Keep a subscription's push concurrency and pause.

    `pausing` is off where a retry policy sets the pace.
    """

    def __init__(self) -> None:
        self.size = START_SIZE
        self.resume_at = 0.0
        self._pause = 0.0
        self._outcomes: deque[tuple[bool, float]] = deque(maxlen=SAMPLE)

    def record(self, *, acked: bool, latency_seconds: float, now: float, pausing: bool) -> None:
        """Learn from one answered push: its outcome, and its latency."""
        self._outcomes.append((acked, latency_seconds))
        if acked:
            self._pause = self._pause / 2 if self._pause > MIN_PAUSE_SECONDS else 0.0
            if self._healthy():
                self.size = min(MAX_SIZE, self.size + 1)
        else:
            self.size = max(1, self.size // 2)
            self._pause = min(MAX_PAUSE_SECONDS, max(MIN_PAUSE_SECONDS, self._pause * 2))
        self.resume_at = now + self._pause if pausing else 0.0

    def _healthy(self) -> bool:
        count = len(self._outcomes)
        share = sum(acked for acked, _ in self._outcomes) / count
        mean = sum(latency for _, latency in self._outcomes) / count
        return share >= MIN_ACK_SHARE and mean < SLOW_SECONDS


ISSUER = "https://accounts.google.com"
LIFETIME_SECONDS = 3_600
RENEW_SECONDS = 1_800


class TokenSigner:
    """Sign tokens for service accounts; `clock` returns Unix seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        private_key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
        pem = private_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self._numbers = private_key.public_key().public_numbers()
        self._key_id = hashlib.sha256(str(self._numbers.n).encode()).hexdigest()[:40]
        signer: Any = crypt.RSASigner
        self._signer: Any = signer.from_string(pem, key_id=self._key_id)
        self._issued: dict[tuple[str, str], tuple[float, str]] = {}

    def token(self, *, email: str, audience: str) -> str:
        """Return a token for an account and an audience, valid for at least half an hour."""
        now = self._clock()
        issued_at, token = self._issued.get((email, audience), (0.0, ""))
        if now - issued_at >= RENEW_SECONDS:
            token = self._sign(email, audience, int(now))
            self._issued[email, audience] = (now, token)
        return token

    def _sign(self, email: str, audience: str, now: int) -> str:
        subject = str(int(hashlib.sha256(email.encode()).hexdigest(), 16))[:21]
        claims = {
            "iss": ISSUER,
            "aud": audience,
            "azp": subject,
            "sub": subject,
            "email": email,
            "email_verified": True,
            "iat": now,
            "exp": now + LIFETIME_SECONDS,
        }
        encode: Any = jwt.encode
        token: bytes = encode(self._signer, claims)
        return token.decode()

    def jwks(self) -> dict[str, list[dict[str, str]]]:
        """Return the public key as a JSON Web Key Set (RFC 7517)."""
        return {
            "keys": [
                {
                    "kty": "RSA",
                    "use": "sig",
                    "alg": "RS256",
                    "kid": self._key_id,
                    "n": _base64url(self._numbers.n),
                    "e": _base64url(self._numbers.e),
                }
            ]
        }


def _base64url(number: int) -> str:
    octets = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


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
