"""What one delivery, or one sweep of a cluster, works with, and one turn of answering a slice."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar, cast

from shared.core.decide.attempts import find_used
from shared.core.identity.names import build_pool_name
from shared.core.identity.pool_index import PoolIndex
from shared.core.times import FRESH_SECONDS, SHARED_SECONDS, TURN_SECONDS, measure_seconds
from shared.engine.looks.limit_holds import find_limits
from shared.engine.looks.limited_ports import OptionalReads, RestingPools
from shared.engine.looks.pool_reads import Creations
from shared.engine.looks.shared_reads import RecentReads, SharedReads, share_list
from shared.engine.looks.side_by_side import CALLS_AT_ONCE, get_runner
from shared.engine.looks.sweep_report import ClusterFigures, DeletionCap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from shared.core.decisions import Decision
    from shared.core.demand.demand import Demand
    from shared.core.identity.creations import Creation
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Clock, Cluster, NodePools, Ports
    from shared.core.settings import Settings
    from shared.core.workloads import PodView, WorkloadView
    from shared.engine.looks.limit_holds import Limits
    from shared.engine.looks.sweep_report import SweepReport

T = TypeVar("T")
R = TypeVar("R")
LISTS_APART_SECONDS = 0.5
"""Between the lists of a batch, each of which serves the deletions that were decided before it
began. Without a pause 64 deletions made 17 lists in three seconds, and with it half of them."""


class RecentPools:
    """Every pool of a cluster, listed when first asked for and when the list is too old."""

    def __init__(
        self, read: Callable[[], PoolIndex], clock: Clock, *, seconds: float = TURN_SECONDS, apart: float = 0.0
    ) -> None:
        """Prepare; nothing is read yet. After so many seconds a list is too old."""
        self._read, self._recent = read, RecentReads(clock, seconds, apart=apart)
        self.listed_at = clock.now()
        """Unix seconds; the first list is not older."""

    def forget(self) -> None:
        """Let the pools be listed again."""
        self._recent.forget()

    def list(self, *, since: float = 0.0) -> PoolIndex:
        """Return the pools, from a list that is not too old, and began after `since`."""
        return self._recent.share("pools", self._read, since=since)


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
    """What one delivery, or one sweep of a cluster, works with."""

    cluster: str
    """``projects/P/locations/L/clusters/C``."""
    ports: Ports
    """The outside world."""
    pools: RecentPools
    reads: SharedReads | None = None
    """What is read of the cluster once and serves all answers; None if each read is made."""
    batch: Look | None = None
    """Reads the pools and owners for all deletions of a batch; None if each one reads its own."""
    answered: AnsweredClaims = field(default_factory=AnsweredClaims)
    """Another leader of such a slice is skipped."""
    limits: Limits | None = None
    cap: DeletionCap | None = None
    """How many pools this sweep may still delete; None outside a sweep."""
    creations: Creations | None = None
    """What GKE says of pools that it has created; None if that is not read."""
    figures: ClusterFigures = field(default_factory=ClusterFigures)
    """What a sweep counts."""
    sweeps: bool = False
    """It is a sweep, which comes every minute: about young demands only changes are told."""
    had_pool: bool = False
    """The slice has had a pool: if it has none now, the sweep creates it, which knows why."""

    @property
    def live(self) -> Cluster:
        """Return the port of the cluster."""
        return cast("Cluster", self.reads or self.ports.clusters[self.cluster])

    @property
    def settings(self) -> Settings:
        """Return the operator's settings."""
        return self.ports.settings

    def now(self) -> float:
        """Return the time, in unix seconds."""
        return self.ports.clock.now()

    def list_pools(self, *, since: float = 0.0) -> PoolIndex:
        """Return every pool of the cluster, listed now; in a batch, by a list that began since."""
        if self.batch:
            return self.batch.pools.list(since=since)
        return PoolIndex(self.ports.pools.list(self.cluster))

    def find_pool(self, name: str, *, since: float = 0.0) -> PoolSnapshot | None:
        """Return a pool, read now, or in a batch by a list that began since; None if it is gone."""
        return self.list_pools(since=since).find(name) if self.batch else self.get_pool(name)

    def get_pool(self, name: str) -> PoolSnapshot | None:
        """Return one pool as it is now; None if there is none."""
        return self.ports.pools.get(self.cluster, name)

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """Return what each task returned or raised, in their order; they run side by side."""
        return get_runner(self.ports)(tasks, at_once=CALLS_AT_ONCE, until=self.ports.until)

    def shared(self) -> Look:
        """Return the same, which reads each object once and holds Events for `write_notices`."""
        return dataclasses.replace(self, reads=SharedReads(self.cluster, self.ports))

    def unshared(self) -> Look:
        """Return the same with unshared reads of the cluster: an act rests on them."""
        return dataclasses.replace(self, reads=None) if self.reads else self

    def list_shared(self, *, since: float = 0.0) -> PoolIndex:
        """Return every pool of the cluster; one list serves the deliveries of some seconds."""
        return share_list(f"pools {self.cluster}", self.list_pools, self.ports, since=since)

    def share_pools(self, read: Callable[[], PoolIndex] | None = None) -> Look:
        """Return the same with a shared list of pools; with limits each delivery lists its own."""
        pools = RecentPools(read or self.list_shared, self.ports.clock)
        return self if self.limits else dataclasses.replace(self, pools=pools)

    def share_batch(self) -> Look:
        """Return the same for reading a batch of pools and their owners. It writes nothing."""
        apart = LISTS_APART_SECONDS if self.ports.threads else 0.0  # else nobody would share it
        pools = RecentPools(self.list_pools, self.ports.clock, seconds=SHARED_SECONDS, apart=apart)
        reads = SharedReads(self.cluster, self.ports, seconds=SHARED_SECONDS)
        return dataclasses.replace(self, reads=reads, pools=pools)

    def in_batch(self) -> Look:
        """Return the same for a batch of deletions, which share what they read right before."""
        return dataclasses.replace(self, batch=self.share_batch())

    def make_once(self, make: Callable[..., T], uid: str, *given: Any) -> T:
        """Return what a pure function makes of a workload; shared reads make it once."""
        return self.reads.make_once(make, uid, *given) if self.reads else make(*given)

    def write_notices(self) -> None:
        """Write the Events that the shared reads hold."""
        if self.reads is not None:
            self.reads.write_notices()


