"""What a cluster has, and what is left: chips, operation slots, refusals, deletions, turns.

Only `provision` creates, and it runs as one instance, so what it has sent since GKE's list is known
here. A second instance, for some minutes, may pass a limit by what it has sent; the tick reports
that, and nothing is deleted for it.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, field

from shared.model.decisions import Reason
from shared.model.errors import Denied, InvalidRequest, NoCapacity, Throttled, Unavailable
from shared.model.names import ParsedName
from shared.model.pools import NodePool, Operation, PoolNode, PoolStatus
from shared.model.workloads import Namespace
from shared.needs.wanted import Wanted
from shared.plan.limits import Means, count_nodes
from shared.plan.scene import Way
from shared.settings import Settings

Tries = Sequence[tuple[ParsedName, Operation]]
"""Operations on pools with a name of ours, with that name."""
Operations = Mapping[str, Tries]  # by the hash in the name
Nodes = Mapping[str, Sequence[PoolNode]]  # by pool

WorkloadName = tuple[str, str, str]  # kind, namespace and name
NO_LIMIT = 10**9
SLOTS_WITHOUT_NUMBER = 32
SENT_SECONDS = 1200.0  # how long a create that no list shows counts for a limit
HELD_SECONDS = 150.0  # how long room is held for a gang that no tick looks at again
REST_SECONDS = 60.0  # how long creates of a cluster rest after a 429 without a number
NUMBER_SECONDS = 3600.0  # assumes: operations-at-once
REFUSAL_SECONDS, REFUSAL_SECONDS_MAX = 60.0, 1800.0
DELETIONS_SECONDS = 60.0
TOLD_SECONDS = 1800.0
"""How long what stays so is not repeated. Kubernetes keeps Events for an hour:
https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/ (--event-ttl)."""
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
    strangers: Mapping[str, Sequence[int]] = {}  # attempts in names of ours, of pools of others
    under_way: frozenset[str] = frozenset()  # names of pools on which GKE works
    autoscaled: int = 0


class Entry(Struct, kw_only=True):
    """A create, or a higher maximum, that a list may not show yet."""

    pool: str
    key: Key
    chips: int = 0
    maximum: int = 0  # of an elastic pool that gets more nodes; 0 for a create
    way: Way | None = None
    sent_at: float = 0.0
    answered_at: float | None = None

    def counts_beside(self, inventory: Inventory) -> bool:
        """Return whether a list does not show it, for it began before GKE's answer, or lags."""
        if inventory.began_at - self.sent_at > SENT_SECONDS:
            return False
        if self.answered_at is None or inventory.began_at < self.answered_at:
            return True
        pool = inventory.pools.get(self.pool)
        return pool is None or pool.maximum < self.maximum


