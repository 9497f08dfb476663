"""Counts chips and operation slots in one process, before each create.

Only `provision` creates, and it runs as one instance, so what it has sent since GKE's list is known
here. A second instance, for some minutes, may pass a limit by what it has sent; the tick reports
that, and nothing is deleted for it.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.model.errors import NoPlace, ProvisionerError, Throttled, Unavailable
from shared.model.pools import UNDER_WAY
from shared.plan.limits import count_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from shared.model.pools import NodePool
    from shared.plan.scene import Pool, Way
    from shared.settings import Settings

SENT_SECONDS = 1200
"""How long a create that no list shows counts for a limit."""
REST_SECONDS = 60.0
"""How long creates of a cluster rest after a 429 without a number."""
NUMBER_SECONDS = 3600.0  # assumes: operations-at-once
SLOTS_WITHOUT_NUMBER = 20
REFUSAL_SECONDS, REFUSAL_SECONDS_MAX = 60.0, 1800.0
DELETIONS_SECONDS = 60.0
_ALLOWED = re.compile(r"concurrent operations quota (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A create of this process that a list may not show yet."""

    namespace: str
    chips: int
    at: float


@dataclass(slots=True)
class _Of:
    """What is known of one cluster."""

    sent: dict[str, Sent] = field(default_factory=dict)
    """By the name of the pool."""
    slots: tuple[int, float] | None = None
    """How many operations GKE runs at one time, and when it said so."""
    rests_until: float = 0.0
    deletions: dict[str, float] = field(default_factory=dict)
    """When a pool was deleted without a word of its owner, in unix seconds."""
    refused: dict[Way, tuple[float, float]] = field(default_factory=dict)
    """Until when a way is not tried, and the pause that led to that time."""


@dataclass(slots=True)
class Budget:
    """The chips and operation slots of each cluster; threads share it."""

    settings: Settings
    _clusters: dict[str, _Of] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def count_room(
        self,
        cluster: str,
        namespace: str,
        pools: Sequence[Pool],
        owned: Iterable[NodePool],
        now: float,
    ) -> int:
        """Return for how many chips the limits leave room beside all pools listed and sent."""
        settings, names = self.settings, {pool.name for pool in pools}
        used_cluster = used_namespace = 0
        homes = {pool.name: pool.owner.namespace for pool in owned if pool.owner}
        for pool in pools:
            if pool.name in homes:
                chips = count_nodes(pool) * max(pool.shape.units, 1)
                used_cluster += chips
                used_namespace += chips if homes[pool.name] == namespace else 0
        for name, sent in self._list_sent(cluster, now):
            if name not in names:
                used_cluster += sent.chips
                used_namespace += sent.chips if sent.namespace == namespace else 0
        rooms = [10**9]
        if settings.limit_chips:
            rooms.append(settings.limit_chips - used_cluster)
        if settings.limit_chips_per_namespace:
            rooms.append(settings.limit_chips_per_namespace - used_namespace)
        return min(rooms)

    def count_slots(self, cluster: str, pools: Iterable[Pool], now: float) -> int:
        """Return how many operations may be sent now."""
        with self._lock:
            known = self._clusters.setdefault(cluster, _Of())
            if now < known.rests_until:
                return 0
            if known.slots is None or now - known.slots[1] > NUMBER_SECONDS:
                return SLOTS_WITHOUT_NUMBER
            listed = {pool.name: pool.status in UNDER_WAY for pool in pools}
            unseen = sum(name not in listed for name, _ in self._list_sent(cluster, now))
            return max(0, known.slots[0] - sum(listed.values()) - unseen)

    def list_refused(self, cluster: str, now: float) -> frozenset[Way]:
        """Return the ways that GKE refused at once a moment ago."""
        with self._lock:
            refused = self._clusters.setdefault(cluster, _Of()).refused
            return frozenset(way for way, (until, _) in refused.items() if now < until)

    def send(
        self,
        cluster: str,
        name: str,
        sent: Sent,
        way: Way,
        create: Callable[[], None],
        *,
        room: int,
        since: float,
    ) -> bool:
        """Send a create, and remember it until a list shows it; False if the limits have no room left.

        The room was counted at a time; what was sent since then takes from it.

        Raises:
            NoPlace: the cluster rests, because GKE runs as many operations as it allows.
            ProvisionerError: what GKE answered.
        """
        with self._lock:
            known = self._clusters.setdefault(cluster, _Of())
            if sent.at < known.rests_until:
                raise NoPlace(
                    "GKE runs as many operations as it allows; the create waits until one ends"
                )
            if self.settings.limited:
                later = sum(each.chips for each in known.sent.values() if each.at >= since)
                if later + sent.chips > room:
                    return False
            known.sent[name] = sent
        try:
            create()
            return True
        except Unavailable:
            raise  # GKE may create it all the same
        except ProvisionerError as error:
            with self._lock:
                known.sent.pop(name, None)
                self._note(known, error, way, sent.at)
            raise

    def _note(self, known: _Of, error: ProvisionerError, way: Way, now: float) -> None:
        if isinstance(error, Throttled):
            number = _ALLOWED.search(str(error))
            if number:
                known.slots = int(number[1]), now
            else:
                known.rests_until = now + REST_SECONDS
            return
        _, pause = known.refused.get(way, (0.0, REFUSAL_SECONDS / 2))
        pause = min(2 * pause, REFUSAL_SECONDS_MAX)
        known.refused[way] = now + pause, pause

    def take_deletion(self, cluster: str, pool: str, now: float) -> bool:
        """Return whether one more pool may go in this minute without a word of its owner."""
        with self._lock:
            taken = self._clusters.setdefault(cluster, _Of()).deletions
            for name in [name for name, at in taken.items() if now - at >= DELETIONS_SECONDS]:
                del taken[name]
            if pool in taken or len(taken) >= self.settings.deletions_per_minute_max:
                return pool in taken
            taken[pool] = now
            return True

    def forget_listed(self, cluster: str, names: Iterable[str], began_at: float) -> None:
        """Let a list that began after a create was answered count in its place."""
        with self._lock:
            sent = self._clusters.setdefault(cluster, _Of()).sent
            for name in [each for each in names if each in sent and sent[each].at < began_at]:
                del sent[name]

    def _list_sent(self, cluster: str, now: float) -> list[tuple[str, Sent]]:
        with self._lock:
            sent = self._clusters.setdefault(cluster, _Of()).sent
            for name in [name for name, each in sent.items() if now - each.at > SENT_SECONDS]:
                del sent[name]
            return list(sent.items())