def open_look(cluster: str, ports: Ports) -> Look:
    """Return the look of one delivery. Nothing is read yet."""
    limits = find_limits(cluster, ports)
    listing = limits.list_pools if limits else lambda: PoolIndex(ports.pools.list(cluster))
    pools = RecentPools(listing, ports.clock)
    return Look(cluster=cluster, ports=ports, pools=pools, limits=limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptCluster:
    """What the steps of one sweep of one cluster have in common."""

    look: Look
    """What is read once serves the whole sweep, but for an act: `Look.unshared`."""
    report: SweepReport
    cap: DeletionCap
    """That of the look."""

    def within_half(self) -> SweptCluster:
        """Return the same for one step, which may use half of the time that is left."""
        ports, now = self.look.ports, self.look.now()
        ports = dataclasses.replace(ports, until=now + (ports.until - now) / 2)
        return dataclasses.replace(self, look=dataclasses.replace(self.look, ports=ports))

    def for_each(self, task: Callable[[T], R], objects: Sequence[T]) -> Iterable[tuple[T, R | Exception]]:
        """Return each object with the result of its task, or the error that it raised."""
        return zip(objects, self.look.run([partial(task, each) for each in objects]), strict=True)


def open_sweep(cluster: str, ports: Ports, report: SweepReport) -> SweptCluster:
    """Return what one sweep of a cluster begins with. Nothing is read yet."""
    resting, live = RestingPools(ports.pools, ports.clock), ports.clusters[cluster]
    ports = dataclasses.replace(
        ports,
        pools=cast("NodePools", OptionalReads(resting, "read_machines", apart=ports.pools)),
        clusters=ports.clusters | {cluster: cast("Cluster", OptionalReads(live, "list_scale_ups"))},
        reads_fillings=True,
    )
    most, chance = ports.settings.sweep_deletions_max, Random(ports.clock.now())  # noqa: S311 -- no secret
    cap = DeletionCap(most, reserved=(most + chance.randrange(2)) // 2, nodes=most)
    look = Look(
        cluster=cluster,
        ports=ports,
        pools=RecentPools(lambda: PoolIndex(ports.pools.list(cluster)), ports.clock),
        limits=find_limits(cluster, ports),
        cap=cap,
        creations=Creations(cluster, ports),
        sweeps=True,
    )
    return SweptCluster(look=look.shared(), report=report, cap=cap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of answering one slice: what it needs, and what was read of it."""

    look: Look
    demand: Demand
    pools: PoolIndex
    """Every pool of the cluster, as it was listed for this turn."""
    looked_at: float
    """Unix seconds before the owner was read, for the deletion or creation that may come of it."""
    pod: PodView | None = None
    """It waits; None for a slice that has no pods yet."""
    workload: WorkloadView | None = None
    """The owner as it was read. In a sweep, the read may be older than the turn."""
    replaced: tuple[str, ...] = ()
    """In whose place a pool is created, so that they do not count against limits: the failed pool,
    and the one for which the slice's gang has holds."""
    make_room: Callable[[], Decision] | None = None
    """Deletes that pool before the next one is created; None if it is deleted after that."""
    since: float = 0.0
    """Unix seconds of the end of an earlier pause; the failures before it give no other one."""

    @property
    def own(self) -> list[PoolSnapshot]:
        """Return the pools of the slice."""
        return self.pools.list_claimed(self.demand.claim.hash)

    @property
    def used(self) -> set[int]:
        """Return the attempts whose names pools have, also one whose labels a person changed."""
        return find_used(build_pool_name(self.demand.claim), self.pools.names)

    def find_gone(self) -> Creation | None:
        """Return the slice's newest creation, if that is read and its pool is not in the list."""
        last = self.look.creations.find_newest(self.demand.claim) if self.look.creations else None
        return None if last is None or last.pool in {pool.name for pool in self.own} else last


def is_fresh_leader(pod: PodView, *, listed_at: float, now: float) -> bool:
    """Return whether a pod began to wait just before the pools were listed, or after that.

    The list does not have a pool that was created since. A time that cannot be true counts as none:
    the pod is answered.
    """
    waited = measure_seconds(pod.unschedulable_since, now)
    return waited is not None and waited < now - listed_at + FRESH_SECONDS
