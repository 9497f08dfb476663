"""Counts chips, operation slots, refusals and deletions of each cluster, and whose turn it is.

Only `provision` creates, and it runs as one instance, so what it has sent since GKE's list is known
here. A second instance, for some minutes, may pass a limit by what it has sent; the tick reports
that, and nothing is deleted for it.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.engine.look import NO_LIMIT, SLOTS_WITHOUT_NUMBER, Room
from shared.model.decisions import Reason
from shared.model.errors import Denied, InvalidRequest, NoCapacity, NoPlace, Throttled, Unavailable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from shared.engine.look import Inventory, Key, Operations
    from shared.plan.scene import Way
    from shared.settings import Settings

SENT_SECONDS = 1200.0
"""How long a create that no list shows counts for a limit."""
HELD_SECONDS = 150.0
"""How long room is held for a gang that no tick looks at again: it is gone, or gave up."""
SHOWN_SECONDS = 15.0
"""How long one that a list shows is kept: longer than a look with an older list may act."""
REST_SECONDS = 60.0
"""How long creates of a cluster rest after a 429 without a number."""
NUMBER_SECONDS = 3600.0  # assumes: operations-at-once
REFUSAL_SECONDS, REFUSAL_SECONDS_MAX = 60.0, 1800.0
DELETIONS_SECONDS = 60.0
_ALLOWED = re.compile(r"concurrent operations quota (\d+)")
REFUSALS = (NoCapacity, InvalidRequest, Denied)
"""What GKE refuses at once, whoever asks for the same kind of machines."""


@dataclass(slots=True, kw_only=True)
class Entry:
    """A create, or a higher maximum, that a list may not show yet."""

    pool: str
    namespace: str
    chips: int = 0
    maximum: int = 0
    """Of an elastic pool that gets more nodes; 0 for a create."""
    way: Way | None = None
    holder: Key | None = None
    """Of what a gang that began still lacks, in place of an operation; None for what was sent."""
    seconds: float = SENT_SECONDS
    """How long it counts if no list shows it."""
    sent_at: float = 0.0
    answered_at: float | None = None
    shown_at: float | None = None
    """When the first list began that shows it after GKE's answer."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What GKE refused at once, and until when it is not asked again."""

    until: float
    pause: float
    words: str


@dataclass(slots=True)
class _Books:
    """What is known of one cluster."""

    entries: list[Entry] = field(default_factory=list)
    operations_max: tuple[int, float] | None = None
    """How many operations GKE runs at one time, and when it said so."""
    rests_until: float = 0.0
    left_to_deletions: int = 0
    """Slots that slow creates gave back since the last tick."""
    deletions: dict[str, float] = field(default_factory=dict)
    """When a pool was deleted without a word of its owner, in unix seconds."""
    refusals: dict[Way, Refusal] = field(default_factory=dict)
    begun: bool = False
    """Creates that ran before this process have been counted."""


