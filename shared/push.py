"""Reads the envelope of a Pub/Sub push. The framework's own reader drops fields that we need.

https://cloud.google.com/pubsub/docs/push#receive_push
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

import msgspec

from shared.json_text import JSON_ERRORS, describe_json_error
from shared.model.errors import MalformedEvent
from shared.model.messages import Message

BODY_BYTES_MAX = 14_000_000  # assumes: push-body
"""A message has at most 10 MB, base64 adds a third."""


@dataclass(frozen=True, slots=True)
class Push:
    """One delivery."""

    message: Message
    message_id: str
    delivery_attempt: int
    """0 when the subscription has no dead-letter policy."""


class _PushedMessage(msgspec.Struct, rename="camel"):
    data: str = ""
    attributes: dict[str, str] = {}
    message_id: str = ""


class _Envelope(msgspec.Struct, rename="camel"):
    message: _PushedMessage
    subscription: str = ""
    delivery_attempt: int = 0


_ENVELOPE = msgspec.json.Decoder(_Envelope)


def parse_push(body: bytes) -> Push:
    """Return the delivery that a request body carries.

    Raises:
        MalformedEvent: it is not a wrapped Pub/Sub push.
    """
    if len(body) > BODY_BYTES_MAX:
        raise MalformedEvent(
            "is too long", field="body", value=f"{len(body)} bytes", valid=f"≤ {BODY_BYTES_MAX}"
        )
    try:
        envelope = _ENVELOPE.decode(body)
        data = base64.b64decode(envelope.message.data, validate=True)
    except JSON_ERRORS as error:
        shown = body[:80].decode("utf-8", "replace")
        valid = "a wrapped Pub/Sub push: {message: {data, attributes}}"
        raise MalformedEvent(
            describe_json_error(error), field="body", value=shown, valid=valid
        ) from error
    except (binascii.Error, ValueError) as error:
        shown = envelope.message.data[:80]
        raise MalformedEvent(
            "is not base64", field="body.message.data", value=shown, valid="base64"
        ) from error
    return Push(
        message=Message(data=data, attributes=envelope.message.attributes),
        message_id=envelope.message.message_id,
        delivery_attempt=envelope.delivery_attempt,
    )