class Books(Struct):
    """What a process counts in one cluster, and what it remembers of it; threads share it.

    Without the memory acts come later, and never wrongly.
    """

    settings: Settings
    begun: bool  # creates that ran before this process have been counted; without a limit none is
    inventory: Inventory = Inventory()  # the newest list of pools
    ended_at: float = 0.0  # when what an operation changed is not in a list from before
    acted: dict[Key, float] = {}
    """When something was added for a workload; an older list of pools does not show it."""
    missing_since: dict[str, float] = {}
    """By pool, when nodes were first seen to be missing, in unix seconds."""
    spare: frozenset[str] = frozenset()  # the pools that the last tick found too many
    namespaces: dict[str, tuple[Namespace | None, float]] = {}
    """With when each was read; none that stops something."""
    notices: dict[tuple[str, ...], tuple[float, str]] = {}
    """About which object, why and about which pool something was told, when, and in which words."""
    wanted: dict[Key, tuple[object, Wanted]] = {}  # what a workload wants, and what that rests on
    left: tuple[Key, ...] = ()  # the keys for which the last tick had no time
    _nodes: dict[str, tuple[PoolStatus, int]] = {}
    """By pool, how many nodes it had when they were last read, and its status then."""
    _used: Counter[str] | None = None  # the chips of listed pools; None: they must be counted
    _entries: list[Entry] = []
    _held: dict[Key, tuple[int, float]] = {}
    """How many chips a gang keeps for what it lacks, and since when."""
    _operations_max: tuple[int, float] | None = None
    """How many operations GKE runs at one time, and when it said so."""
    _rests_until: float = 0.0  # until then GKE takes no operation: it has said so
    _left_to_deletions: list[Key | None] = []
    """Whose slow creates ended since the last tick: their slots are for what is to be deleted."""
    _deletions: set[tuple[str, float]] = set()
    """The pools that were deleted without a word of their owners, and when, in unix seconds."""
    _refusals: dict[Way, tuple[float, float, str]] = {}
    """What GKE refused at once: until when it is not asked again, the pause, and GKE's words."""
    _waiting: dict[Key, tuple[bool, float]] = {}
    """What waits for the end of an operation: whether it is a gang without a part of its pools, and
    since when."""
    _served: Counter[str] = field(default_factory=Counter)
    """By namespace, how often it was its turn."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def note_list(self, inventory: Inventory) -> None:
        """Let the newest list count in the place of what was sent and is shown by it."""
        with self._lock:
            if inventory.began_at < self.inventory.began_at:
                return
            self.inventory, self._used = inventory, None
            self._entries = [each for each in self._entries if each.counts_beside(inventory)]
            self._nodes = {name: self._nodes[name] for name in self._nodes.keys() & inventory.pools}

    def note_nodes(self, pools: Mapping[str, NodePool], nodes: Nodes) -> None:
        """Count these pools by their nodes, which were read after them."""
        with self._lock:
            for name, pool in pools.items():
                present = pool.status, len(nodes.get(name, ()))
                if self._nodes.get(name) != present:
                    self._nodes[name], self._used = present, None

    def note_end(self, now: float, *, created: bool) -> None:
        """Let no look rest on a list from before the end of an operation.

        Such a list shows a pool that was created as well as a new one, unless who waits for its
        slot counts slots by it.
        """
        with self._lock:
            if self._waiting or not created:
                self.ended_at = now

    def count_used(self) -> Counter[str]:
        """Return the chips that a limit counts of the pools that are listed, by namespace.

        Where nodes were not read, a pool without machines counts as a whole.
        """
        with self._lock:
            if self._used is None:
                self._used = Counter()
                for (_, namespace, _), pools in self.inventory.by_owner.items():
                    self._used[namespace] += sum(map(self._count_pool, pools))
            return self._used.copy()

    def _count_pool(self, pool: NodePool) -> int:
        status, nodes = self._nodes.get(pool.name, (None, 0))
        present = nodes if status == pool.status else max(nodes, pool.maximum)
        return count_nodes(pool.status, pool.maximum, present) * max(pool.units, 1)

    def count_room(self, key: Key, now: float, operations: Operations | None = None) -> Means:
        """Return what limits and slots leave beside all pools that are listed, sent and held.

        How many chips a pool of ours has that GKE creates and does not list yet is not known, so at
        first nothing is created until each is listed.
        """
        with self._lock:
            if operations is not None and not self.begun:
                creates = (each for tries in operations.values() for _, each in tries)
                runs = [each.pool for each in creates if each.creates and not each.ended]
                self.begun = self.inventory.pools.keys() >= set(runs)
            chips = self._count_chips(key, now) if self.settings.limited else NO_LIMIT
            return Means(chips if self.begun else 0, self._count_slots(key, now))

    def _count_chips(self, key: Key, now: float) -> int:
        settings, used = self.settings, self.count_used()
        for each in self._entries:
            used[each.key.namespace] += each.chips
        for holder, (chips, since) in self._held.items():
            if holder != key and now - since <= HELD_SECONDS:
                used[holder.namespace] += chips
        return min(
            (settings.limit_chips or NO_LIMIT) - used.total(),
            (settings.limit_chips_per_namespace or NO_LIMIT) - used[key.namespace],
        )

    def _count_slots(self, key: Key, now: float) -> int:
        """Return how many operations GKE takes now; while it has named no number, some at once."""
        if now < self._rests_until:
            return 0
        if self._operations_max is None or now - self._operations_max[1] > NUMBER_SECONDS:
            return 0 if key in self._left_to_deletions else SLOTS_WITHOUT_NUMBER
        running = len(self.inventory.under_way) + len(self._entries)
        return max(0, self._operations_max[0] - running - len(self._left_to_deletions))

    def take(self, entry: Entry, now: float) -> Reason | None:
        """Write down what is about to be sent, or return why there is no room for it."""
        with self._lock:
            room = self.count_room(entry.key, now)
            if room.slots <= 0:
                return Reason.NO_OPERATION_SLOT
            if entry.chips > room.chips:
                return Reason.LIMIT_REACHED
            self._change_held(entry.key, -entry.chips)
            entry.sent_at = now
            self._entries.append(entry)
            return None

    def hold(self, key: Key, chips: int, now: float, *, begun: bool) -> bool:
        """Return whether there is room for all that a gang lacks, and keep it.

        It replaces what was kept before. A gang that began keeps a part of the room, too.
        """
        with self._lock:
            self._held.pop(key, None)
            room = max(0, self.count_room(key, now).chips)
            if chips and (begun or chips <= room):
                self._held[key] = min(chips, room), now
            return chips <= room

    def _change_held(self, key: Key, chips: int) -> None:
        if key in self._held:
            before, since = self._held[key]
            self._held[key] = before + chips, since

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
                self._change_held(entry.key, entry.chips)
            if error is None and entry.way is not None:
                self._refusals.pop(entry.way, None)
            elif error is not None:
                self._note_refusal(error, entry.way, now)

    def _note_refusal(self, error: Exception, way: Way | None, now: float) -> None:
        if isinstance(error, Throttled):
            number = _ALLOWED.search(str(error))
            if number:
                self._operations_max = int(number[1]), now
            else:
                self._rests_until = now + REST_SECONDS
        elif way is not None and isinstance(error, REFUSALS):
            before = self._refusals.get(way)
            pause = min(2 * before[1], REFUSAL_SECONDS_MAX) if before else REFUSAL_SECONDS
            self._refusals[way] = now + pause, pause, str(error)

    def list_refused(self, now: float) -> dict[Way, str]:
        """Return the ways that GKE refused at once a moment ago, each with its words."""
        with self._lock:
            refusals = self._refusals.items()
            return {way: words for way, (until, _, words) in refusals if now < until}

    def take_deletion(self, pool: str, now: float) -> bool:
        """Return whether one more pool may go in this minute without a word of its owner."""
        with self._lock:
            self._deletions = {
                each for each in self._deletions if each[1] > now - DELETIONS_SECONDS
            }
            pools = {pool} | {name for name, _ in self._deletions}
            allowed = len(pools) <= self.settings.deletions_per_minute_max
            if allowed:
                self._deletions.add((pool, now))
            return allowed

    def give_back_deletion(self, pool: str, began_at: float) -> None:
        """Count a deletion no more that GKE did not accept; one before it may have been."""
        with self._lock:
            self._deletions.discard((pool, began_at))

    def leave_to_deletions(self, key: Key | None) -> None:
        """Leave the slot of a slow create to deletions until the next tick."""
        with self._lock:
            self._left_to_deletions.append(key)

    def begin_tick(self, now: float) -> None:
        """Forget what was told and done long ago, and which slots were left to deletions.

        Other threads write meanwhile, so each is copied in one step before it is gone through.
        """
        with self._lock:
            self._left_to_deletions = []
        for place, (at, _) in list(self.notices.items()):
            if now - at >= TOLD_SECONDS:
                self.notices.pop(place, None)
        for key, at in list(self.acted.items()):
            if now - at >= TOLD_SECONDS:
                self.acted.pop(key, None)

    def wait(self, key: Key, since: float | None, *, begun: bool = False) -> None:
        """Let a workload have a turn, in the place of its longest wait, if it waits."""
        with self._lock:
            self._waiting.pop(key, None)
            if since is not None:
                self._waiting[key] = not begun, since

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


def open_books(settings: Settings) -> dict[str, Books]:
    """Return empty books of each cluster, by its name."""
    return {name: Books(settings, begun=not settings.limited) for name in settings.clusters}
