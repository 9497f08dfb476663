"""What a cluster has, and what is left: chips, operation slots, refusals, deletions, turns.

Only `provision` creates, and it runs as one instance, so what it has sent since GKE's list is known
here. A second instance, for some minutes, may pass a limit by what it has sent; the tick reports
that, and nothing is deleted for it.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct, field, structs

from shared.model.decisions import Reason
from shared.model.errors import Denied, InvalidRequest, NoCapacity, NoPlace, Throttled, Unavailable
from shared.model.names import ParsedName
from shared.model.pools import NodePool, Operation, PoolNode
from shared.plan.limits import Means, count_nodes
from shared.plan.scene import Way
from shared.settings import Settings

Tries = Sequence[tuple[ParsedName, Operation]]
"""Operations on pools with a name of ours, with that name."""
Operations = Mapping[str, Tries]  # by the hash in the name

WorkloadName = tuple[str, str, str]  # kind, namespace and name
NO_LIMIT = 10**9
SLOTS_WITHOUT_NUMBER = 20
SENT_SECONDS = 1200.0  # how long a create that no list shows counts for a limit
HELD_SECONDS = 150.0  # how long room is held for a gang that no tick looks at again
SHOWN_SECONDS = 15.0  # a look with an older list may act as long as that after a list shows one
REST_SECONDS = 60.0  # how long creates of a cluster rest after a 429 without a number
NUMBER_SECONDS = 3600.0  # assumes: operations-at-once
REFUSAL_SECONDS, REFUSAL_SECONDS_MAX = 60.0, 1800.0
DELETIONS_SECONDS = 60.0
_ALLOWED = re.compile(r"concurrent operations quota (\d+)")
REFUSALS = (NoCapacity, InvalidRequest, Denied)
"""What GKE refuses at once, whoever asks for the same kind of machines."""


class Key(Struct, frozen=True):
    """One workload of one cluster, by its name."""

    cluster: str
    kind: str
    namespace: str
    name: str
    uid: str = ""  # empty for the one that has the name now; else that one only, and it may be gone

    @property
    def workload(self) -> WorkloadName:
        """Return kind, namespace and name."""
        return self.kind, self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Inventory(Struct, frozen=True, kw_only=True):
    """The node pools of one cluster at one moment."""

    began_at: float = 0.0  # when the list began, in unix seconds
    pools: Mapping[str, NodePool] = {}  # all, by name
    by_owner: Mapping[WorkloadName, Sequence[NodePool]] = {}  # ours
    nodes_before: Mapping[str, int] = {}
    """By pool, how many nodes it had when they were last read, if this list has none of them."""
    chips: Mapping[str, int] = {}
    """By the namespace of the owner; a limit counts them. Where nodes were not read, a pool without
    machines counts as a whole."""
    strangers: Mapping[str, Sequence[int]] = {}  # attempts in names of ours, of pools of others
    under_way: frozenset[str] = frozenset()  # names of pools on which GKE works
    autoscaled: int = 0


def count_used(
    inventory: Inventory, pools: Iterable[NodePool], nodes: Mapping[str, Sequence[PoolNode]]
) -> Inventory:
    """Return a list of pools of which some are counted by their nodes, which were read since."""
    chips = Counter(inventory.chips)
    for pool in pools:
        if pool.owner:
            before = inventory.nodes_before.get(pool.name, 0)
            chips[pool.owner.namespace] += count_chips(pool, len(nodes.get(pool.name, ())))
            chips[pool.owner.namespace] -= count_chips(pool, max(pool.node_count, before))
    return structs.replace(inventory, chips=chips)


def count_chips(pool: NodePool, nodes: int) -> int:
    """Return what a limit counts of a pool with so many nodes, Ready or not."""
    return count_nodes(pool.status, pool.node_count, nodes) * max(pool.units, 1)


class Entry(Struct, kw_only=True):
    """A create, or a higher maximum, that a list may not show yet."""

    pool: str
    namespace: str
    chips: int = 0
    maximum: int = 0  # of an elastic pool that gets more nodes; 0 for a create
    way: Way | None = None
    holder: Key | None = None
    """Of what a gang that began still lacks, in place of an operation; None for what was sent."""
    seconds: float = SENT_SECONDS  # how long it counts if no list shows it
    sent_at: float = 0.0
    answered_at: float | None = None
    shown_at: float | None = None  # when the first list began that shows it after GKE's answer

    def is_unseen(self, inventory: Inventory) -> bool:
        """Return whether a list is too old to show what was sent."""
        if self.shown_at is not None and inventory.began_at >= self.shown_at:
            return False  # it is listed, or is gone
        pool = inventory.pools.get(self.pool)
        return pool is None or pool.node_count < self.maximum


class Refusal(Struct, frozen=True):
    """What GKE refused at once, and until when it is not asked again."""

    until: float
    pause: float
    words: str


class Books(Struct):
    """What is counted in one cluster; threads share it."""

    settings: Settings
    begun: bool  # creates that ran before this process have been counted; without a limit none is
    _entries: list[Entry] = []
    _operations_max: tuple[int, float] | None = None
    """How many operations GKE runs at one time, and when it said so."""
    rests_until: float = 0.0  # until then GKE takes no operation: it has said so
    _left_to_deletions: int = 0  # slots that slow creates gave back since the last tick
    _deletions: dict[str, float] = {}
    """When a pool was deleted without a word of its owner, in unix seconds."""
    _refusals: dict[Way, Refusal] = {}
    _waiting: dict[Key, tuple[bool, float]] = {}
    """What waits for the end of an operation: whether it is a gang without a part of its pools, and
    since when."""
    _served: Counter[str] = field(default_factory=Counter)
    """By namespace, how often it was its turn."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def forget_listed(self, inventory: Inventory) -> None:
        """Let a list that began after a create was answered count in its place.

        A look with an older list still counts the create, so it is forgotten a while later.
        """
        with self._lock:
            now = inventory.began_at
            for each in self._entries:
                answered = each.answered_at is not None and each.answered_at <= now
                if answered and each.shown_at is None and not each.is_unseen(inventory):
                    each.shown_at = now
            self._entries = [
                each
                for each in self._entries
                if now - each.sent_at <= each.seconds
                and now - (each.shown_at or now) <= SHOWN_SECONDS
            ]

    def count_room(
        self, key: Key, inventory: Inventory, now: float, operations: Operations | None = None
    ) -> Means:
        """Return what limits and slots leave beside all pools that are listed, sent and held.

        How many chips a pool of ours has that GKE creates and does not list yet is not known, so at
        first nothing is created until each is listed.
        """
        with self._lock:
            limits = self.settings.limit_chips, self.settings.limit_chips_per_namespace
            counts = any(limits) or self._operations_max  # else thousands were gone through in vain
            others = [each for each in self._entries if counts and each.holder != key]
            unseen = [each for each in others if each.is_unseen(inventory)]
            chips = self._count_chips(key.namespace, inventory, unseen)
            if operations is not None and not self.begun:
                self.begun = _shows_all(inventory, operations)
                chips = chips if self.begun else 0
            return Means(chips, self._count_slots(inventory, unseen, now))

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

    def _count_slots(self, inventory: Inventory, unseen: list[Entry], now: float) -> int:
        """Return how many operations GKE takes now; while it has named no number, some at once."""
        if now < self.rests_until:
            return 0
        if self._operations_max is None or now - self._operations_max[1] > NUMBER_SECONDS:
            return SLOTS_WITHOUT_NUMBER
        running = len(inventory.under_way) + sum(each.holder is None for each in unseen)
        return max(0, self._operations_max[0] - running - self._left_to_deletions)

    def take(
        self, key: Key, orders: Sequence[Entry], inventory: Inventory, now: float
    ) -> Reason | None:
        """Write down what is about to be sent, or return why there is no room for all of it."""
        with self._lock:
            room = self.count_room(key, inventory, now)
            if len(orders) > room.slots:
                return Reason.NO_OPERATION_SLOT
            if orders and sum(each.chips for each in orders) > room.chips:
                return Reason.LIMIT_REACHED
            for entry in orders:
                entry.sent_at = now
            self._entries += orders
            return None

    def hold(self, key: Key, chips: int, now: float) -> None:
        """Keep room for what a gang that began still lacks, in place of what it held before."""
        with self._lock:
            self._entries = [each for each in self._entries if each.holder != key]
            if chips > 0:
                entry = Entry(pool="", namespace=key.namespace, chips=chips, sent_at=now)
                entry.holder, entry.seconds = key, HELD_SECONDS
                self._entries.append(entry)

    def note_answer(self, entry: Entry, error: Exception | None, now: float) -> None:
        """Note what came of something that was written down.

        It counts until a list that began after GKE's answer shows it, unless GKE refused it, or it
        was not sent. After a refusal all operations rest for a time, or one kind of machines.
        """
        with self._lock:
            if error is None or isinstance(error, Unavailable):  # GKE may do it all the same
                entry.answered_at = now
            else:
                self._entries = [each for each in self._entries if each is not entry]
            if error is None and entry.way is not None:
                self._refusals.pop(entry.way, None)
            elif error is not None:
                self._note_refusal(error, entry.way, now)

    def _note_refusal(self, error: Exception, way: Way | None, now: float) -> None:
        if isinstance(error, NoPlace):
            return  # nothing was asked
        if isinstance(error, Throttled):
            number = _ALLOWED.search(str(error))
            if number:
                self._operations_max = int(number[1]), now
            else:
                self.rests_until = now + REST_SECONDS
        elif way is not None and isinstance(error, REFUSALS):
            before = self._refusals.get(way)
            pause = min(2 * before.pause, REFUSAL_SECONDS_MAX) if before else REFUSAL_SECONDS
            self._refusals[way] = Refusal(now + pause, pause, str(error))

    def list_refused(self, now: float) -> dict[Way, str]:
        """Return the ways that GKE refused at once a moment ago, each with its words."""
        with self._lock:
            refusals = self._refusals.items()
            return {way: each.words for way, each in refusals if now < each.until}

    def take_deletion(self, pool: str, now: float) -> bool:
        """Return whether one more pool may go in this minute without a word of its owner."""
        with self._lock:
            begun_at = now - DELETIONS_SECONDS
            recent = {name: at for name, at in self._deletions.items() if at > begun_at}
            allowed = pool in recent or len(recent) < self.settings.deletions_per_minute_max
            self._deletions = {pool: now} | recent if allowed else recent
            return allowed

    def give_back_deletion(self, pool: str, since: float) -> None:
        """Count a deletion no more that GKE did not accept; one before it may have been."""
        with self._lock:
            if self._deletions.get(pool, 0.0) >= since:
                del self._deletions[pool]

    def leave_to_deletions(self) -> None:
        """Leave the slot of a slow create to deletions until the next tick."""
        with self._lock:
            self._left_to_deletions += 1

    def begin_tick(self) -> None:
        """Let creates have the slots again that were left to deletions."""
        with self._lock:
            self._left_to_deletions = 0

    def wait(self, key: Key, since: float, *, begun: bool) -> None:
        """Let a workload have a turn; its place is that of its longest wait."""
        with self._lock:
            self._waiting[key] = not begun, since

    def leave(self, key: Key) -> None:
        """Forget a workload that waits no more."""
        with self._lock:
            self._waiting.pop(key, None)

    def take_next(self, but: Collection[Key | None] = ()) -> Key | None:
        """Return whose turn it is: a gang that began, then namespaces in turn, the longest wait."""
        with self._lock:
            ranks = {
                key: (first, self._served[key.namespace], since)
                for key, (first, since) in self._waiting.items()
                if key not in but
            }
            key = min(ranks, key=lambda each: ranks[each], default=None)
            if key is not None:
                del self._waiting[key]
                self._served[key.namespace] += 1
            return key


class Budget(Struct):
    """The books of each cluster, by its name."""

    settings: Settings
    _books: dict[str, Books] = {}

    def __getitem__(self, cluster: str) -> Books:
        books = self._books.get(cluster) or Books(self.settings, begun=not self.settings.limited)
        return self._books.setdefault(cluster, books)


def _shows_all(inventory: Inventory, operations: Operations) -> bool:
    """Return whether a list shows each pool of ours that GKE creates."""
    tries = (each for pairs in operations.values() for _, each in pairs)
    return all(each.pool in inventory.pools for each in tries if each.creates and not each.ended)
