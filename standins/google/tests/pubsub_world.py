"""What a scenario works with: the official clients against one server, fresh names, and short ways
to ask.
"""

import base64
import contextlib
import itertools
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from google.api_core import exceptions
from google.pubsub_v1 import PublisherClient, SubscriberClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from standins.kit.local_answers import Answer, Asked, LocalAnswers
from standins.kit.processes import PATIENCE_SECONDS, wait_until

PROJECT = "projects/conformance"
ACCEPTED = "OK"
DAY = {"seconds": 86_400}
_QUIET_SECONDS = 1.5
_FIRST_SECONDS = 20.0  # of the wait for what comes: a busy machine delivers it late
_numbers = itertools.count(1)


@dataclass
class Push:
    """One request as it arrived."""

    headers: Mapping[str, str]
    document: dict[str, Any]
    started: float
    ended: float = 0.0

    @property
    def text(self) -> str:
        return base64.b64decode(self.document["message"].get("data", "")).decode()


class Receiver(LocalAnswers):
    """An endpoint that answers pushes with what `status_for` says, after so many seconds."""

    def __init__(self, status_for: Callable[[Push], int] = lambda _: 200, seconds: float = 0.0) -> None:
        self.pushes: list[Push] = []
        self._status_for, self._seconds = status_for, seconds
        super().__init__(self._record)

    def _record(self, asked: Asked) -> Answer:
        push = Push(asked.headers, json.loads(asked.body), time.monotonic())
        self.pushes.append(push)
        time.sleep(self._seconds)
        push.ended = time.monotonic()
        return Answer(self._status_for(push))

    def wait_for(self, count: int) -> list[Push]:
        wait_until(lambda: len(self.pushes) >= count, what=f"{count} pushes")
        return self.pushes


class World:
    """One server under test, seen through the official clients."""

    def __init__(self, addresses: dict[str, str]) -> None:
        channel = grpc.insecure_channel(addresses["grpc"])
        self.publisher = PublisherClient(transport=PublisherGrpcTransport(channel=channel))
        self.subscriber = SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))
        self._open = contextlib.ExitStack()
        self._open.enter_context(channel)

    def close(self) -> None:
        self._open.close()

    def name(self, kind: str) -> str:
        return f"{PROJECT}/{kind}/{kind}-{next(_numbers)}"

    def topic(self, **settings: Any) -> str:
        name = self.name("topics")
        self.publisher.create_topic(request={"name": name, **settings})
        return name

    def subscription(self, topic: str, **settings: Any) -> str:
        name = self.name("subscriptions")
        self.subscriber.create_subscription(request={"name": name, "topic": topic, **settings})
        return name

    def pair(self, **settings: Any) -> tuple[str, str]:
        topic = self.topic()
        return topic, self.subscription(topic, **settings)

    def receiver(self, **settings: Any) -> Receiver:
        return self._open.enter_context(Receiver(**settings))

    def publish(self, topic: str, *texts: str, key: str = "", **attributes: str) -> list[str]:
        messages = [{"data": text.encode(), "attributes": attributes, "ordering_key": key} for text in texts]
        return list(self.publisher.publish(request={"topic": topic, "messages": messages}).message_ids)

    def pull(self, subscription: str, limit: int = 100, *, seconds: float = 1.0) -> list[Any]:
        """Return the first answer that has messages, empty when none came in time."""
        until = time.monotonic() + seconds
        request = {"subscription": subscription, "max_messages": limit}
        while (left := until - time.monotonic()) > 0:
            with contextlib.suppress(exceptions.DeadlineExceeded):
                response = self.subscriber.pull(request=request, timeout=max(0.2, left), retry=None)
                if response.received_messages:
                    return list(response.received_messages)
            time.sleep(0.02)  # some servers answer an empty pull at once
        return []

    def pull_count(self, subscription: str, count: int, *, seconds: float = PATIENCE_SECONDS) -> list[Any]:
        """Pull until so many have come in; fail when they do not."""
        until = time.monotonic() + seconds
        received: list[Any] = []
        while len(received) < count and time.monotonic() < until:
            received += self.pull(subscription, count - len(received), seconds=max(0.5, until - time.monotonic()))
        assert len(received) >= count, f"{len(received)} of {count} messages came within {seconds} s"
        return received

    def drain(self, subscription: str, *, first_seconds: float = _FIRST_SECONDS) -> list[str]:
        """Return the texts of everything that is delivered until nothing comes for a while;
        acknowledge it all.
        """
        drained: list[str] = []
        while batch := self.pull(subscription, seconds=_QUIET_SECONDS if drained else first_seconds):
            drained += texts(batch)
            self.ack(subscription, batch)
        return drained

    def ack(self, subscription: str, received: list[Any]) -> None:
        self.subscriber.acknowledge(
            request={"subscription": subscription, "ack_ids": [message.ack_id for message in received]}
        )

    def lease(self, subscription: str, received: list[Any], seconds: int) -> None:
        """Let leases end after so many seconds; 0 is a nack."""
        self.subscriber.modify_ack_deadline(
            request={
                "subscription": subscription,
                "ack_ids": [message.ack_id for message in received],
                "ack_deadline_seconds": seconds,
            }
        )


def texts(received: list[Any]) -> list[str]:
    return [message.message.data.decode() for message in received]


def refusal(call: Callable[[], object]) -> str:
    """Return the canonical code that a call is refused with, OK when it is not."""
    try:
        call()
    except exceptions.GoogleAPICallError as error:
        code = error.grpc_status_code
        return code.name if code is not None else type(error).__name__
    return ACCEPTED
