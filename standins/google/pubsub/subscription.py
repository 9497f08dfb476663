"""One subscription: what was asked for, and its unacknowledged messages with leases and retries."""

import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from standins.google.pubsub.limits import Message, count_seconds, invalid, message_class, parse_filter

SOURCE = "CloudPubSubDeadLetterSource"
PubsubMessage = message_class("PubsubMessage")


@dataclass(slots=True)
class Entry:
    """One message's fate in one subscription."""

    number: int
    message: Message
    added_at: float
    available_at: float
    leased_until: float = 0.0  # 0: it waits
    failures: int = 0  # nacks and ends of leases
    delivery: int = 0  # how often it was handed out; a part of the ack id


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a subscriber is handed: the message, its ack id, and which attempt this is (1, 2, …)."""

    ack_id: str
    message: Message
    attempt: int


class Subscription:
    """Keeps every message until it is acknowledged, a dead letter, or too old.

    `forward` publishes a dead letter to a topic, and says whether the topic is there.
    """

    def __init__(
        self, terms: Message, clock: Callable[[], float], forward: Callable[[str, Message], bool]
    ) -> None:
        self.name, self.terms = terms.name, terms
        self.acked = 0  # how many messages were
        self._clock, self._forward = clock, forward
        self._matches = parse_filter(terms.filter)
        self._tag = secrets.token_hex(4)
        self._last_number, self._settled_at = 0, clock()
        self._entries: dict[int, Entry] = {}

    @property
    def outstanding(self) -> int:
        """Return how many messages are handed out."""
        return sum(entry.leased_until > 0 for entry in self._entries.values())

    @property
    def backlog(self) -> int:
        """Return how many messages are not acknowledged, handed out or not."""
        return len(self._entries)

    def offer(self, message: Message) -> bool:
        """Take in a message if the filter matches; return whether it does."""
        matches = self._matches(message.attributes)
        if matches:
            self._add(message)
        return matches

    def _add(self, message: Message) -> None:
        now = self._clock()
        self._last_number += 1
        self._entries[self._last_number] = Entry(self._last_number, message, added_at=now, available_at=now)

    def seek(self, moment: float, kept: Iterable[Message]) -> None:
        """Take what was published before a moment as acknowledged, what is kept from then on not.

        A moment in the future purges. What is kept are the unacknowledged messages, and those that
        the topic keeps.
        """
        pending = [entry.message for entry in self._entries.values()]
        self._entries.clear()
        by_id = {int(message.message_id): message for message in (*pending, *kept)}
        for _, message in sorted(by_id.items()):
            later = moment <= count_seconds(message.publish_time) and moment <= self._clock()
            if later and self._matches(message.attributes):
                self._add(message)

    def lease(self, limit: int) -> list[Delivery]:
        """Hand out up to `limit` available messages, each for the ack deadline."""
        self.settle()
        now = self._clock()
        waiting = (entry for entry in self._entries.values() if not entry.leased_until)
        available = sorted(
            (entry for entry in waiting if entry.available_at <= now), key=lambda it: it.available_at
        )
        return [self._hand_out(entry, now) for entry in available[:limit]]

    def _hand_out(self, entry: Entry, now: float) -> Delivery:
        entry.leased_until = now + self.terms.ack_deadline_seconds
        entry.delivery += 1
        return Delivery(f"{self._tag}.{entry.number}.{entry.delivery}", entry.message, entry.failures + 1)

    def acknowledge(self, ack_ids: Iterable[str]) -> None:
        """Settle deliveries for good. A late acknowledgement, after the lease has ended, counts."""
        self.settle()
        for entry, delivery in map(self._find, ack_ids):
            if entry is not None and delivery <= entry.delivery:
                self.acked += 1
                del self._entries[entry.number]

    def modify(self, ack_ids: Iterable[str], seconds: float) -> None:
        """Let leases that hold end so many seconds from now; 0 takes deliveries back (a nack)."""
        self.settle()
        for entry, delivery in map(self._find, ack_ids):
            if entry is None or not entry.leased_until or delivery != entry.delivery:
                continue
            if seconds:
                entry.leased_until = self._clock() + seconds
            else:
                self._fail(entry)

    def settle(self) -> bool:
        """Let time act: end leases, drop old messages. Return whether there is something new."""
        now = self._clock()
        before, self._settled_at = self._settled_at, now
        new = self._drop_old(now)
        for entry in list(self._entries.values()):
            if entry.leased_until and entry.leased_until <= now:
                self._fail(entry)
                new = True
            new |= not entry.leased_until and before < entry.available_at <= now
        return new

    def next_events(self) -> Iterator[float]:
        """Yield when leases end and delayed messages are available, if nothing else happens."""
        for entry in self._entries.values():
            if entry.leased_until or entry.available_at > self._settled_at:
                yield entry.leased_until or entry.available_at

    def _find(self, ack_id: str) -> tuple[Entry | None, int]:
        """Return the entry that an ack id names, None when it is settled, and which delivery."""
        tag, number, delivery = (*ack_id.split("."), "", "", "")[:3]
        if tag != self._tag or not (number.isdecimal() and delivery.isdecimal()):
            raise invalid("ack_ids", ack_id, "an ack id that this subscription has handed out")
        return self._entries.get(int(number)), int(delivery)

    def _fail(self, entry: Entry) -> None:
        """Forward a message when its attempts are used up, else let it wait."""
        entry.leased_until = 0.0
        entry.failures += 1
        most = self.terms.dead_letter_policy.max_delivery_attempts
        if most and entry.failures >= most and self._forward(*self._describe_dead_letter(entry)):
            del self._entries[entry.number]
            return
        retry = self.terms.retry_policy
        doubled = count_seconds(retry.minimum_backoff) * 2.0 ** min(entry.failures - 1, 60)
        entry.available_at = self._clock() + min(count_seconds(retry.maximum_backoff), doubled)

    def _describe_dead_letter(self, entry: Entry) -> tuple[str, Message]:
        message = PubsubMessage(data=entry.message.data, ordering_key=entry.message.ordering_key)
        _, project, _, name = self.name.split("/")
        source = {"DeliveryCount": str(entry.failures), "Subscription": name, "SubscriptionProject": project}
        source["TopicPublishTime"] = entry.message.publish_time.ToJsonString()
        own = {f"{SOURCE}{key}": value for key, value in source.items()}
        message.attributes.update({**entry.message.attributes, **own})
        return self.terms.dead_letter_policy.dead_letter_topic, message

    def _drop_old(self, now: float) -> bool:
        """Drop messages past their retention, which a replay starts anew."""
        oldest = now - count_seconds(self.terms.message_retention_duration)
        old = [number for number, entry in self._entries.items() if entry.added_at <= oldest]
        for number in old:
            del self._entries[number]
        return bool(old)
