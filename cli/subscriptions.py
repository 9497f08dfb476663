"""Pub/Sub as an operator uses it, over REST v1: look at topics and subscriptions, seek, pull and acknowledge.

https://cloud.google.com/pubsub/docs/reference/rest/v1/projects.subscriptions
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from shared.core.errors import NotFound, Unavailable
from shared.core.events import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.edges.google_rest import GoogleRest

T = TypeVar("T")
PULL_MAX = 100


class _Wire(msgspec.Struct, rename="camel", frozen=True):
    """Partial objects."""


class Topic(_Wire, frozen=True):
    """A topic."""

    name: str = ""
    message_retention_duration: str = ""
    """For example ``604800s``; empty: the topic keeps nothing."""


class OidcToken(_Wire, frozen=True):
    """As whom a push is sent."""

    service_account_email: str = ""


class PushConfig(_Wire, frozen=True):
    """Where messages are pushed."""

    push_endpoint: str = ""
    oidc_token: OidcToken | None = None


class DeadLetterPolicy(_Wire, frozen=True):
    """Where messages go that are never acknowledged."""

    dead_letter_topic: str = ""
    max_delivery_attempts: int = 5


class ExpirationPolicy(_Wire, frozen=True):
    """When an unused subscription is removed; without `ttl`, never."""

    ttl: str = ""


class RetryPolicy(_Wire, frozen=True):
    """The pauses between deliveries."""

    minimum_backoff: str = ""
    maximum_backoff: str = ""


class Subscription(_Wire, frozen=True):
    """A subscription."""

    name: str = ""
    topic: str = ""
    filter: str = ""
    push_config: PushConfig = msgspec.field(default_factory=PushConfig)
    dead_letter_policy: DeadLetterPolicy | None = None
    expiration_policy: ExpirationPolicy | None = None
    """Absent: Pub/Sub's default of 31 days without use."""
    retry_policy: RetryPolicy | None = None
    retain_acked_messages: bool = False
    message_retention_duration: str = ""


class Snapshot(_Wire, frozen=True):
    """A snapshot."""

    name: str = ""
    topic: str = ""
    expire_time: str = ""


class _PubsubMessage(_Wire, frozen=True):
    data: str = ""
    attributes: dict[str, str] = {}
    message_id: str = ""
    publish_time: str = ""


class _Received(_Wire, frozen=True):
    ack_id: str
    message: _PubsubMessage = msgspec.field(default_factory=_PubsubMessage)


class _Pulled(_Wire, frozen=True):
    received_messages: list[_Received] = []


class Letter(msgspec.Struct, frozen=True):
    """One message that was pulled and is held until it is acknowledged or given back."""

    ack_id: str
    message_id: str
    publish_time: str
    """RFC 3339."""
    message: Message


class PubsubAdmin:
    """The API; every method raises the errors of `shared.edges.google_rest`."""

    def __init__(self, rest: GoogleRest) -> None:
        self._rest = rest

    def find_topic(self, name: str) -> Topic | None:
        """Return a topic, or None when there is none."""
        return self._find(name, Topic)

    def find_subscription(self, name: str) -> Subscription | None:
        """Return a subscription, or None when there is none."""
        return self._find(name, Subscription)

    def find_snapshot(self, name: str) -> Snapshot | None:
        """Return a snapshot, or None when there is none."""
        return self._find(name, Snapshot)

    def seek(self, subscription: str, *, time: str = "", snapshot: str = "") -> None:
        """Put a subscription back to a time (RFC 3339) or to a snapshot (full name)."""
        self._rest.call("POST", f"v1/{subscription}:seek", {"time": time} if time else {"snapshot": snapshot})

    def pull(self, subscription: str) -> list[Letter]:
        """Return up to `PULL_MAX` messages at once, or none; an empty answer does not prove an empty queue."""
        body = {"maxMessages": PULL_MAX, "returnImmediately": True}
        answer = self._decode(self._rest.call("POST", f"v1/{subscription}:pull", body), _Pulled)
        return [_read_letter(each) for each in answer.received_messages]

    def acknowledge(self, subscription: str, ack_ids: Sequence[str]) -> None:
        """Take messages away for good."""
        self._rest.call("POST", f"v1/{subscription}:acknowledge", {"ackIds": list(ack_ids)})

    def hold(self, subscription: str, ack_ids: Sequence[str], seconds: int) -> None:
        """Keep messages from being delivered again for so long; 0 gives them back at once."""
        body: dict[str, Any] = {"ackIds": list(ack_ids), "ackDeadlineSeconds": seconds}
        self._rest.call("POST", f"v1/{subscription}:modifyAckDeadline", body)

    def _find(self, name: str, kind: type[T]) -> T | None:
        try:
            return self._decode(self._rest.call("GET", f"v1/{name}"), kind)
        except NotFound:
            return None

    def _decode(self, body: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body or b"{}", type=kind)
        except msgspec.DecodeError as error:
            raise Unavailable(f"Pub/Sub's answer cannot be read: {error}") from error


def _read_letter(received: _Received) -> Letter:
    said = received.message
    try:
        data = base64.b64decode(said.data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unavailable(f"Pub/Sub's answer cannot be read: message {said.message_id}: {error}") from error
    return Letter(received.ack_id, said.message_id, said.publish_time, Message(data, said.attributes))
