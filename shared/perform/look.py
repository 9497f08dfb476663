"""What the answers to waiting leaders of one delivery, or of one sweep, have in common."""

from __future__ import annotations

import dataclasses
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from shared.core.identity.pool_index import PoolIndex
from shared.perform.act_within_limits import find_limits
from shared.perform.shared_reads import OneRead, SharedReads, share_reads

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.core.ports import Clock, Ports
    from shared.perform.act_within_limits import Limits
    from shared.perform.creation_list import Creations
    from shared.perform.deletion_cap import DeletionCap

LIST_SECONDS_MAX = 30.0
"""Leaders are answered from a list of pools that is at most so old. An older one is made again,
because an attempt whose pool it shows may have failed and be gone."""


class RecentPools:
    """Every pool of a cluster, listed when first asked for and when the list is too old."""

    def __init__(self, read: Callable[[], PoolIndex], clock: Clock) -> None:
        """Prepare; nothing is read yet."""
        self._read, self._clock, self._lock = read, clock, threading.Lock()
        self.listed_at = clock.now()
        """When the first list was begun, in unix seconds."""
        self._recent = OneRead(read, self.listed_at)

    def forget(self) -> None:
        """Let the pools be listed again."""
        self._recent = OneRead(self._read, self._clock.now())

    def list(self) -> PoolIndex:
        """Return the pools, as they were at most `LIST_SECONDS_MAX` ago."""
        with self._lock:
            now = self._clock.now()
            if now - self._recent.begun_at > LIST_SECONDS_MAX:
                self._recent = OneRead(self._read, now)
            recent = self._recent
        return cast("PoolIndex", recent.get())


@dataclass(slots=True)
class AnsweredClaims:
    """The claims that were answered; threads may share it."""

    _by_hash: dict[str, object] = field(default_factory=dict)

    def add(self, claim_hash: str) -> bool:
        """Add a claim; return False if it was there."""
        mine = object()
        return self._by_hash.setdefault(claim_hash, mine) is mine

    def __contains__(self, claim_hash: str) -> bool:
        """Return whether a claim was added."""
        return claim_hash in self._by_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the answers to some leaders of one cluster share."""

    cluster: str
    """``projects/P/locations/L/clusters/C``."""
    ports: Ports
    """What is read once may serve all answers. A look that a deletion rests on is not shared."""
    pools: RecentPools
    answered: AnsweredClaims = field(default_factory=AnsweredClaims)
    """Another leader of such a slice is skipped."""
    limits: Limits | None = None
    cap: DeletionCap | None = None
    """How many pools this sweep may still delete; None outside a sweep."""
    creations: Creations | None = None
    """What GKE says of pools that it has created; None if that is not read."""
    sweeps: bool = False
    """It is a sweep, which comes every minute: about young demands only changes are told."""
    had_pool: bool = False
    """The slice has had a pool: if it has none now, the sweep creates it, which knows why."""


def open_look(cluster: str, ports: Ports, *, had_pool: bool = False) -> tuple[Look, SharedReads]:
    """Return a look for one delivery, and what holds its Events until they are written."""
    limits = find_limits(cluster, ports)
    listing = limits.list_pools if limits else lambda: PoolIndex(ports.pools.list(cluster))
    pools = RecentPools(listing, ports.clock)
    shared, reads = share_reads(cluster, ports)
    ports = dataclasses.replace(ports, clusters=ports.clusters | {cluster: shared})
    return Look(cluster=cluster, ports=ports, pools=pools, limits=limits, had_pool=had_pool), reads
