"""Remembers how many operations on node pools GKE runs for a cluster at one time.

GKE does not publish that number. It answers 429 to a create above it, and names it there:
https://github.com/hashicorp/terraform-provider-google/issues/15579. From then on this process sends
as many creates as there are free places, and each operation that ends frees one:
https://cloud.google.com/kubernetes-engine/docs/troubleshooting/concurrent-operations. What is
remembered is a hint only: without it GKE is asked, and refuses.
"""

from __future__ import annotations

import math
import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.core.errors import NoPlace, ProvisionerError, Throttled, Unavailable
from shared.core.identity.names import parse_pool_name
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import UNDER_WAY, PoolStatus
from shared.core.times import TURN_SECONDS
from shared.engine.looks.side_by_side import CALLS_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shared.core.identity.pools import PoolSnapshot

    Pools = Sequence[PoolSnapshot]

REMEMBERED_SECONDS = 3600.0  # assumes: operations-at-once
"""After this GKE is asked again: it may allow more. Creations that fail hold places 35 minutes."""
SLOW_SECONDS = 600.0  # a create that takes longer waits for machines, up to 35 minutes
_ALLOWED = re.compile(r"concurrent operations quota (\d+)")


@dataclass(slots=True)
class _Sent:
    """A create that this process has sent, with its time in unix seconds."""

    name: str
    at: float
    lost: bool = False
    """GKE did not answer, so it may have created nothing."""

    def is_young(self, now: float) -> bool:
        """Return whether a list that is not too old to act on may lack its pool."""
        return abs(now - self.at) <= TURN_SECONDS  # threads come a little out of turn


@dataclass(slots=True)
class Places:
    """The places of each cluster's operations, as one process knows them; threads may share it."""

    _most: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By cluster: how many operations GKE runs at one time, and when it said so in unix seconds."""
    _refused: dict[str, tuple[object, str, float]] = field(default_factory=dict)
    """By cluster: the list of the last create that was refused with 429, GKE's words, and when. No
    other create rests on that list."""
    _sent: dict[str, dict[str, _Sent]] = field(default_factory=dict)
    """By cluster and slice: the creates of this process that were not refused, the oldest first."""
    _slow_at: dict[str, float] = field(default_factory=dict)
    _turns: dict[str, threading.Semaphore] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def turn(self, cluster: str) -> threading.Semaphore:
        """Return what lets `CALLS_AT_ONCE` creates be sent at one time, so that few are refused."""
        return self._turns.setdefault(cluster, threading.Semaphore(CALLS_AT_ONCE))

    def is_sent(self, cluster: str, name: str, pools: Pools, *, now: float, frees: bool = False) -> bool:
        """Return whether a pool of the slice was asked for a moment ago; else expect a free place.

        Messages about one workload may be answered at one time, from lists without the pool. Its
        name may be of another attempt. `pools` are all of the cluster; if creates are slow, the
        last place is for a deletion. `frees`: the last pool of the slice is deleted before. It is
        the record of a failure, so it is not risked where GKE may refuse the create.

        Raises:
            NoPlace: there is no free place, as far as that is known.
            Throttled: GKE has refused another create that rested on the same list.
        """
        with self._lock:
            sent = self._sent.get(cluster, {}).get(_find_slice(name))
            if sent and not sent.lost and sent.is_young(now) and not PoolIndex.of(pools).find(sent.name):
                return True
            most, said_at = self._most.get(cluster, (math.inf, now))
            known = frees or abs(now - said_at) <= REMEMBERED_SECONDS
            room = min(1 + (frees or self._may_starve(cluster, pools, now)), most)
            if known and most < room + self._count(cluster, pools, now):
                raise NoPlace(f"GKE runs at most {most} operations at one time; the create waits until one ends")
            listed, words, at = self._refused.get(cluster, (None, "", -math.inf))
            if listed is pools or (frees and abs(now - at) <= TURN_SECONDS):
                raise Throttled(words)
            return False

    def send(self, create: Callable[[], None], cluster: str, name: str, pools: Pools, *, now: float) -> bool:
        """Send a create if there is a place, and remember what GKE answers; False if `is_sent`.

        Raises what `is_sent` and `create` raise.
        """
        with self._lock:
            if self.is_sent(cluster, name, pools, now=now):
                return False
            sent = self._sent.setdefault(cluster, {})
            while sent and not next(iter(sent.values())).is_young(now):
                del sent[next(iter(sent))]
            sent.pop(_find_slice(name), None)
            sent[_find_slice(name)] = mine = _Sent(name, now)
        try:
            create()
            with self._lock:
                if self._most.get(cluster, (math.inf, now))[0] < self._count(cluster, pools, now):
                    del self._most[cluster]  # GKE allows more by now
        except Unavailable:
            mine.lost = True
            raise  # GKE may create it all the same
        except ProvisionerError as error:
            with self._lock:
                sent.pop(_find_slice(name), None)
                if isinstance(error, Throttled):
                    self._refused[cluster] = pools, str(error), now
                if found := _ALLOWED.search(str(error)):
                    self._most[cluster] = int(found[1]), now
            raise
        return True

    def _may_starve(self, cluster: str, pools: Pools, now: float) -> bool:
        """Return whether creates may hold all places for long, so that no deletion gets one."""
        if any(pool.status == PoolStatus.PROVISIONING and pool.is_older(SLOW_SECONDS, now) for pool in pools):
            self._slow_at[cluster] = now
        slow = abs(now - self._slow_at.get(cluster, -math.inf)) <= REMEMBERED_SECONDS
        return slow and all(pool.status != PoolStatus.STOPPING for pool in pools)

    def _count(self, cluster: str, pools: Pools, now: float) -> int:
        """Return how many operations are under way: those that are listed, and those sent since."""
        listed = {pool.name: pool.status in UNDER_WAY for pool in pools}
        since = (each for each in self._sent.get(cluster, {}).values() if each.name not in listed)
        return sum(listed.values()) + sum(each.is_young(now) for each in since)


def _find_slice(name: str) -> str:
    """Return the hash of the claim that a pool's name has, or a name that is not ours."""
    return parsed.hash if (parsed := parse_pool_name(name)) else name
