"""Counts pools: how many a need has, how many it lacks, and which it has too many. Pure.

Which slice runs on which pool of its own workload does not matter. A pool counts for a need because
it fits, by what GKE lists of it, and never because of its name. It counts for one slice: one that
runs on it, else one of the need that asks most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from msgspec import Struct

from shared.model import labels
from shared.model.names import Slot
from shared.model.pools import PoolStatus
from shared.model.workloads import Taint
from shared.plan.scene import Asks, Need, Pod, Pool, PoolOperation, Scene, Word
from shared.plan.short import Trouble, find_trouble, has_failed, is_whole, lacks_nodes

K = TypeVar("K")
T = TypeVar("T")
_TAINTS_OF_SHAPES = {labels.TPU_RESOURCE, labels.GPU_RESOURCE, labels.ARCHITECTURE}
"""Kubernetes lets the pods tolerate them that ask for the accelerator or the architecture."""


def fits(pool: Pool, asks: Asks) -> bool:
    """Return whether the nodes of a pool accept pods that ask so."""
    return (
        pool.shape == asks.shape
        and all(pool.node_labels.get(key) == value for key, value in asks.labels)
        and all(_tolerates(asks, taint) for taint in pool.taints)
    )


def _tolerates(asks: Asks, taint: Taint) -> bool:
    """Return whether pods tolerate a taint. GKE does it for pods that select spot nodes."""
    spot = taint.key == labels.SPOT and (labels.SPOT, "true") in asks.labels
    usual = taint.key in _TAINTS_OF_SHAPES or taint.effect == "PreferNoSchedule"
    return usual or spot or any(each.covers(taint) for each in asks.tolerations)


class _Index:
    """Finds what a pool answers by the rarest label of each, so that none meets all pools."""

    def __init__(self, groups: Iterable[Asks]) -> None:
        distinct = list(dict.fromkeys(groups))
        self._by_label: dict[tuple[str, str] | None, list[Asks]] = {}
        if len(distinct) == 1:  # most workloads have one need
            self._by_label[None] = distinct
            return
        often = Counter(label for asks in distinct for label in asks.labels)
        for asks in distinct:
            rarest = min(asks.labels, key=lambda label: (often[label], label), default=None)
            self._by_label.setdefault(rarest, []).append(asks)

    def find(self, pool: Pool) -> Iterator[Asks]:
        own = () if self._by_label.keys() == {None} else pool.node_labels.items()
        for label in (None, *own):
            for asks in self._by_label.get(label, ()):
                if fits(pool, asks):
                    yield asks


class Slice(Struct, frozen=True, kw_only=True):
    """One slice with its live pods; of an elastic need all that run on no pool of others."""

    need: Need
    pods: tuple[Pod, ...] = ()
    places: frozenset[str] = frozenset()  # the pools of its owner on which its pods run
    outside: int = 0  # how many of its pods run elsewhere
    waiting_since: float | None = None
    """When its oldest pod that waits was created; None if none waits."""

    @property
    def mixed(self) -> bool:
        """Return whether its pods run on several pools, so that nothing is created for its sake."""
        return len(self.places) + bool(self.outside) > 1 and not self.need.elastic


class Assignment(Struct, frozen=True):
    """Which pool counts for which slice."""

    served: tuple[tuple[Slice, Pool], ...]
    unserved: tuple[Slice, ...]
    left: tuple[Pool, ...]


class Census:
    """What was counted of one scene: each part once, when it is first asked for."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._names = {pool.name for pool in scene.pools}
        self._needs = {need.key: need for need in scene.needs}

    @cached_property
    def by_slot(self) -> Mapping[Slot | None, Sequence[Pool]]:
        """The pools by their slot, of whichever need."""
        return _group(self.scene.pools, lambda pool: pool.owner.slot)

    @cached_property
    def creations(self) -> Mapping[tuple[str, Slot], Sequence[PoolOperation]]:
        """The creates of the last hour by need and slot."""
        creates = (each for each in self.scene.operations or () if each.creates)
        return _group(creates, lambda each: (each.need, each.slot))

    @cached_property
    def deletions(self) -> Sequence[PoolOperation]:
        """The deletes of the last hour."""
        return [each for each in self.scene.operations or () if not each.creates]

    @cached_property
    def users(self) -> Mapping[str, Sequence[Pod]]:
        """The pods on each pool, those that terminate too."""
        return _group((pod for pod in self.scene.pods if pod.pool), lambda pod: pod.pool)

    @cached_property
    def slices(self) -> Mapping[str, Sequence[Slice]]:
        """The live slices of each need."""
        none: dict[str, list[Slice]] = {key: [] for key in self._needs}
        return none | _group(self._slices.values(), lambda each: each.need.key)

    @cached_property
    def _slices(self) -> Mapping[tuple[str, str], Slice]:
        live = (pod for pod in self.scene.pods if pod.need in self._needs and not pod.terminating)
        own = (pod for pod in live if not (self._needs[pod.need].elastic and self._is_outside(pod)))
        groups = _group(own, lambda pod: (pod.need, pod.slice))
        return {key: self._build_slice(self._needs[key[0]], pods) for key, pods in groups.items()}

    def _is_outside(self, pod: Pod) -> bool:
        return bool(pod.pool) and pod.pool not in self._names

    def count_outside(self, need: Need) -> int:
        """Return how many pods of a need run on pools that are not its owner's."""
        live = (pod for pod in self.scene.pods if not pod.terminating)
        return sum(pod.need == need.key and self._is_outside(pod) for pod in live)

    def _build_slice(self, need: Need, pods: list[Pod]) -> Slice:
        return Slice(
            need=need,
            pods=tuple(pods),
            places=frozenset(pod.pool for pod in pods if pod.pool in self._names),
            outside=sum(map(self._is_outside, pods)),
            waiting_since=min((pod.created_at for pod in pods if pod.waits), default=None),
        )

    @cached_property
    def unbound(self) -> Mapping[Asks, float]:
        """What pods ask that run nowhere yet, with the creation of the youngest of them."""
        youngest: dict[Asks, float] = {}
        for pod in self.scene.pods:
            need = self._needs.get(pod.need)
            if need and not pod.pool and not pod.terminating:
                youngest[need.asks] = max(pod.created_at, youngest.get(need.asks, 0.0))
        return youngest

    @cached_property
    def answered(self) -> Mapping[str, frozenset[Asks]]:
        """What each pool answers of all that is asked."""
        index = _Index(need.asks for need in self.scene.needs)
        return {pool.name: frozenset(index.find(pool)) for pool in self.scene.pools}

    @cached_property
    def homes(self) -> Mapping[str, Need]:
        """The need by which a pool is judged: that it was made for, else the one that asks most."""
        by_asks = {need.asks: need for need in self.scene.needs}
        homes: dict[str, Need] = {}
        for pool in self.scene.pools:
            needs = list(filter(None, map(by_asks.get, self.answered[pool.name])))
            if needs:
                own = next((need for need in needs if need.key == pool.owner.need), None)
                homes[pool.name] = own or max(needs, key=lambda need: len(need.asks.labels))
        return homes

    def belongs(self, pool: Pool, need: Need) -> bool:
        """Return whether a pool is one of the tries for a need, by its label, else by its fit."""
        return pool.owner.need == need.key or self.homes.get(pool.name) is need

    @cached_property
    def _waiting(self) -> Mapping[Asks, float]:
        """What slices ask of which a pod waits and none runs, with the creation of the oldest.

        The pods of an elastic need wait for each of its pools, wherever others of them run.
        """
        oldest: dict[Asks, float] = {}
        for each in self._slices.values():
            since = each.waiting_since
            if since is not None and (each.need.elastic or not (each.places or each.outside)):
                asks = each.need.asks
                oldest[asks] = min(since, oldest.get(asks, since))
        return oldest

    def find_wait(self, pool: Pool) -> float | None:
        """Return when the oldest pod was created that waits for a pool; None if none does.

        Its slice is on that pool, or on none. Strangers on an elastic pool change nothing: its own
        pods wait for its further nodes.
        """
        users = {(pod.need, pod.slice) for pod in self.users.get(pool.name, ())}
        if pool.elastic or not users:
            matches = self.answered[pool.name] & self._waiting.keys()
            return min((self._waiting[asks] for asks in matches), default=None)
        only = self._slices.get(next(iter(users))) if len(users) == 1 else None
        if only is None or only.mixed or only.need.asks not in self.answered[pool.name]:
            return None
        return only.waiting_since

    @cached_property
    def mixed(self) -> frozenset[str]:
        """The pools on which a slice runs that runs on another one too."""
        slices = self._slices.values()
        return frozenset(name for each in slices if each.mixed for name in each.places)

    @cached_property
    def troubles(self) -> Mapping[str, Trouble]:
        """Why pools do not help."""
        return {pool.name: self._find_trouble(pool) for pool in self.scene.pools}

    def _find_trouble(self, pool: Pool) -> Trouble:
        home = self.homes.get(pool.name)
        if home is None:
            return Trouble.FAILED if has_failed(pool) else Trouble.NONE
        since, users = self.find_wait(pool), self.users.get(pool.name, ())
        lacks = lacks_nodes(pool) and (pool.autoscaled or since is None)
        if (home.elastic or lacks) and self._is_superseded(pool):
            return Trouble.SHORT
        return find_trouble(pool, home, since, users, self.scene)

    def _is_superseded(self, pool: Pool) -> bool:
        """Return whether a pool that lacks nodes has a successor, so that it is a record for good.

        GKE may try again for it, or no pod waits for it any more, as one runs on the successor.
        An elastic one keeps its nodes, and gets no more.
        """
        return any(
            each.owner.need == pool.owner.need
            and each.owner.attempt > pool.owner.attempt
            and each.status != PoolStatus.STOPPING
            for each in self.by_slot.get(pool.owner.slot, ())
        )

    @cached_property
    def taken(self) -> Mapping[str, Pool]:
        """By need, the one pool that only pods of others use and that is left out of the count.

        At most one is, in both functions alike, so that no stranger can make a workload buy twice.
        None is while a workload that uses it has a pool on its way.
        """
        taken: dict[str, Pool] = {}
        pools = [] if self.scene.takers_served else self.scene.pools
        for pool in sorted(pools, key=lambda pool: pool.name):
            users = self.users.get(pool.name, ())
            if not users or any(pod.need for pod in users) or not self.helps(pool):
                continue
            home = self.homes[pool.name]
            if not home.elastic:
                taken.setdefault(home.key, pool)
        return taken

    @cached_property
    def counted(self) -> Mapping[str, Pool]:
        """The pools that count, by name: they fit a need, and they help or are on their way."""
        pools = {pool.name: pool for pool in self.scene.pools if self.helps(pool)}
        for pool in self.taken.values():
            pools.pop(pool.name, None)
        return pools

    def helps(self, pool: Pool) -> bool:
        """Return whether a pool fits a need, and helps or is on its way."""
        fitting = pool.name in self.homes and pool.status != PoolStatus.STOPPING
        return fitting and not self.troubles[pool.name]

    @cached_property
    def most(self) -> Mapping[str, int]:
        """How many pools each need may use."""
        return {need.key: count_to_keep(self, need) for need in self.scene.needs}

    @cached_property
    def demanded(self) -> Assignment:
        """The counted pools for the slices that need one now."""
        return assign(self, self._bound(list_demands), list(self.counted.values()))

    @cached_property
    def kept(self) -> Assignment:
        """The counted pools for all slices that the workload may have, the best pools first."""
        best = sorted(self.counted.values(), key=self.rank, reverse=True)
        return assign(self, self._bound(list_kept), best)

    @cached_property
    def unmet(self) -> frozenset[Asks]:
        """What the spec asks of needs that have not all the pools that they may use.

        One that has lost hosts may not be enough: how long ago that was, each process remembers.
        """
        lacking = [want for want, pool in self.kept.served if pool.word == Word.LOST]
        return frozenset(want.need.asks for want in (*self.kept.unserved, *lacking))

    def _bound(self, lister: Callable[[Census, Need], list[Slice]]) -> list[Slice]:
        """Return the wants of all needs in their order, of each need at most what it may use."""
        wants: list[Slice] = []
        for need in self.scene.needs:
            own = sorted(lister(self, need), key=self._rank_want)
            wants += own[: self.most[need.key]]
        return sorted(wants, key=self._rank_want)

    def _rank_want(self, want: Slice) -> tuple[bool, bool, int]:
        """Return the order of wants: on a counted pool, on any, and those first that ask most."""
        runs = not self.counted.keys().isdisjoint(want.places)
        return not runs, not (want.places or want.outside), -len(want.need.asks.labels)

    def rank(self, pool: Pool) -> tuple[bool, bool, bool, int, int]:
        """Return the order of pools, those first that do not help, are not whole, have no pods."""
        slot = pool.owner.slot if isinstance(pool.owner.slot, int) else -1
        helps = not self.troubles[pool.name]
        return helps, is_whole(pool), pool.name in self.users, -slot, -pool.owner.attempt


