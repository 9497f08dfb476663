"""The protocol buffer classes of `google.pubsub.v1`, taken from the official client library.

The rest of the package asks for them here, so that the client library appears in one module. They
are `Any` to the type checker because the library builds them at run time.
"""

from typing import Any

from google.protobuf.empty_pb2 import Empty as _Empty
from google.pubsub_v1 import types


def message_class(name: str) -> Any:
    """Return the class of a message, for example `PullRequest`."""
    return getattr(types, name).pb()


Empty: Any = _Empty
PubsubMessage = message_class("PubsubMessage")
PublishResponse = message_class("PublishResponse")
PullResponse = message_class("PullResponse")
ReceivedMessage = message_class("ReceivedMessage")
SeekResponse = message_class("SeekResponse")
Snapshot = message_class("Snapshot")
ListSnapshotsResponse = message_class("ListSnapshotsResponse")
Subscription = message_class("Subscription")
ListSubscriptionsResponse = message_class("ListSubscriptionsResponse")
Topic = message_class("Topic")
ListTopicsResponse = message_class("ListTopicsResponse")
