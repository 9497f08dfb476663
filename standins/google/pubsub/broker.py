"""The broker: topics and subscriptions, who publishes, who is handed what.

It takes a clock, and does no I/O. Every change of a subscription is told to the listeners by name,
so that whoever waits can be woken. Single-threaded by design: the caller serialises.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from standins.google.errors import ApiError, Code
from standins.google.pubsub import limits
from standins.google.pubsub.limits import Message
from standins.google.pubsub.subscription import Delivery, PubsubMessage, Subscription

_ACK_DEADLINE_MAX = 600


@dataclass
class Topic:
    """A topic's terms and history."""

    terms: Message
    published: list[Message] = field(default_factory=list)

    def list_kept(self, now: float) -> list[Message]:
        """Return the messages within the topic's own retention, none if it has no retention."""
        seconds = limits.count_seconds(self.terms.message_retention_duration)
        oldest = now - seconds
        return [each for each in self.published if seconds and limits.count_seconds(each.publish_time) >= oldest]


class Broker:
    """One Pub/Sub service, for every project that is named; `clock` returns Unix seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.topics: dict[str, Topic] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self._last_number = 0
        self._listeners: list[Callable[[str], None]] = []

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call the listener with a subscription's name whenever that subscription has changed."""
        self._listeners.append(listener)

    def _tell(self, name: str) -> None:
        for listener in self._listeners:
            listener(name)

    def create_topic(self, terms: Message) -> Message:
        """Create a topic and return it. Raises ApiError: its name is taken, or a field is wrong."""
        limits.check_topic(terms)
        self._refuse_taken(terms.name)
        self.topics[terms.name] = Topic(terms)
        return terms

    def topic(self, name: str) -> Topic:
        """Return a topic. Raises ApiError: NOT_FOUND."""
        if name not in self.topics:
            raise _not_found(name)
        return self.topics[name]

    def publish(self, topic: str, messages: Sequence[Message]) -> list[str]:
        """Publish messages, all or none, and return their ids in order."""
        self.topic(topic)
        limits.check_messages(messages)
        return [self._publish_one(topic, message) for message in messages]

    def _publish_one(self, topic: str, draft: Message) -> str:
        self._last_number += 1
        message = PubsubMessage(data=draft.data, attributes=draft.attributes, ordering_key=draft.ordering_key)
        message.message_id = str(self._last_number)
        message.publish_time.FromMicroseconds(round(self.clock() * 1_000_000))
        self.topics[topic].published.append(message)
        for name, subscription in self.subscriptions.items():
            if subscription.terms.topic == topic and subscription.offer(message):
                self._tell(name)
        return str(message.message_id)

    def _forward(self, topic: str, letter: Message) -> bool:
        if topic in self.topics:
            self._publish_one(topic, letter)
        return topic in self.topics

    def create_subscription(self, terms: Message) -> Subscription:
        """Return a new subscription. Raises ApiError: a field is wrong, or names nothing."""
        complete = self._complete(terms)
        self._refuse_taken(terms.name)
        self.topic(terms.topic)
        self.subscriptions[terms.name] = Subscription(complete, self.clock, self._forward)
        self._tell(terms.name)
        return self.subscriptions[terms.name]

    def change_subscription(self, terms: Message) -> None:
        """Let new terms govern what happens from now on. Raises ApiError: a field is wrong."""
        self.subscription(terms.name).terms = self._complete(terms)
        self._tell(terms.name)

    def _complete(self, terms: Message) -> Message:
        complete = limits.complete_subscription(terms)
        if dead := terms.dead_letter_policy.dead_letter_topic:
            self.topic(dead)
        return complete

    def subscription(self, name: str) -> Subscription:
        """Return a subscription. Raises ApiError: NOT_FOUND."""
        if name not in self.subscriptions:
            raise _not_found(name)
        return self.subscriptions[name]

    def pull(self, name: str, limit: int) -> list[Delivery]:
        """Hand out up to `limit` messages, each for the subscription's ack deadline."""
        subscription = self.subscription(name)
        if limit < 1:
            raise limits.invalid("max_messages", limit, "1 or more")
        batch = subscription.lease(limit)
        if batch:
            self._tell(name)
        return batch

    def acknowledge(self, name: str, ack_ids: Sequence[str]) -> None:
        """Settle deliveries for good; stale ack ids are ignored."""
        self.subscription(name).acknowledge(_present(ack_ids))
        self._tell(name)

    def modify_ack_deadline(self, name: str, ack_ids: Sequence[str], seconds: int) -> None:
        """Let leases end `seconds` from now; 0 is a nack. Stale ids are ignored."""
        subscription = self.subscription(name)
        if not 0 <= seconds <= _ACK_DEADLINE_MAX:
            raise limits.invalid("ack_deadline_seconds", seconds, f"0 to {_ACK_DEADLINE_MAX} seconds")
        subscription.modify(_present(ack_ids), seconds)
        self._tell(name)

    def seek(self, name: str, moment: float) -> None:
        """Put a subscription back to a Unix time."""
        subscription = self.subscription(name)
        subscription.seek(moment, self.topic(subscription.terms.topic).list_kept(self.clock()))
        self._tell(name)

    def settle(self) -> None:
        """Let time act on every subscription."""
        for subscription in list(self.subscriptions.values()):
            if subscription.settle():
                self._tell(subscription.name)

    def next_event_at(self) -> float | None:
        """Return the Unix time when `settle` next has something to do, if nothing else happens."""
        return min((at for each in self.subscriptions.values() for at in each.next_events()), default=None)

    def _refuse_taken(self, name: str) -> None:
        if name in self.topics or name in self.subscriptions:
            text = f"Resource already exists in the project (resource={name.rpartition('/')[2]})."
            raise ApiError(Code.ALREADY_EXISTS, text)


def _present(ack_ids: Sequence[str]) -> Sequence[str]:
    if not ack_ids:
        raise limits.invalid("ack_ids", [], "at least one ack id")
    return ack_ids


def _not_found(resource: str) -> ApiError:
    return ApiError(Code.NOT_FOUND, f"Resource not found (resource={resource.rpartition('/')[2]}).")
