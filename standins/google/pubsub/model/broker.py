"""The broker: what exists (topics, subscriptions, snapshots), who publishes, who is handed what.

Every change of a subscription is told to the listeners by name, so that a skin can wake up whoever
waits. Single-threaded by design: the caller serialises.
"""

from collections.abc import Callable, Sequence

from standins.google.pubsub.model import seek as replay
from standins.google.pubsub.model.names import DELETED_TOPIC, already_exists, check_name, invalid, not_found
from standins.google.pubsub.model.resources import Delivery, Draft, Message, check_drafts
from standins.google.pubsub.model.subscription import Subscription, Topic
from standins.google.pubsub.model.terms import MAX_ACK_DEADLINE_SECONDS, SubscriptionTerms, TopicTerms

Listener = Callable[[str], None]


class Broker:
    """Be one Pub/Sub service, for every project that is named; `clock` returns Unix seconds."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.topics: dict[str, Topic] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.snapshots: dict[str, replay.Snapshot] = {}
        self._last_number = 0
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call the listener with a subscription's name whenever that subscription has changed."""
        self._listeners.append(listener)

    def _tell(self, name: str) -> None:
        for listener in self._listeners:
            listener(name)

    # --- topics -----------------------------------------------------------------------------------

    def create_topic(self, name: str, terms: TopicTerms) -> Topic:
        """Create a topic.

        Raises ALREADY_EXISTS, or INVALID_ARGUMENT for a bad name or retention.
        """
        check_name(name, "topics")
        terms.check()
        if name in self.topics:
            raise already_exists(name)
        self.topics[name] = Topic(name, terms)
        return self.topics[name]

    def topic(self, name: str) -> Topic:
        """Return a topic. Raises NOT_FOUND."""
        if name not in self.topics:
            raise not_found(name)
        return self.topics[name]

    def delete_topic(self, name: str) -> None:
        """Delete a topic; its subscriptions stay, and keep their backlog. Raises NOT_FOUND."""
        self.topic(name)
        del self.topics[name]
        for subscription in self.subscriptions_of(name):
            subscription.topic = DELETED_TOPIC
            self._tell(subscription.name)

    def subscriptions_of(self, topic: str) -> list[Subscription]:
        """Return the subscriptions that are attached to a topic."""
        return [subscription for subscription in self.subscriptions.values() if subscription.topic == topic]

    def publish(self, topic_name: str, drafts: Sequence[Draft]) -> list[str]:
        """Publish messages, all or none, and return their ids in order.

        Raises NOT_FOUND or INVALID_ARGUMENT.
        """
        topic = self.topic(topic_name)
        check_drafts(drafts)
        return [self._publish_one(topic, draft).message_id for draft in drafts]

    def _publish_one(self, topic: Topic, draft: Draft) -> Message:
        self._last_number += 1
        message = Message(
            number=self._last_number,
            message_id=str(self._last_number),
            publish_time=round(self.clock(), 6),
            data=draft.data,
            attributes=dict(draft.attributes),
            ordering_key=draft.ordering_key,
        )
        topic.published.append(message)
        for subscription in self.subscriptions_of(topic.name):
            if subscription.offer(message):
                self._tell(subscription.name)
        return message

    def _forward(self, topic_name: str, draft: Draft) -> bool:
        topic = self.topics.get(topic_name)
        if topic is None:
            return False
        self._publish_one(topic, draft)
        return True

    # --- subscriptions ----------------------------------------------------------------------------

    def create_subscription(self, name: str, terms: SubscriptionTerms) -> Subscription:
        """Create a subscription to an existing topic.

        Raises NOT_FOUND, ALREADY_EXISTS or INVALID_ARGUMENT.
        """
        check_name(name, "subscriptions")
        terms.check()
        if name in self.subscriptions:
            raise already_exists(name)
        self.topic(terms.topic)
        self._check_dead_letter_topic(terms)
        self.subscriptions[name] = Subscription(name, terms, clock=self.clock, forward=self._forward)
        self._tell(name)
        return self.subscriptions[name]

    def change_subscription(self, name: str, terms: SubscriptionTerms) -> Subscription:
        """Adopt new terms.

        Raises NOT_FOUND, or INVALID_ARGUMENT for a bad value or an immutable field.
        """
        subscription = self.subscription(name)
        before = subscription.terms
        for field, old, new in (
            ("topic", before.topic, terms.topic),
            ("filter", before.filter_text, terms.filter_text),
        ):
            if old != new:
                raise invalid(field, new, f"the value it was created with, {old!r}: the field is immutable")
        terms.check()
        self._check_dead_letter_topic(terms)
        subscription.change(terms)
        self._tell(name)
        return subscription

    def _check_dead_letter_topic(self, terms: SubscriptionTerms) -> None:
        if terms.dead_letter is not None:
            self.topic(terms.dead_letter.topic)

    def subscription(self, name: str) -> Subscription:
        """Return a subscription. Raises NOT_FOUND."""
        if name not in self.subscriptions:
            raise not_found(name)
        return self.subscriptions[name]

    def delete_subscription(self, name: str) -> None:
        """Delete a subscription with its backlog. Raises NOT_FOUND."""
        self.subscription(name)
        del self.subscriptions[name]
        self._tell(name)

    # --- delivery ---------------------------------------------------------------------------------

    def pull(self, name: str, *, limit: int) -> list[Delivery]:
        """Hand out up to `limit` messages, each for the subscription's ack deadline.

        Raises NOT_FOUND, or INVALID_ARGUMENT for a limit below 1.
        """
        subscription = self.subscription(name)
        if limit < 1:
            raise invalid("max_messages", limit, "1 or more")
        batch = subscription.backlog.lease(limit=limit, deadline_seconds=subscription.lease_seconds())
        if batch:
            self._tell(name)
        return batch

    def acknowledge(self, name: str, ack_ids: Sequence[str]) -> None:
        """Settle deliveries for good; stale ack ids are ignored.

        Raises NOT_FOUND, or INVALID_ARGUMENT for an id that is none.
        """
        subscription = self.subscription(name)
        for ack_id in ack_ids:
            subscription.backlog.acknowledge(ack_id)
        self._tell(name)

    def modify_ack_deadline(self, name: str, ack_ids: Sequence[str], seconds: int) -> None:
        """Let leases end `seconds` from now; 0 is a nack.

        Stale ids as in `acknowledge`.
        """
        subscription = self.subscription(name)
        if not 0 <= seconds <= MAX_ACK_DEADLINE_SECONDS:
            raise invalid("ack_deadline_seconds", seconds, f"0 to {MAX_ACK_DEADLINE_SECONDS} seconds")
        backlog = subscription.backlog
        for ack_id in ack_ids:
            if seconds == 0:
                backlog.refuse(ack_id)
            else:
                backlog.extend(ack_id, subscription.lease_seconds(seconds))
        self._tell(name)

    def settle(self) -> None:
        """Let time act on every subscription."""
        for subscription in list(self.subscriptions.values()):
            if subscription.backlog.settle():
                self._tell(subscription.name)

    def next_event_at(self) -> float | None:
        """Return the Unix time when `settle` next has something to do, if nothing else happens."""
        moments = [subscription.backlog.next_event_at() for subscription in self.subscriptions.values()]
        return min((moment for moment in moments if moment is not None), default=None)

    # --- replay -----------------------------------------------------------------------------------

    def create_snapshot(self, name: str, subscription_name: str) -> replay.Snapshot:
        """Take a snapshot.

        Raises NOT_FOUND, ALREADY_EXISTS, INVALID_ARGUMENT or FAILED_PRECONDITION.
        """
        check_name(name, "snapshots")
        subscription = self.subscription(subscription_name)
        if name in self.snapshots:
            raise already_exists(name)
        self.snapshots[name] = replay.take_snapshot(
            name, subscription, now=self.clock(), last_number=self._last_number
        )
        return self.snapshots[name]

    def snapshot(self, name: str) -> replay.Snapshot:
        """Return a snapshot. Raises NOT_FOUND."""
        if name not in self.snapshots:
            raise not_found(name)
        return self.snapshots[name]

    def delete_snapshot(self, name: str) -> None:
        """Delete a snapshot. Raises NOT_FOUND."""
        self.snapshot(name)
        del self.snapshots[name]

    def seek(self, name: str, *, moment: float | None = None, snapshot: str | None = None) -> None:
        """Put a subscription back to a Unix time or to a snapshot.

        Raises NOT_FOUND or INVALID_ARGUMENT.
        """
        subscription = self.subscription(name)
        topic = self.topics.get(subscription.topic)
        now = self.clock()
        if snapshot is not None:
            replay.seek_to_snapshot(subscription, topic, self.snapshot(snapshot), now=now)
        elif moment is not None:
            replay.seek_to_time(subscription, topic, moment, now=now)
        else:
            raise invalid("target", "", "a time or a snapshot")
        self._tell(name)
