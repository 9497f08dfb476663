"""What the answers to waiting leaders of one delivery, or of one sweep, have in common."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.core.identity.pool_index import PoolIndex
from shared.core.times import measure_seconds
from shared.perform.act_within_limits import find_limits
from shared.perform.shared_reads import RecentReads, share_reads

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.core.ports import Clock, Ports
    from shared.core.workloads import PodView
    from shared.perform.act_within_limits import Limits
    from shared.perform.creation_list import Creations
    from shared.perform.deletion_cap import DeletionCap
    from shared.perform.shared_reads import SharedReads

LIST_SECONDS_MAX = 30.0
"""Leaders are answered from a list of pools that is at most so old. An older one is made again,
because an attempt whose pool it shows may have failed and be gone."""
FRESH_SECONDS = 5.0
"""A leader that has waited for less is left out, because its message is about to be handled."""


class RecentPools:
    """Every pool of a cluster, listed when first asked for and when the list is too old."""

    def __init__(self, read: Callable[[], PoolIndex], clock: Clock) -> None:
        """Prepare; nothing is read yet."""
        self._read, self._recent = read, RecentReads(clock, LIST_SECONDS_MAX)
        self.listed_at = clock.now()
        """Unix seconds; the first list is not older."""

    def forget(self) -> None:
        """Let the pools be listed again."""
        self._recent.forget()

    def list(self) -> PoolIndex:
        """Return the pools, as they were at most `LIST_SECONDS_MAX` ago."""
        return self._recent.share("pools", self._read)


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


def is_fresh_leader(pod: PodView, *, listed_at: float, now: float) -> bool:
    """Return whether a pod began to wait just before the pools were listed, or after that.

    The list does not have a pool that was created since. A time that cannot be true counts as none:
    the pod is answered.
    """
    waited = measure_seconds(pod.unschedulable_since, now)
    return waited is not None and waited < now - listed_at + FRESH_SECONDS