def _group(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = {}
    for each in items:
        groups.setdefault(key(each), []).append(each)
    return groups


def count_to_keep(census: Census, need: Need) -> int:
    """Return how many pools the workload may use: its slices, less those that run elsewhere."""
    if need.elastic:
        return int(bool(need.nodes) or not need.part)
    elsewhere = sum(runs_elsewhere(census, each) for each in census.slices[need.key])
    return max(0, need.most - elsewhere)


def runs_elsewhere(census: Census, each: Slice) -> bool:
    """Return whether a slice runs with all of its hosts on pools that do not count."""
    bound = sum(bool(pod.pool) and pod.pool not in census.counted for pod in each.pods)
    return bound >= each.need.hosts


def list_demands(census: Census, need: Need) -> list[Slice]:
    """Return the slices that need a pool now: they run on a counted one, or a pod of them waits.

    A queued workload with quota has no pods yet: then it is each slice that its Workload admits.
    """
    if census.scene.queued:
        return [Slice(need=need)] * census.most[need.key]
    return [
        each
        for each in census.slices[need.key]
        if not census.counted.keys().isdisjoint(each.places) or _waits_for_pool(each)
    ]


def _waits_for_pool(each: Slice) -> bool:
    return each.waiting_since is not None and not (each.mixed or each.outside or each.need.never)


def list_kept(census: Census, need: Need) -> list[Slice]:
    """Return the slices that a workload may have: those that live, and what the spec adds."""
    slices = census.slices[need.key]
    live = [each for each in slices if need.elastic or not runs_elsewhere(census, each)]
    return live + [Slice(need=need)] * (census.most[need.key] - len(live))


def assign(census: Census, wants: Sequence[Slice], pools: Sequence[Pool]) -> Assignment:
    """Return which pool counts for which slice. Each pool counts for one.

    A slice takes the pool on which it runs, or one that was made for its need; what is left after
    that goes to whom it fits.
    """
    free, queues = {pool.name: pool for pool in pools}, _queue_pools(census, pools)

    def take(key: str, asks: Asks) -> Pool | None:
        queue = queues.get((key, asks), iter(()))
        return next((free.pop(each.name) for each in queue if each.name in free), None)

    chosen: list[Pool | None] = []
    for want in wants:
        place = free.pop(min(want.places & free.keys(), default=""), None)
        chosen.append(place or take(want.need.key, want.need.asks))
    pairs = [
        (want, pool or take("", want.need.asks)) for want, pool in zip(wants, chosen, strict=True)
    ]
    return Assignment(
        tuple((want, pool) for want, pool in pairs if pool is not None),
        tuple(want for want, pool in pairs if pool is None),
        tuple(free.values()),
    )


def _queue_pools(census: Census, pools: Sequence[Pool]) -> dict[tuple[str, Asks], Iterator[Pool]]:
    """Return the pools that fit what is asked, by the need that they were made for, and of any.

    Each queue is gone through once: a pool that was taken is never free again.
    """
    fitting: dict[tuple[str, Asks], list[Pool]] = {}
    for pool in pools:
        for asks in census.answered[pool.name]:
            fitting.setdefault(("", asks), []).append(pool)
            fitting.setdefault((pool.owner.need, asks), []).append(pool)
    return {key: iter(each) for key, each in fitting.items()}
