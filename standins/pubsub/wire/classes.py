"""The protocol buffer classes of `google.pubsub.v1`, taken from the official client library.

The rest of the package names them through here, so that the client library appears in one module.
They are `Any` to the type checker because the library builds them at run time.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.empty_pb2 import Empty as _Empty
from google.pubsub_v1 import types

Empty: Any = _Empty


def _raw(name: str) -> Any:
    return getattr(types, name).pb()


PubsubMessage: Any = _raw("PubsubMessage")
Topic: Any = _raw("Topic")
GetTopicRequest: Any = _raw("GetTopicRequest")
UpdateTopicRequest: Any = _raw("UpdateTopicRequest")
DeleteTopicRequest: Any = _raw("DeleteTopicRequest")
ListTopicsRequest: Any = _raw("ListTopicsRequest")
ListTopicsResponse: Any = _raw("ListTopicsResponse")
ListTopicSubscriptionsRequest: Any = _raw("ListTopicSubscriptionsRequest")
ListTopicSubscriptionsResponse: Any = _raw("ListTopicSubscriptionsResponse")
PublishRequest: Any = _raw("PublishRequest")
PublishResponse: Any = _raw("PublishResponse")
Subscription: Any = _raw("Subscription")
GetSubscriptionRequest: Any = _raw("GetSubscriptionRequest")
UpdateSubscriptionRequest: Any = _raw("UpdateSubscriptionRequest")
DeleteSubscriptionRequest: Any = _raw("DeleteSubscriptionRequest")
ListSubscriptionsRequest: Any = _raw("ListSubscriptionsRequest")
ListSubscriptionsResponse: Any = _raw("ListSubscriptionsResponse")
ModifyPushConfigRequest: Any = _raw("ModifyPushConfigRequest")
ModifyAckDeadlineRequest: Any = _raw("ModifyAckDeadlineRequest")
AcknowledgeRequest: Any = _raw("AcknowledgeRequest")
PullRequest: Any = _raw("PullRequest")
PullResponse: Any = _raw("PullResponse")
ReceivedMessage: Any = _raw("ReceivedMessage")
Snapshot: Any = _raw("Snapshot")
CreateSnapshotRequest: Any = _raw("CreateSnapshotRequest")
GetSnapshotRequest: Any = _raw("GetSnapshotRequest")
DeleteSnapshotRequest: Any = _raw("DeleteSnapshotRequest")
ListSnapshotsRequest: Any = _raw("ListSnapshotsRequest")
ListSnapshotsResponse: Any = _raw("ListSnapshotsResponse")
SeekRequest: Any = _raw("SeekRequest")
SeekResponse: Any = _raw("SeekResponse")
