"""Topics and subscriptions as the broker keeps them."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field

from standins.google.pubsub.model.backlog import Backlog
from standins.google.pubsub.model.names import identifier_of, parse_filter, project_of
from standins.google.pubsub.model.resources import Draft, Entry, Message
from standins.google.pubsub.model.terms import SubscriptionTerms, TopicTerms


@dataclass
class Topic:
    """Hold a topic's terms and history."""

    name: str
    terms: TopicTerms
    published: list[Message] = field(default_factory=list)

    def retained(self, now: float) -> list[Message]:
        """Return the messages within the topic's own retention, none if it has no retention."""
        if self.terms.retention_seconds is None:
            return []
        oldest = now - self.terms.retention_seconds
        return [message for message in self.published if message.publish_time >= oldest]


DEAD_LETTER_PREFIX = "CloudPubSubDeadLetterSource"

# Publishes a dead letter: (topic, message). Answers False when there is no such topic.
Forward = Callable[[str, Draft], bool]


class Subscription:
    """Keep what one subscription was asked for together with what it still has to deliver."""

    def __init__(
        self, name: str, terms: SubscriptionTerms, *, clock: Callable[[], float], forward: Forward
    ) -> None:
        self.name = name
        self.topic = terms.topic
        self.filtered = 0
        self.terms = terms
        self._matches = parse_filter(terms.filter_text)
        self._forward = forward
        self.backlog = Backlog(terms, clock=clock, forward=self._forward_entry)

    def lease_seconds(self, seconds: float | None = None) -> float:
        """Return the seconds of a lease; the default is the subscription's ack deadline."""
        return self.terms.ack_deadline_seconds if seconds is None else seconds

    def change(self, terms: SubscriptionTerms) -> None:
        """Adopt new terms; they govern what happens from now on."""
        self.terms = terms
        self.backlog.terms = terms

    def offer(self, message: Message) -> bool:
        """Take in a message if the filter matches, else count it as acknowledged by the service."""
        if not self._matches(message.attributes):
            self.filtered += 1
            return False
        self.backlog.add(message)
        return True

    def wanted(self, messages: list[Message]) -> list[Message]:
        """Return those messages that the filter lets through."""
        return [message for message in messages if self._matches(message.attributes)]

    def _forward_entry(self, entry: Entry) -> bool:
        policy = self.terms.dead_letter
        if policy is None:
            return False
        attributes = dict(entry.message.attributes) | {
            f"{DEAD_LETTER_PREFIX}DeliveryCount": str(entry.failures),
            f"{DEAD_LETTER_PREFIX}Subscription": identifier_of(self.name),
            f"{DEAD_LETTER_PREFIX}SubscriptionProject": project_of(self.name),
            f"{DEAD_LETTER_PREFIX}TopicPublishTime": timestamp(entry.message.publish_time),
        }
        return self._forward(policy.topic, Draft(entry.message.data, attributes, entry.message.ordering_key))


def timestamp(seconds: float) -> str:
    """Return a Unix time as RFC 3339 text in UTC, with microseconds where there are any."""
    moment = dt.datetime.fromtimestamp(seconds, tz=dt.UTC)
    return moment.isoformat().replace("+00:00", "Z")
