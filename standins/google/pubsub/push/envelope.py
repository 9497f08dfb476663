"""The HTTP body of one push: the wrapped message as JSON.

Source: https://cloud.google.com/pubsub/docs/push
"""

import base64
import json
from typing import Any

from standins.google.pubsub.model.entries import Delivery
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
