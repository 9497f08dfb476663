"""Between resources of the API (protocol buffers) and terms of the model (plain values), both ways.

A feature that the broker does not have (schemas, exports, order, unwrapped pushes and the like) is
refused by name.
"""

from typing import Any

from google.pubsub_v1 import types

from standins.google.errors import ApiError, Code
from standins.google.pubsub.model.names import DELETED_TOPIC, invalid
from standins.google.pubsub.model.resources import Delivery, Draft, Message
from standins.google.pubsub.model.seek import Snapshot
from standins.google.pubsub.model.subscription import Subscription, Topic
from standins.google.pubsub.model.terms import (
    DEFAULT_EXPIRATION_SECONDS,
    DEFAULT_MINIMUM_BACKOFF_SECONDS,
    DEFAULT_RETENTION_SECONDS,
    MAX_BACKOFF_SECONDS,
    MIN_ACK_DEADLINE_SECONDS,
    MIN_DELIVERY_ATTEMPTS,
    DeadLetterPolicy,
    PushTerms,
    RetryPolicy,
    SubscriptionTerms,
    TopicTerms,
)


def message_class(name: str) -> Any:
    """Return the protobuf class of a message of the client, which is made at run time."""
    return getattr(types, name).pb()


_MICROSECONDS = 1_000_000
PubsubMessage, ReceivedMessage = message_class("PubsubMessage"), message_class("ReceivedMessage")
TopicMessage, SubscriptionMessage = message_class("Topic"), message_class("Subscription")
SnapshotMessage = message_class("Snapshot")
_FOREIGN_TOPIC_FIELDS = ("schema_settings", "ingestion_data_source_settings", "message_transforms")
_FOREIGN_SUBSCRIPTION_FIELDS = (
    "bigquery_config",
    "cloud_storage_config",
    "bigtable_config",
    "message_transforms",
    "enable_message_ordering",
    "enable_exactly_once_delivery",
)
_FOREIGN_PUSH_FIELDS = ("no_wrapper",)


def draft_of(message: Any) -> Draft:
    """Return the draft that a `PubsubMessage` of a publish request means."""
    return Draft(message.data, dict(message.attributes), message.ordering_key)


def message_resource(message: Message) -> Any:
    """Return a published message as a `PubsubMessage`."""
    resource = PubsubMessage(
        data=message.data,
        attributes=dict(message.attributes),
        message_id=message.message_id,
        ordering_key=message.ordering_key,
    )
    resource.publish_time.FromMicroseconds(round(message.publish_time * _MICROSECONDS))
    return resource


def received_message(delivery: Delivery, terms: SubscriptionTerms) -> Any:
    """Return a delivery as a `ReceivedMessage`.

    The attempt is stated only under a dead-letter policy.
    """
    return ReceivedMessage(
        ack_id=delivery.ack_id,
        message=message_resource(delivery.message),
        delivery_attempt=delivery.attempt if terms.dead_letter else 0,
    )


def moment_of(timestamp: Any) -> float:
    """Return a protocol buffer timestamp as Unix seconds."""
    return float(timestamp.ToMicroseconds() / _MICROSECONDS)


def topic_terms(resource: Any) -> TopicTerms:
    """Return the terms that a `Topic` resource asks for.

    Raises UNIMPLEMENTED for a feature the broker lacks.
    """
    _refuse_foreign(resource, _FOREIGN_TOPIC_FIELDS)
    kept = TopicMessage()
    kept.CopyFrom(resource)
    return TopicTerms(retention_seconds=_seconds(resource, "message_retention_duration"), description=kept)


def topic_resource(topic: Topic) -> Any:
    """Return a topic as the API shows it."""
    resource = TopicMessage()
    resource.CopyFrom(topic.terms.description)
    resource.name = topic.name
    return resource


def subscription_terms(resource: Any) -> SubscriptionTerms:
    """Return the terms that a `Subscription` resource asks for, with documented defaults filled in.

    Raises UNIMPLEMENTED for a feature the broker lacks.
    """
    _refuse_foreign(resource, _FOREIGN_SUBSCRIPTION_FIELDS)
    kept = SubscriptionMessage()
    kept.CopyFrom(resource)
    return SubscriptionTerms(
        topic=resource.topic,
        ack_deadline_seconds=resource.ack_deadline_seconds or MIN_ACK_DEADLINE_SECONDS,
        filter_text=resource.filter,
        retain_acked=resource.retain_acked_messages,
        retention_seconds=_seconds(resource, "message_retention_duration") or DEFAULT_RETENTION_SECONDS,
        expiration_seconds=_expiration(resource),
        retry=_retry(resource),
        dead_letter=_dead_letter(resource),
        push=push_terms(resource.push_config),
        description=kept,
    )


