"""One subscription's undelivered and unacknowledged messages: leases, retries, retention.

It knows nothing of names, filters or topics: the subscription puts in what matched, and is asked
through `forward` whether a message that has failed too often has found another home.
"""

import heapq
import secrets
from collections import deque
from collections.abc import Callable, Iterable

from standins.google.pubsub.model.names import invalid
from standins.google.pubsub.model.resources import Counters, Delivery, Entry, Message, State
from standins.google.pubsub.model.terms import SubscriptionTerms


class Backlog:
    """Keep every message of a subscription until it is acknowledged, forwarded or too old.

    `forward(entry)` is asked once a message has used up its attempts and answers whether it took
    it.
    """

    def __init__(
        self, terms: SubscriptionTerms, *, clock: Callable[[], float], forward: Callable[[Entry], bool]
    ) -> None:
        self.terms = terms
        self.counters = Counters()
        self.outstanding = 0
        self._clock = clock
        self._forward = forward
        self._tag = secrets.token_hex(4)
        self._next_number = 1
        self._clear()

    def _clear(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._ready: list[tuple[float, int]] = []
        self._delayed: list[tuple[float, int]] = []
        self._leases: list[tuple[float, int, int]] = []
        self._retained: deque[Message] = deque()
        self.outstanding = 0

    # --- asking -----------------------------------------------------------------------------------

    @property
    def unacknowledged(self) -> int:
        """Return how many messages are waiting or handed out."""
        return len(self._entries)

    def pending(self) -> list[Message]:
        """Return the unacknowledged messages, oldest first."""
        return [entry.message for entry in self._entries.values()]

    def retained(self) -> list[Message]:
        """Return the acknowledged messages that are still kept."""
        oldest = self._clock() - self.terms.retention_seconds
        while self._retained and self._retained[0].publish_time < oldest:
            self._retained.popleft()
        return list(self._retained)

    def next_event_at(self) -> float | None:
        """Return when a lease ends or a delayed message is available, if nothing else happens."""
        while self._leases and self._leased(self._leases[0]) is None:
            heapq.heappop(self._leases)
        while self._delayed and not self._is_current(self._delayed[0]):
            heapq.heappop(self._delayed)
        heads = [heap[0][0] for heap in (self._delayed, self._leases) if heap]
        return min(heads) if heads else None

    # --- putting in and handing out ---------------------------------------------------------------

    def add(self, message: Message) -> None:
        """Take in a message."""
        now = self._clock()
        entry = Entry(self._next_number, message, added_at=now, available_at=now)
        self._next_number += 1
        self._entries[entry.number] = entry
        self._offer(entry)

    def lease(self, *, limit: int, deadline_seconds: float) -> list[Delivery]:
        """Hand out up to `limit` available messages, each for `deadline_seconds`."""
        self.settle()
        until = self._clock() + deadline_seconds
        batch: list[Delivery] = []
        while self._ready and len(batch) < limit:
            token = heapq.heappop(self._ready)
            if self._is_current(token):
                batch.append(self._hand_out(self._entries[token[1]], until))
        return batch

    def replace(self, pending: Iterable[Message], retained: Iterable[Message]) -> None:
        """Forget all leases; start over with messages to deliver and ones kept as acknowledged."""
        self._clear()
        if self.terms.retain_acked:
            self._retained.extend(retained)
        for message in pending:
            self.add(message)

    # --- what becomes of a delivery ---------------------------------------------------------------

    def acknowledge(self, ack_id: str) -> None:
        """Settle a delivery for good. A late acknowledgement, after the lease has ended, counts."""
        self.settle()
        entry, delivery = self._find(ack_id)
        if entry is None or delivery > entry.delivery:
            return
        self.counters.acked += 1
        self._remove(entry)
        if self.terms.retain_acked:
            self._retained.append(entry.message)

    def extend(self, ack_id: str, seconds: float) -> None:
        """Let a delivery's lease end `seconds` from now, if it is outstanding."""
        entry = self._outstanding(ack_id)
        if entry is not None:
            entry.deadline = self._clock() + seconds
            heapq.heappush(self._leases, (entry.deadline, entry.number, entry.delivery))

    def refuse(self, ack_id: str) -> None:
        """Take a delivery back as failed (a nack), if it is outstanding."""
        entry = self._outstanding(ack_id)
        if entry is not None:
            self.counters.nacked += 1
            self._fail(entry)

    def settle(self) -> bool:
        """Let time act: end leases, release delayed messages, drop old messages.

        Return whether it changed any.
        """
        now = self._clock()
        changed = self._drop_old(now)
        while self._leases and self._leases[0][0] <= now:
            entry = self._leased(heapq.heappop(self._leases))
            if entry is not None:
                self.counters.expired += 1
                self._fail(entry)
                changed = True
        while self._delayed and self._delayed[0][0] <= now:
            heapq.heappush(self._ready, heapq.heappop(self._delayed))
            changed = True
        return changed

    # --- inside -----------------------------------------------------------------------------------

    def _find(self, ack_id: str) -> tuple[Entry | None, int]:
        """Return the entry that an ack id names, None when it is settled, and which delivery."""
        tag, number, delivery = (*ack_id.split("."), "", "", "")[:3]
        if tag != self._tag or not (number.isdecimal() and delivery.isdecimal()):
            raise invalid("ack_ids", ack_id, "an ack id that this subscription has handed out")
        return self._entries.get(int(number)), int(delivery)

    def _outstanding(self, ack_id: str) -> Entry | None:
        """Return the entry that an ack id names, if that delivery of it still has its lease."""
        self.settle()
        entry, delivery = self._find(ack_id)
        return entry if entry and (entry.state, entry.delivery) == (State.LEASED, delivery) else None

    def _leased(self, token: tuple[float, int, int]) -> Entry | None:
        """Return the entry whose present lease a token of the lease heap stands for."""
        deadline, number, delivery = token
        entry = self._entries.get(number)
        if entry and (entry.state, entry.deadline, entry.delivery) == (State.LEASED, deadline, delivery):
            return entry
        return None

    def _offer(self, entry: Entry) -> None:
        heap = self._ready if entry.available_at <= self._clock() else self._delayed
        heapq.heappush(heap, (entry.available_at, entry.number))

    def _is_current(self, token: tuple[float, int]) -> bool:
        entry = self._entries.get(token[1])
        return entry is not None and (entry.state, entry.available_at) == (State.WAITING, token[0])

    def _hand_out(self, entry: Entry, until: float) -> Delivery:
        entry.state = State.LEASED
        entry.delivery += 1
        entry.deadline = until
        self.outstanding += 1
        self.counters.delivered += 1
        heapq.heappush(self._leases, (until, entry.number, entry.delivery))
        return Delivery(f"{self._tag}.{entry.number}.{entry.delivery}", entry.message, entry.failures + 1)

    def _release(self, entry: Entry) -> None:
        if entry.state is State.LEASED:
            entry.state = State.WAITING
            self.outstanding -= 1

    def _fail(self, entry: Entry) -> None:
        """Count a nack or an expiry.

        Forward the message when its attempts are used up, else let it wait.
        """
        self._release(entry)
        entry.failures += 1
        policy, retry = self.terms.dead_letter, self.terms.retry
        spent = policy is not None and entry.failures >= policy.max_delivery_attempts
        if spent and self._forward(entry):
            self.counters.dead_lettered += 1
            self._remove(entry)
            return
        wait = retry.backoff_seconds(entry.failures) if retry is not None else 0.0
        entry.available_at = self._clock() + wait
        self._offer(entry)

    def _remove(self, entry: Entry) -> None:
        self._release(entry)
        del self._entries[entry.number]

    def _drop_old(self, now: float) -> bool:
        """Drop messages past their retention, which a replay starts anew.

        Entries stand in order of arrival.
        """
        dropped = False
        while self._entries:
            entry = next(iter(self._entries.values()))
            if entry.added_at + self.terms.retention_seconds > now:
                break
            self.counters.dropped += 1
            self._remove(entry)
            dropped = True
        return dropped
