"""The HTTP request of one push: the wrapped JSON body, or the bare data with metadata as headers.

Sources: https://cloud.google.com/pubsub/docs/push and
https://cloud.google.com/pubsub/docs/payload-unwrapping
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from standins.pubsub.model.subscription import Subscription, timestamp

if TYPE_CHECKING:
    from standins.pubsub.model.entries import Delivery

METADATA_PREFIX = "x-goog-pubsub-"
# Headers that belong to the request itself; an attribute of this name cannot overwrite them.
_RESERVED_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "authorization"})


@dataclass(frozen=True)
class Envelope:
    """Hold the body and the headers of one push."""

    body: bytes
    headers: dict[str, str]


def envelope_of(delivery: Delivery, subscription: Subscription, *, omit_empty_data: bool = False) -> Envelope:
    """Return what to send for a delivery.

    `omit_empty_data` leaves the `data` field out of a wrapped message that has none; it is not
    documented which of the two the real service does, and a careful handler accepts both.
    """
    push = subscription.terms.push
    if push is not None and push.unwrapped:
        return Envelope(delivery.message.data, _bare_headers(delivery, subscription, metadata=push.write_metadata))
    body = json.dumps(wrapped(delivery, subscription, omit_empty_data=omit_empty_data)).encode()
    return Envelope(body, {"content-type": "application/json"})


def wrapped(delivery: Delivery, subscription: Subscription, *, omit_empty_data: bool = False) -> dict[str, Any]:
    """Return the JSON document of a wrapped push.

    `deliveryAttempt` stands only under a dead-letter policy.
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
    if omit_empty_data and not message.data:
        del inner["data"]
    if message.attributes:
        inner["attributes"] = dict(message.attributes)
    if message.ordering_key:
        inner["orderingKey"] = message.ordering_key
    document: dict[str, Any] = {"message": inner, "subscription": subscription.name}
    if subscription.terms.dead_letter is not None:
        document["deliveryAttempt"] = delivery.attempt
    return document


def _bare_headers(delivery: Delivery, subscription: Subscription, *, metadata: bool) -> dict[str, str]:
    if not metadata:
        return {}
    message = delivery.message
    headers = {
        name.lower(): value
        for name, value in message.attributes.items()
        if name.lower() not in _RESERVED_HEADERS and _is_header(name, value)
    }
    headers[f"{METADATA_PREFIX}subscription-name"] = subscription.name
    headers[f"{METADATA_PREFIX}message-id"] = message.message_id
    headers[f"{METADATA_PREFIX}publish-time"] = timestamp(message.publish_time)
    if message.ordering_key:
        headers[f"{METADATA_PREFIX}ordering-key"] = message.ordering_key
    if subscription.terms.dead_letter is not None:
        headers[f"{METADATA_PREFIX}delivery-attempt"] = str(delivery.attempt)
    return headers


def _is_header(name: str, value: str) -> bool:
    """Return whether an attribute can travel as a header at all."""
    printable = value.isascii() and value.isprintable()
    return printable and bool(name) and all(letter.isalnum() or letter in "!#$%&'*+-.^_`|~" for letter in name)