def push_terms(config: Any) -> PushTerms | None:
    """Return the push terms of a `PushConfig`, None if it has no endpoint (a pull subscription).

    Raises UNIMPLEMENTED for a feature the broker lacks.
    """
    _refuse_foreign(config, _FOREIGN_PUSH_FIELDS)
    if not config.push_endpoint:
        if config.HasField("oidc_token"):
            raise invalid("push_config.push_endpoint", "", "an endpoint, because push_config.oidc_token is set")
        return None
    return PushTerms(
        endpoint=config.push_endpoint,
        oidc_email=config.oidc_token.service_account_email,
        oidc_audience=config.oidc_token.audience,
    )


def subscription_resource(subscription: Subscription, topic: Topic | None) -> Any:
    """Return a subscription as the API shows it, defaults and output-only fields included."""
    terms = subscription.terms
    resource = SubscriptionMessage()
    resource.CopyFrom(terms.description)
    resource.name = subscription.name
    resource.topic = subscription.topic
    resource.ack_deadline_seconds = terms.ack_deadline_seconds
    resource.push_config.SetInParent()
    resource.message_retention_duration.FromSeconds(round(terms.retention_seconds))
    resource.expiration_policy.SetInParent()
    if terms.expiration_seconds is not None:
        resource.expiration_policy.ttl.FromSeconds(round(terms.expiration_seconds))
    if terms.retry is not None:
        _set_seconds(resource.retry_policy.minimum_backoff, terms.retry.minimum_backoff_seconds)
        _set_seconds(resource.retry_policy.maximum_backoff, terms.retry.maximum_backoff_seconds)
    if terms.dead_letter is not None:
        resource.dead_letter_policy.max_delivery_attempts = terms.dead_letter.max_delivery_attempts
    resource.state = resource.ACTIVE
    if topic is not None and topic.terms.retention_seconds is not None:
        _set_seconds(resource.topic_message_retention_duration, topic.terms.retention_seconds)
    return resource


def snapshot_resource(snapshot: Snapshot) -> Any:
    """Return a snapshot as the API shows it."""
    resource = SnapshotMessage()
    if snapshot.description is not None:
        resource.CopyFrom(snapshot.description)
    resource.name = snapshot.name
    resource.topic = snapshot.topic or DELETED_TOPIC
    resource.expire_time.FromMicroseconds(round(snapshot.expires_at * _MICROSECONDS))
    return resource


def _expiration(resource: Any) -> float | None:
    """Return the time to live.

    The default without a policy, None (never) for a policy without a ttl.
    """
    if not resource.HasField("expiration_policy"):
        return DEFAULT_EXPIRATION_SECONDS
    return _seconds(resource.expiration_policy, "ttl")


def _retry(resource: Any) -> RetryPolicy | None:
    if not resource.HasField("retry_policy"):
        return None
    policy = resource.retry_policy
    minimum = _seconds(policy, "minimum_backoff")
    maximum = _seconds(policy, "maximum_backoff")
    return RetryPolicy(
        minimum_backoff_seconds=DEFAULT_MINIMUM_BACKOFF_SECONDS if minimum is None else minimum,
        maximum_backoff_seconds=MAX_BACKOFF_SECONDS if maximum is None else maximum,
    )


def _dead_letter(resource: Any) -> DeadLetterPolicy | None:
    policy = resource.dead_letter_policy
    if not policy.dead_letter_topic:
        if policy.max_delivery_attempts:
            raise invalid(
                "dead_letter_policy.dead_letter_topic", "", "a topic, because max_delivery_attempts is set"
            )
        return None
    return DeadLetterPolicy(policy.dead_letter_topic, policy.max_delivery_attempts or MIN_DELIVERY_ATTEMPTS)


def _refuse_foreign(resource: Any, fields: tuple[str, ...]) -> None:
    set_fields = {descriptor.name for descriptor, _ in resource.ListFields()}
    for name in fields:
        if name in set_fields:
            raise ApiError(Code.UNIMPLEMENTED, f"This local broker has no {name}; leave the field {name!r} out.")


def _seconds(resource: Any, field: str) -> float | None:
    if not resource.HasField(field):
        return None
    return float(getattr(resource, field).ToMicroseconds() / _MICROSECONDS)


def _set_seconds(duration: Any, seconds: float) -> None:
    duration.FromMicroseconds(round(seconds * _MICROSECONDS))
