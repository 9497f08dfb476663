"""Creates the local Pub/Sub resources with the official clients, as Terraform does in the cloud.

One topic for the exporter's messages and one for the ends of GKE's operations, each with a push
subscription for each function, and a dead-letter topic with a pull subscription.
"""

from collections.abc import Mapping

import grpc
from google.cloud.pubsub_v1 import PublisherClient, SubscriberClient
from google.protobuf import duration_pb2
from google.pubsub_v1.services.publisher.transports.grpc import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports.grpc import SubscriberGrpcTransport
from google.pubsub_v1.types import DeadLetterPolicy, ExpirationPolicy, PushConfig, RetryPolicy, Subscription, Topic

from demo.stack.layout import DEAD_LETTER_SUBSCRIPTION, DEAD_LETTER_TOPIC, OPERATIONS_TOPIC, PROJECT, TOPIC

ACK_DEADLINE_SECONDS = 60
DELIVERY_ATTEMPTS_MAX = 20
BACKOFF_MIN_SECONDS = 1
BACKOFF_MAX_SECONDS = 10
REPLAY_SECONDS = 7 * 86_400
PUSH_IDENTITY = f"push@{PROJECT}.iam.gserviceaccount.com"
FILTERS = {
    "provision": 'hasPrefix(attributes.ce-type, "tpuprovisioner.demand.")',
    "collect": 'NOT hasPrefix(attributes.ce-type, "tpuprovisioner.demand.")',
}
"""By function, which messages about workloads it gets."""
ENDS = {name: f"{name}-ends" for name in FILTERS}
"""By function, its subscription to the ends of operations."""


def subscription_path(name: str) -> str:
    """Return the full name of one subscription of the stack."""
    return f"projects/{PROJECT}/subscriptions/{name}"


def create_subscriptions(pubsub_grpc: str, functions: Mapping[str, str]) -> None:
    """Create the topics, then a push subscription for each of the functions, by name."""
    with grpc.insecure_channel(pubsub_grpc) as channel:
        publisher = PublisherClient(transport=PublisherGrpcTransport(channel=channel))
        subscriber = SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))
        # Kept by the topic, so that a replay by time brings back what was acknowledged.
        for name in (TOPIC, OPERATIONS_TOPIC):
            publisher.create_topic(
                Topic(name=name, message_retention_duration=duration_pb2.Duration(seconds=REPLAY_SECONDS))
            )
        publisher.create_topic(name=DEAD_LETTER_TOPIC)
        subscriber.create_subscription(
            Subscription(
                name=DEAD_LETTER_SUBSCRIPTION, topic=DEAD_LETTER_TOPIC, expiration_policy=ExpirationPolicy()
            )
        )
        for name, expression in FILTERS.items():
            messages = _push_subscription(name, TOPIC, functions[name])
            messages.filter = expression
            messages.dead_letter_policy = DeadLetterPolicy(
                dead_letter_topic=DEAD_LETTER_TOPIC, max_delivery_attempts=DELIVERY_ATTEMPTS_MAX
            )
            subscriber.create_subscription(messages)
            # Without a dead-letter policy: the tick looks at what an end was about.
            ends = _push_subscription(ENDS[name], OPERATIONS_TOPIC, functions[name])
            subscriber.create_subscription(ends)


def _push_subscription(name: str, topic: str, endpoint: str) -> Subscription:
    return Subscription(
        name=subscription_path(name),
        topic=topic,
        ack_deadline_seconds=ACK_DEADLINE_SECONDS,
        push_config=PushConfig(
            push_endpoint=endpoint,
            oidc_token=PushConfig.OidcToken(service_account_email=PUSH_IDENTITY, audience=endpoint),
        ),
        retry_policy=RetryPolicy(
            minimum_backoff=duration_pb2.Duration(seconds=BACKOFF_MIN_SECONDS),
            maximum_backoff=duration_pb2.Duration(seconds=BACKOFF_MAX_SECONDS),
        ),
        expiration_policy=ExpirationPolicy(),
    )
