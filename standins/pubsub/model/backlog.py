"""One subscription's undelivered and unacknowledged messages: leases, retries, order, retention.

It knows nothing of names, filters or topics: the subscription puts in what matched, and is asked
through `forward` whether a message that has failed too often has found another home.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from typing import TYPE_CHECKING

from standins.pubsub.model.entries import Delivery, Entry, KeyLine, State
from standins.pubsub.model.errors import invalid
from standins.pubsub.model.rules import Counters, Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from standins.pubsub.model.published import Message

REORDER_WINDOW = 10


class Backlog:
    """Keep every message of a subscription until it is acknowledged, forwarded or too old.

    `forward(entry)` is asked once a message has used up its attempts and answers whether it took
    it.
    """

    def __init__(
        self,
        rules: Rules,
        *,
        clock: Callable[[], float],
        forward: Callable[[Entry], bool],
        rng: random.Random | None = None,
    ) -> None:
        self.rules = rules
        self.counters = Counters()
        self.outstanding = 0
        self._clock = clock
        self._forward = forward
        self._rng = rng or random.Random(1)
        self._tag = f"{self._rng.randrange(1 << 32):08x}"
        self._next_number = 1
        self._clear()

    def _clear(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._lines: dict[str, KeyLine] = {}
        self._ready: list[tuple[float, int]] = []
        self._delayed: list[tuple[float, int]] = []
        self._leases: list[tuple[float, int, int]] = []
        self._retained: deque[Message] = deque()
        self._acked_in_line = 0
        self.outstanding = 0

    # --- asking -----------------------------------------------------------------------------------

    @property
    def unacknowledged(self) -> int:
        """Return how many messages are waiting or handed out."""
        return len(self._entries) - self._acked_in_line

    def pending(self) -> list[Message]:
        """Return the unacknowledged messages, oldest first, each once."""
        alive = (entry.message for entry in self._entries.values() if entry.state is not State.ACKED)
        return _unique(alive)

    def retained(self) -> list[Message]:
        """Return the acknowledged messages that are still kept, oldest first."""
        oldest = self._clock() - self.rules.retention_seconds
        while self._retained and self._retained[0].publish_time < oldest:
            self._retained.popleft()
        in_line = (entry.message for entry in self._entries.values() if entry.state is State.ACKED)
        return _unique([*self._retained, *(in_line if self.rules.retain_acked else ())])

    def holds_lease(self, ack_id: str) -> bool:
        """Return whether the delivery that an ack id names is still outstanding."""
        found = self._find(ack_id)
        return found is not None and found[0].state is State.LEASED and found[0].delivery == found[1]

    def next_event_at(self) -> float | None:
        """Return when a lease ends or a delayed message is available, if nothing else happens."""
        while self._leases and self._leased(self._leases[0]) is None:
            heapq.heappop(self._leases)
        while self._delayed and not self._is_current(self._delayed[0]):
            heapq.heappop(self._delayed)
        heads = [heap[0][0] for heap in (self._delayed, self._leases) if heap]
        return min(heads) if heads else None

    # --- putting in and handing out ---------------------------------------------------------------

    def add(self, message: Message, *, delay_seconds: float = 0.0) -> None:
        """Take in a message, available after a delay."""
        now = self._clock()
        entry = Entry(self._next_number, message, added_at=now, available_at=now + delay_seconds)
        self._next_number += 1
        self._entries[entry.number] = entry
        line = self._line_of(entry)
        if line is not None:
            line.entries.append(entry)
        self._offer(entry)

    def lease(
        self,
        *,
        limit: int,
        deadline_seconds: float,
        one_per_key: bool = False,
        max_bytes: int | None = None,
        reorder: float = 0.0,
    ) -> list[Delivery]:
        """Hand out up to `limit` available messages, each for `deadline_seconds` real seconds.

        Of an ordering key, one batch at a time is outstanding, or one message with `one_per_key`.
        `max_bytes` stops before it is exceeded, but never before the first message. `reorder` is
        the chance of picking another waiting message than the oldest.
        """
        self.settle()
        until = self._clock() + deadline_seconds
        batch: list[Delivery] = []
        room = max_bytes
        while len(batch) < limit:
            entry = self._take_ready(reorder)
            if entry is None:
                break
            run = self._run_from(entry, 1 if one_per_key else limit - len(batch))
            sizes = [len(member.message.data) for member in run]
            if room is not None and batch and sizes[0] > room:
                self._offer(entry)
                break
            batch += [self._hand_out(member, until) for member in run]
            room = None if room is None else room - sum(sizes)
        return batch

    def replace(self, pending: Iterable[Message], retained: Iterable[Message]) -> None:
        """Forget all leases; start over with messages to deliver and ones kept as acknowledged."""
        self._clear()
        if self.rules.retain_acked:
            self._retained.extend(retained)
        for message in pending:
            self.add(message)

    # --- what becomes of a delivery ---------------------------------------------------------------

    def acknowledge(self, ack_id: str) -> bool:
        """Settle a delivery for good.

        Return False for an ack id that no longer stands for anything.

        A late acknowledgement, after the lease has ended, still counts, except where order or
        exactly-once delivery was asked for: there the message has another delivery by then.
        """
        self.settle()
        found = self._find(ack_id)
        if found is None:
            return False
        entry, delivery = found
        strict = self.rules.exactly_once or self._line_of(entry) is not None
        if entry.state is State.ACKED or (strict and not self.holds_lease(ack_id)):
            return False
        if delivery > entry.delivery:
            return False
        self.counters.acked += 1
        self._release(entry)
        self._settle_acked(entry)
        return True

    def extend(self, ack_id: str, seconds: float) -> bool:
        """Let a delivery's lease end `seconds` real seconds from now.

        Return False when it is not outstanding.
        """
        self.settle()
        found = self._find(ack_id)
        if found is None or not self.holds_lease(ack_id):
            return False
        entry = found[0]
        entry.deadline = self._clock() + seconds
        heapq.heappush(self._leases, (entry.deadline, entry.number, entry.delivery))
        return True

    def refuse(self, ack_id: str) -> bool:
        """Take a delivery back as failed (a nack); return False when it is not outstanding."""
        self.settle()
        found = self._find(ack_id)
        if found is None or not self.holds_lease(ack_id):
            return False
        self.counters.nacked += 1
        self._fail(found[0])
        return True

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

    def _find(self, ack_id: str) -> tuple[Entry, int] | None:
        tag, number, delivery = (*ack_id.split("."), "", "", "")[:3]
        if tag != self._tag or not (number.isdecimal() and delivery.isdecimal()):
            raise invalid("ack_ids", ack_id, "an ack id that this subscription has handed out")
        entry = self._entries.get(int(number))
        return None if entry is None else (entry, int(delivery))

    def _leased(self, token: tuple[float, int, int]) -> Entry | None:
        """Return the entry whose present lease a token of the lease heap stands for."""
        deadline, number, delivery = token
        entry = self._entries.get(number)
        if entry and (entry.state, entry.deadline, entry.delivery) == (State.LEASED, deadline, delivery):
            return entry
        return None

    def _line_of(self, entry: Entry) -> KeyLine | None:
        key = entry.message.ordering_key
        if not self.rules.ordered or not key:
            return None
        return self._lines.setdefault(key, KeyLine())

    def _offer(self, entry: Entry) -> None:
        """Queue an entry, or of a keyed one the entry whose turn it is."""
        line = self._line_of(entry)
        turn = entry if line is None else line.first_waiting()
        if turn is None:
            return
        heap = self._ready if turn.available_at <= self._clock() else self._delayed
        heapq.heappush(heap, (turn.available_at, turn.number))

    def _is_current(self, token: tuple[float, int]) -> bool:
        entry = self._entries.get(token[1])
        if entry is None or entry.state is not State.WAITING or entry.available_at != token[0]:
            return False
        line = self._line_of(entry)
        return line is None or line.first_waiting() is entry

    def _take_ready(self, reorder: float) -> Entry | None:
        wanted = REORDER_WINDOW if reorder and self._rng.random() < reorder else 1
        tokens: list[tuple[float, int]] = []
        while self._ready and len(tokens) < wanted:
            token = heapq.heappop(self._ready)
            if self._is_current(token) and token not in tokens:
                tokens.append(token)
        if not tokens:
            return None
        chosen = tokens.pop(self._rng.randrange(len(tokens)))
        for token in tokens:
            heapq.heappush(self._ready, token)
        return self._entries[chosen[1]]

    def _run_from(self, entry: Entry, limit: int) -> list[Entry]:
        """Return the entry, and of a keyed one the available entries that follow it, in order."""
        line = self._line_of(entry)
        if line is None:
            return [entry]
        run: list[Entry] = []
        for member in line.entries:
            if member.state is State.ACKED:
                continue
            if len(run) == limit or member.available_at > self._clock():
                break
            run.append(member)
        return run

    def _hand_out(self, entry: Entry, until: float) -> Delivery:
        entry.state = State.LEASED
        entry.delivery += 1
        entry.deadline = until
        self.outstanding += 1
        self.counters.delivered += 1
        line = self._line_of(entry)
        if line is not None:
            line.outstanding += 1
        heapq.heappush(self._leases, (until, entry.number, entry.delivery))
        return Delivery(f"{self._tag}.{entry.number}.{entry.delivery}", entry.message, entry.failures + 1)

    def _release(self, entry: Entry) -> None:
        if entry.state is not State.LEASED:
            return
        entry.state = State.WAITING
        self.outstanding -= 1
        line = self._line_of(entry)
        if line is not None:
            line.outstanding -= 1

    def _settle_acked(self, entry: Entry) -> None:
        line = self._line_of(entry)
        if line is None:
            self._keep_acked(entry)
            return
        entry.state = State.ACKED
        self._acked_in_line += 1
        self._advance(entry.message.ordering_key, line)

    def _advance(self, key: str, line: KeyLine) -> None:
        """Let go of the acknowledged head of a line and offer whose turn it is then."""
        while line.entries and line.entries[0].state is State.ACKED:
            self._acked_in_line -= 1
            self._keep_acked(line.entries.popleft())
        if line.entries:
            self._offer(line.entries[0])
        else:
            del self._lines[key]

    def _keep_acked(self, entry: Entry) -> None:
        del self._entries[entry.number]
        if self.rules.retain_acked:
            self._retained.append(entry.message)

    def _fail(self, entry: Entry) -> None:
        """Count a nack or an expiry.

        Forward the message when its attempts are used up, else let it wait.
        """
        self._release(entry)
        entry.failures += 1
        spent = self.rules.max_attempts is not None and entry.failures >= self.rules.max_attempts
        if spent and self._forward(entry):
            self.counters.dead_lettered += 1
            self._remove(entry)
            return
        entry.available_at = self._clock() + self.rules.backoff_seconds(entry.failures)
        line = self._line_of(entry)
        if line is not None:
            self._rewind(line, entry)
        self._offer(entry)

    def _rewind(self, line: KeyLine, entry: Entry) -> None:
        """Make every later entry of the key wait again, even an acknowledged one.

        Source: https://cloud.google.com/pubsub/docs/ordering
        """
        for later in line.followers(entry):
            if later.state is State.ACKED:
                self._acked_in_line -= 1
            self._release(later)
            later.state = State.WAITING

    def _remove(self, entry: Entry) -> None:
        self._release(entry)
        del self._entries[entry.number]
        key = entry.message.ordering_key
        line = self._line_of(entry)
        if line is not None:
            line.entries.remove(entry)
            self._advance(key, line)

    def _drop_old(self, now: float) -> bool:
        """Drop messages past their retention, which a replay starts anew.

        Entries stand in order of arrival.
        """
        dropped = False
        while self._entries:
            entry = next(iter(self._entries.values()))
            if entry.added_at + self.rules.retention_seconds > now:
                break
            self.counters.dropped += entry.state is not State.ACKED
            self._acked_in_line -= entry.state is State.ACKED
            self._remove(entry)
            dropped = True
        return dropped


def _unique(messages: Iterable[Message]) -> list[Message]:
    by_number = {message.number: message for message in messages}
    return [by_number[number] for number in sorted(by_number)]