@dataclass(slots=True)
class Budget:
    """The books of each cluster; threads share them."""

    settings: Settings
    _books: dict[str, _Books] = field(default_factory=lambda: defaultdict(_Books))
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def count_room(self, key: Key, inventory: Inventory, now: float) -> Room:
        """Return what limits and slots leave beside all pools that are listed, sent and held."""
        with self._lock:
            books = self._books[key.cluster]
            books.entries = [each for each in books.entries if now - each.sent_at <= each.seconds]
            limits = self.settings.limit_chips, self.settings.limit_chips_per_namespace
            counts = books.operations_max or any(limits)
            others = [each for each in books.entries if counts and each.holder != key]
            unseen = [each for each in others if _is_unseen(each, inventory)]
            chips = self._count_chips(key.namespace, inventory, unseen)
            return Room(chips, _count_slots(books, inventory, unseen, now))

    def _count_chips(self, namespace: str, inventory: Inventory, unseen: list[Entry]) -> int:
        settings, rooms = self.settings, [NO_LIMIT]
        if settings.limit_chips:
            chips = sum(inventory.chips.values()) + sum(each.chips for each in unseen)
            rooms.append(settings.limit_chips - chips)
        if settings.limit_chips_per_namespace:
            chips = inventory.chips.get(namespace, 0)
            chips += sum(each.chips for each in unseen if each.namespace == namespace)
            rooms.append(settings.limit_chips_per_namespace - chips)
        return min(rooms)

    def leave_to_deletions(self, cluster: str) -> None:
        """Leave the slot of a slow create to deletions until the next tick."""
        with self._lock:
            self._books[cluster].left_to_deletions += 1

    def begin_tick(self, cluster: str) -> None:
        """Let creates have the slots again that were left to deletions."""
        with self._lock:
            self._books[cluster].left_to_deletions = 0

    def needs_operations(self, cluster: str) -> bool:
        """Return whether creates that ran before this process must be counted first."""
        with self._lock:
            return self.settings.limited and not self._books[cluster].begun

    def count_running(self, cluster: str, operations: Operations, inventory: Inventory) -> bool:
        """Return whether the list shows each pool of ours that GKE creates.

        How many chips an unlisted one has is not known, so nothing is created until it is listed.
        """
        running = (each for tries in operations.values() for _, each in tries if not each.ended)
        hidden = any(each.creates and each.pool not in inventory.pools for each in running)
        with self._lock:
            self._books[cluster].begun = not hidden
        return not hidden

    def list_refused(self, cluster: str, now: float) -> frozenset[Way]:
        """Return the ways that GKE refused at once a moment ago."""
        with self._lock:
            refusals = self._books[cluster].refusals
            return frozenset(way for way, each in refusals.items() if now < each.until)

    def quote_refusal(self, cluster: str, ways: Iterable[Way]) -> str:
        """Return GKE's words about the first of some ways that it refused; else empty."""
        with self._lock:
            refusals = self._books[cluster].refusals
            return next((refusals[way].words for way in ways if way in refusals), "")

    def take(
        self, key: Key, orders: Sequence[Entry], inventory: Inventory, now: float
    ) -> Reason | None:
        """Write down what is about to be sent, or return why there is no room for all of it."""
        with self._lock:
            room = self.count_room(key, inventory, now)
            if len(orders) > room.slots:
                return Reason.NO_OPERATION_SLOT
            if sum(each.chips for each in orders) > room.chips:
                return Reason.LIMIT_REACHED
            for entry in orders:
                entry.sent_at = now
            self._books[key.cluster].entries += orders
            return None

    def hold(self, key: Key, chips: int, now: float) -> None:
        """Keep room for what a gang that began still lacks, in place of what it held before."""
        with self._lock:
            books = self._books[key.cluster]
            books.entries = [
                each for each in books.entries if not each.holder or each.holder != key
            ]
            if chips > 0:
                entry = Entry(pool="", namespace=key.namespace, chips=chips, sent_at=now)
                entry.holder, entry.seconds = key, HELD_SECONDS
                books.entries.append(entry)

    def expect_slot(self, cluster: str, now: float) -> None:
        """Return if GKE has not said since the room was counted that it takes no operation.

        Raises:
            NoPlace: it has.
        """
        if now < self._books[cluster].rests_until:
            raise NoPlace("GKE runs as many operations as it allows; the create waits for one")

    def settle(self, cluster: str, entry: Entry, error: Exception | None, now: float) -> None:
        """Note what came of something that was written down.

        It counts until a list that began after GKE's answer shows it, unless GKE refused it, or it
        was not sent. After a refusal all operations rest for a time, or one kind of machines.
        """
        with self._lock:
            books = self._books[cluster]
            if error is None or isinstance(error, Unavailable):  # GKE may do it all the same
                entry.answered_at = now
            else:
                books.entries = [each for each in books.entries if each is not entry]
            if error is None and entry.way is not None:
                books.refusals.pop(entry.way, None)
            elif isinstance(error, Throttled) and not isinstance(error, NoPlace):
                number = _ALLOWED.search(str(error))
                if number:
                    books.operations_max = int(number[1]), now
                else:
                    books.rests_until = now + REST_SECONDS
            elif entry.way is not None and isinstance(error, REFUSALS):
                before = books.refusals.get(entry.way)
                pause = min(2 * before.pause, REFUSAL_SECONDS_MAX) if before else REFUSAL_SECONDS
                books.refusals[entry.way] = Refusal(now + pause, pause, str(error))

    def take_deletion(self, cluster: str, pool: str, now: float) -> bool:
        """Return whether one more pool may go in this minute without a word of its owner."""
        with self._lock:
            deletions = self._books[cluster].deletions
            for name in [name for name, at in deletions.items() if now - at >= DELETIONS_SECONDS]:
                del deletions[name]
            if pool not in deletions and len(deletions) >= self.settings.deletions_per_minute_max:
                return False
            deletions[pool] = now
            return True

    def give_back_deletion(self, cluster: str, pool: str) -> None:
        """Count a deletion no more that GKE did not accept."""
        with self._lock:
            self._books[cluster].deletions.pop(pool, None)

    def forget_listed(self, cluster: str, inventory: Inventory) -> None:
        """Let a list that began after a create was answered count in its place.

        A look with an older list still counts the create, so it is forgotten a while later.
        """
        with self._lock:
            books, now = self._books[cluster], inventory.began_at
            for each in books.entries:
                if each.shown_at is None and _is_shown(each, inventory):
                    each.shown_at = now
            books.entries = [
                each
                for each in books.entries
                if each.shown_at is None or now - each.shown_at <= SHOWN_SECONDS
            ]


