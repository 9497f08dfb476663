"""Seeking: put a subscription back to a moment or to a snapshot. And the snapshots themselves.

Source: https://cloud.google.com/pubsub/docs/replay-overview
"""

from collections.abc import Iterable
from dataclasses import dataclass

from standins.google.errors import ApiError, Code
from standins.google.pubsub.model.names import DELETED_TOPIC, identifier_of, invalid
from standins.google.pubsub.model.resources import Message
from standins.google.pubsub.model.subscription import Subscription, Topic

SNAPSHOT_LIFETIME_SECONDS = 7 * 86_400.0
SNAPSHOT_MIN_LIFETIME_SECONDS = 3_600.0


@dataclass
class Snapshot:
    """Hold a subscription's unacknowledged messages and the topic's sequence at a moment."""

    name: str
    topic: str
    expires_at: float
    pending: list[Message]
    after_number: int
    description: object = None


def take_snapshot(name: str, subscription: Subscription, *, now: float, last_number: int) -> Snapshot:
    """Return a snapshot that lives 7 days less the age of the oldest unacknowledged message.

    Raises:
        ApiError: FAILED_PRECONDITION if it would expire within the hour, or the topic is gone.
    """
    if subscription.topic == DELETED_TOPIC:
        raise ApiError(Code.FAILED_PRECONDITION, f"Subscription {subscription.name} has no topic to snapshot.")
    pending = subscription.backlog.pending()
    age = now - pending[0].publish_time if pending else 0.0
    lifetime = SNAPSHOT_LIFETIME_SECONDS - age
    if lifetime < SNAPSHOT_MIN_LIFETIME_SECONDS:
        raise ApiError(
            Code.FAILED_PRECONDITION,
            f"The oldest unacknowledged message of {subscription.name} is {age:.0f} s old: the snapshot would"
            f" expire in less than {SNAPSHOT_MIN_LIFETIME_SECONDS:.0f} s.",
        )
    return Snapshot(name, subscription.topic, now + lifetime, pending, last_number)


def seek_to_time(subscription: Subscription, topic: Topic | None, moment: float, *, now: float) -> None:
    """Mark what was published before the moment as acknowledged, what is kept from then on as not.

    A moment in the future purges what there is now. Without `retain_acked_messages` or topic
    retention only unacknowledged messages are kept, so nothing acknowledged comes back, and that is
    no error.
    """
    known = _known(subscription, topic, now=now)
    purge = moment > now
    pending = [] if purge else [message for message in known if message.publish_time >= moment]
    acked = known if purge else [message for message in known if message.publish_time < moment]
    subscription.backlog.replace(pending, acked)


def seek_to_snapshot(subscription: Subscription, topic: Topic | None, snapshot: Snapshot, *, now: float) -> None:
    """Make pending what was pending in the snapshot, and everything published after it.

    Raises ApiError: INVALID_ARGUMENT if the snapshot is of another topic.
    """
    if topic is None or snapshot.topic != topic.name:
        raise invalid(
            "snapshot", snapshot.name, f"a snapshot of the topic {subscription.topic}, this is of {snapshot.topic}"
        )
    if snapshot.expires_at <= now:
        name = identifier_of(snapshot.name)
        raise ApiError(Code.NOT_FOUND, f"Resource not found (resource={name}): it has expired.")
    later = [message for message in topic.published if message.number > snapshot.after_number]
    pending = _merged(snapshot.pending, subscription.wanted(later))
    numbers = {message.number for message in pending}
    known = _merged(subscription.backlog.pending(), subscription.backlog.retained())
    subscription.backlog.replace(pending, [message for message in known if message.number not in numbers])


def _known(subscription: Subscription, topic: Topic | None, *, now: float) -> list[Message]:
    from_topic = subscription.wanted(topic.retained(now)) if topic else []
    return _merged(subscription.backlog.pending(), subscription.backlog.retained(), from_topic)


def _merged(*groups: Iterable[Message]) -> list[Message]:
    by_number = {message.number: message for group in groups for message in group}
    return [by_number[number] for number in sorted(by_number)]
