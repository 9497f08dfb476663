"""What Pub/Sub accepts: names, filters, messages, and the terms of topics and subscriptions.

Terms are the API's own resources. What this broker does not have (schemas, exports, order and the
like) is refused by name. Google's bounds of numbers and durations are not checked.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from google.pubsub_v1 import types

from standins.google.errors import ApiError, Code

Message: TypeAlias = Any  # a message of the API; its classes are made at run time


def message_class(name: str) -> Any:
    """Return the protobuf class of a message of the client."""
    return getattr(types, name).pb()


_IDENTIFIER = re.compile(r"(?!goog)[A-Za-z][A-Za-z0-9\-._~+%]{2,254}")
_NAME = re.compile(r"projects/[a-z0-9.:-]{1,100}/(topics|subscriptions)/([^/]+)")
_RULE = (
    "projects/PROJECT/{kind}/ID with an ID of 3 to 255 characters, starting with a letter, of letters, digits and"
    " - . _ ~ + %, and not starting with 'goog'"
)
_SHOWN_MAX = 200
_REQUEST_BYTES_MAX = 10_000_000
_MESSAGES_MAX, _ATTRIBUTES_MAX = 1_000, 100
_KEY_BYTES_MAX, _VALUE_BYTES_MAX = 256, 1_024
# The official clients carry their tracing context under this reserved prefix, so it must pass.
_RESERVED_PREFIX, _CLIENT_PREFIX = "goog", "googclient_"
_DAY_SECONDS = 86_400
_TOPIC_LACKS = ("schema_settings", "ingestion_data_source_settings", "message_transforms")
_SUBSCRIPTION_LACKS = (
    "bigquery_config",
    "cloud_storage_config",
    "bigtable_config",
    "message_transforms",
    "enable_message_ordering",
    "enable_exactly_once_delivery",
    "retain_acked_messages",
)


def invalid(field: str, value: object, valid: str) -> ApiError:
    """Return an INVALID_ARGUMENT error that names the field, the value, and what would be valid."""
    shown = repr(value)
    if len(shown) > _SHOWN_MAX:
        shown = shown[:_SHOWN_MAX] + "…"
    return ApiError(
        Code.INVALID_ARGUMENT,
        f"You have passed an invalid argument to the service (argument={field}): got {shown}; valid: {valid}.",
    )


def check_name(name: str, kind: str, *, field: str = "name") -> None:
    """Accept a resource name of the wanted kind (`topics`, `subscriptions`).

    Raises ApiError: INVALID_ARGUMENT for a name outside the documented rules, see
    https://cloud.google.com/pubsub/docs/pubsub-basics#resource_names
    """
    match = _NAME.fullmatch(name)
    if match is None or match[1] != kind or _IDENTIFIER.fullmatch(match[2]) is None:
        raise invalid(field, name, _RULE.format(kind=kind))


def count_seconds(duration: Message) -> float:
    """Return a duration, or a moment as Unix time, in seconds."""
    return float(duration.ToMicroseconds() / 1_000_000)


def check_topic(topic: Message) -> None:
    """Accept a topic. Raises ApiError for the first field that is wrong or not played."""
    check_name(topic.name, "topics")
    _refuse_foreign(topic, _TOPIC_LACKS)


def complete_subscription(subscription: Message) -> Message:
    """Return a subscription with the documented defaults.

    Raises ApiError for the first field that is wrong or not played.
    """
    check_name(subscription.name, "subscriptions")
    check_name(subscription.topic, "topics", field="topic")
    _refuse_foreign(subscription, _SUBSCRIPTION_LACKS)
    _refuse_foreign(subscription.push_config, ("no_wrapper",))
    parse_filter(subscription.filter)
    complete = message_class("Subscription")()
    complete.CopyFrom(subscription)
    _fill(complete)
    return complete


def _fill(subscription: Message) -> None:
    subscription.state = subscription.ACTIVE
    subscription.ack_deadline_seconds = subscription.ack_deadline_seconds or 10
    subscription.push_config.SetInParent()
    if not subscription.HasField("message_retention_duration"):
        subscription.message_retention_duration.FromSeconds(7 * _DAY_SECONDS)
    if not subscription.HasField("expiration_policy"):
        subscription.expiration_policy.ttl.FromSeconds(31 * _DAY_SECONDS)
    if subscription.HasField("retry_policy"):
        for name, seconds in (("minimum_backoff", 10), ("maximum_backoff", 600)):
            if not subscription.retry_policy.HasField(name):
                getattr(subscription.retry_policy, name).FromSeconds(seconds)
    if subscription.dead_letter_policy.dead_letter_topic:
        policy = subscription.dead_letter_policy
        policy.max_delivery_attempts = policy.max_delivery_attempts or 5


def _refuse_foreign(resource: Message, names: Sequence[str]) -> None:
    for field, _ in resource.ListFields():
        if field.name in names:
            text = f"This local broker has no {field.name}; leave the field {field.name!r} out."
            raise ApiError(Code.UNIMPLEMENTED, text)


def check_messages(messages: Sequence[Message]) -> None:
    """Accept the messages of one publish request, all or none.

    Raises ApiError: INVALID_ARGUMENT for the first limit that is exceeded.
    """
    if not 1 <= len(messages) <= _MESSAGES_MAX:
        raise invalid("messages", f"{len(messages)} messages", f"1 to {_MESSAGES_MAX} messages in a request")
    for index, message in enumerate(messages):
        _check_message(message, f"messages[{index}]")
    total = sum(message.ByteSize() for message in messages)
    if total > _REQUEST_BYTES_MAX:
        raise invalid("messages", f"{total} bytes", f"at most {_REQUEST_BYTES_MAX} bytes in a request")


def _check_message(message: Message, field: str) -> None:
    if not message.data and not message.attributes:
        raise ApiError(
            Code.INVALID_ARGUMENT,
            f"One or more messages in the publish request is empty (argument={field})."
            " Each message must contain either non-empty data, or at least one attribute.",
        )
    field = f"{field}.attributes"
    if len(message.attributes) > _ATTRIBUTES_MAX:
        raise invalid(field, f"{len(message.attributes)} attributes", f"at most {_ATTRIBUTES_MAX} attributes")
    for key, value in message.attributes.items():
        if not 1 <= len(key.encode()) <= _KEY_BYTES_MAX:
            raise invalid(field, key, f"keys of 1 to {_KEY_BYTES_MAX} bytes")
        if key.startswith(_RESERVED_PREFIX) and not key.startswith(_CLIENT_PREFIX):
            raise invalid(field, key, f"keys that do not start with the reserved '{_RESERVED_PREFIX}'")
        if len(value.encode()) > _VALUE_BYTES_MAX:
            raise invalid(f"{field}[{key!r}]", value, f"values of at most {_VALUE_BYTES_MAX} bytes")


Predicate = Callable[[Mapping[str, str]], bool]
_FILTER_BYTES_MAX = 256
_VALID = '[NOT] hasPrefix(attributes.KEY, "V") or [NOT] attributes.KEY = "V", with other keys than words in quotes'
_KEY = r'attributes\s*\.\s*(?:(?P<{0}>[A-Za-z0-9_][A-Za-z0-9_-]*)|"(?P<{0}_quoted>[^"\\]+)")'
_COMPARISON = re.compile(
    rf"""\s*(?P<negated>NOT\s+)?(?:
        hasPrefix\s*\(\s*{_KEY.format("of_prefix")}\s*,\s*"(?P<prefix>[^"\\]*)"\s*\)
      | {_KEY.format("of_value")}\s*=\s*"(?P<value>[^"\\]*)"
    )\s*""",
    re.VERBOSE,
)


def parse_filter(text: str) -> Predicate:
    """Return what a filter says of attributes; an empty text lets every message through.

    Raises ApiError: INVALID_ARGUMENT, naming what would be valid.
    """
    size = len(text.encode())
    if size > _FILTER_BYTES_MAX:
        raise invalid("filter", text, f"at most {_FILTER_BYTES_MAX} bytes, this has {size}")
    if not text.strip():
        return lambda _: True
    comparison = _COMPARISON.fullmatch(text)
    if comparison is None:
        raise invalid("filter", text, _VALID)
    wanted = comparison["negated"] is None
    if comparison["prefix"] is None:
        key, value = comparison["of_value"] or comparison["of_value_quoted"], comparison["value"]
        return lambda attributes: (attributes.get(key) == value) is wanted
    key, prefix = comparison["of_prefix"] or comparison["of_prefix_quoted"], comparison["prefix"]
    return lambda attributes: (key in attributes and attributes[key].startswith(prefix)) is wanted