def _count_slots(books: _Books, inventory: Inventory, unseen: Sequence[Entry], now: float) -> int:
    """Return how many operations GKE takes now; while it has named no number, some at one time."""
    if now < books.rests_until:
        return 0
    if books.operations_max is None or now - books.operations_max[1] > NUMBER_SECONDS:
        return SLOTS_WITHOUT_NUMBER
    running = len(inventory.under_way) + sum(each.holder is None for each in unseen)
    return max(0, books.operations_max[0] - running - books.left_to_deletions)


def _is_shown(entry: Entry, inventory: Inventory) -> bool:
    """Return whether a list that began after GKE's answer has what was sent."""
    late = entry.answered_at is None or inventory.began_at < entry.answered_at
    return not late and not _is_unseen(entry, inventory)


def _is_unseen(entry: Entry, inventory: Inventory) -> bool:
    """Return whether a list is too old to show what was sent."""
    if entry.shown_at is not None and inventory.began_at >= entry.shown_at:
        return False  # it is listed, or is gone
    pool = inventory.pools.get(entry.pool)
    return pool is None or pool.node_count < entry.maximum


@dataclass(frozen=True, slots=True)
class _Waiting:
    since: float
    """Unix seconds."""
    begun: bool
    """It is a gang that has a part of its pools."""


@dataclass(slots=True)
class Turns:
    """The workloads that wait for the end of an operation."""

    _waiting: dict[Key, _Waiting] = field(default_factory=dict)
    _served: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By cluster and namespace, how often it was its turn."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self, key: Key, since: float, *, begun: bool) -> None:
        """Let a workload have a turn; its place is that of its longest wait."""
        with self._lock:
            self._waiting[key] = _Waiting(since, begun)

    def leave(self, key: Key) -> None:
        """Forget a workload that waits no more."""
        with self._lock:
            self._waiting.pop(key, None)

    def take_next(self, cluster: str, but: Collection[Key | None] = ()) -> Key | None:
        """Return whose turn it is: a gang that began, then namespaces in turn, the longest wait."""
        with self._lock:
            keys = [key for key in self._waiting if key.cluster == cluster and key not in but]
            if not keys:
                return None
            key = min(keys, key=self._rank)
            del self._waiting[key]
            self._served[cluster, key.namespace] += 1
            return key

    def _rank(self, key: Key) -> tuple[bool, int, float]:
        waiting = self._waiting[key]
        return not waiting.begun, self._served[key.cluster, key.namespace], waiting.since
