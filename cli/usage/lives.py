"""The pools and waiting slices that exist, with the times that are not added to the account yet."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cli.usage.hours import Account, Cause, Hours, Size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CLOSED_MAX = 10_000
"""So many pools that ended are remembered, because a later record may name them again."""
DOUBTED_MAX = 50
"""A pool that was used so often is no longer in doubt, so that its times need no more space."""
_KEY = ("cluster", "kind", "namespace", "name", "owner_uid", "slice")


@dataclass(slots=True, eq=False)
class Slice:
    """A slice that waits, or has a pool."""

    claim: Mapping[str, str]
    size: Size | None = None
    pools: dict[str, Pool] = field(default_factory=dict)
    waits_since: float | None = None
    """The time before it is added to the account."""
    cause: Cause = Cause.CREATION
    seen_at: float = 0.0
    """When a record last said that it waits."""
    swept: bool = False
    """The sweep whose end is not seen yet said so."""
    missed_at: float | None = None
    """When the first sweep ended that did not name it since then."""
    ended_at: float = 0.0
    """When its last wait ended."""
    in_gang: bool = False
    """Its workload is suspended until all slices have their pools. Sweeps do not name it."""


@dataclass(slots=True, eq=False)
class Pool:
    """A pool from its create to its delete. All times are in unix seconds, and 0 if unknown."""

    name: str
    owner: Slice
    size: Size | None
    opened_at: float
    since: float
    """The time before it is added to the account."""
    hours: Hours = Hours.STARTING
    used: bool = False
    made_at: float = 0.0
    """When GKE had created it."""
    creating_at: float = 0.0
    """When a record last said that GKE creates it."""
    named_at: float = 0.0
    """When a record last named it, after that of its create."""
    failed_at: float = 0.0
    """When its try failed. It may have been created empty, and be filled yet."""
    suspended_at: float = 0.0
    """When its workload was found suspended. Sweeps only count such pools."""
    used_at: float = 0.0
    """Since when its first pods run on it, as it seems."""
    beside_at: float = 0.0
    """Since when a leader waits although the pool runs."""
    proven: bool = False
    """A record named pods of its workload on it."""
    needless: bool = False
    """Its workload was over before a pod ran on it."""
    doubted: list[tuple[Hours, Size | None, float, float]] = field(default_factory=list)
    """Hours, size, begin and end of the times that are not added yet, because it is not sure that
    pods ran on it."""


@dataclass(slots=True)
class Lives:
    """What exists. Its size follows the live slices and pools."""

    account: Account
    slices: dict[tuple[str, ...], Slice] = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    closed: OrderedDict[str, None] = field(default_factory=OrderedDict)
    """The names of the last pools that ended."""

    def find_slice(self, claim: Mapping[str, str]) -> Slice:
        """Return the slice of a claim, which may be a new one."""
        key = tuple(str(claim.get(each) or "") for each in _KEY)
        found = self.slices.get(key)
        if found is None:
            found = self.slices[key] = Slice(dict(zip(_KEY, key, strict=True)))
        return found

    def list_waiting(self) -> list[Slice]:
        """Return the slices that wait."""
        return [each for each in self.slices.values() if each.waits_since is not None]

    def note_wait(self, waiting: Slice, at: float, cause: Cause | None, *, before: float = 0.0) -> None:
        """Note that a slice waits, and since so many seconds before if that is new."""
        if waiting.waits_since is None:
            waiting.waits_since, waiting.cause = at - before, Cause.QUEUE
        else:
            self.flush_wait(waiting, at)
        waiting.cause = cause or waiting.cause
        waiting.seen_at, waiting.missed_at = at, None

    def flush_wait(self, waiting: Slice, until: float, cause: Cause | None = None) -> None:
        """Add the wait of a slice until a time to the account."""
        since = until if waiting.waits_since is None else waiting.waits_since
        if until > since:
            self.account.add_wait(waiting.claim, waiting.size, cause or waiting.cause, since, until)
            waiting.waits_since = until

    def end_wait(self, waiting: Slice, at: float, *, runs: bool) -> None:
        """End the wait of a slice; if its pods run, they run on its newest pool."""
        if waiting.waits_since is None:
            return
        pool = self._find_starting(waiting) if runs else None
        at = pool.made_at if pool and pool.made_at >= waiting.seen_at else at
        self.flush_wait(waiting, at)
        waiting.waits_since, waiting.missed_at, waiting.ended_at = None, None, at
        waiting.swept = waiting.in_gang = False
        for each in waiting.pools.values():
            each.beside_at = 0.0
        if pool:
            self.turn(pool, Hours.USED, at)
        self._forget(waiting)

    def _find_starting(self, waiting: Slice) -> Pool | None:
        """Return the pool on which the pods of a slice run that waited until now.

        Without one of its own it is one of another slice of its workload.
        """
        uid, found = waiting.claim["owner_uid"], None
        for pool in waiting.pools.values() or self.pools.values():
            starting = pool.hours == Hours.STARTING and pool.creating_at <= pool.owner.seen_at
            if starting and pool.owner.claim["owner_uid"] == uid:
                found = pool
        return found

    def open(self, name: str, owner: Slice, at: float) -> None:
        """Let a pool exist. The hours of an earlier one, whose end no record tells, are unknown."""
        if name in self.pools:
            self.pools[name].hours = Hours.UNKNOWN
            self.close(self.pools[name], at)
        self.closed.pop(name, None)
        self.pools[name] = owner.pools[name] = Pool(name, owner, owner.size, opened_at=at, since=at)
        self.account.sizeless_pools += owner.size is None
        self.account.note_slice(owner.claim, owner.size, at)

    def turn(self, pool: Pool, hours: Hours, at: float) -> None:
        """Let the hours of a pool be of another kind from a time on."""
        self.flush(pool, at)
        if pool.used and len(pool.doubted) > DOUBTED_MAX:
            self._settle(pool)
        pool.beside_at = 0.0
        if hours == Hours.USED and not pool.used:
            pool.used_at = at
        pool.hours, pool.suspended_at, pool.needless = hours, 0.0, False
        pool.used = pool.used or hours == Hours.USED

    def resize(self, pool: Pool, size: Size | None, at: float) -> None:
        """Let a pool have another size from a time on."""
        self.flush(pool, at)
        pool.size = size

    def flush(self, pool: Pool, until: float) -> None:
        """Note the hours of a pool until a time. They are added when it is known if it was used."""
        if until > pool.since:
            pool.doubted.append((pool.hours, pool.size, pool.since, until))
            pool.since = until

    def _settle(self, pool: Pool) -> None:
        """Add the times of a pool to the account; all of them are wasted if no pod ran on it."""
        for hours, size, start, end in pool.doubted:
            told = hours if pool.hours != Hours.WASTED or hours == Hours.UNKNOWN else Hours.WASTED
            self.account.add_chips(pool.owner.claim, size, told, start, end)
        pool.doubted.clear()

    def unuse(self, pool: Pool) -> None:
        """Take back that pods ran on a pool, if no record named some."""
        if pool.proven:
            return
        pool.doubted = [(Hours.STARTING if each[0] == Hours.USED else each[0], *each[1:]) for each in pool.doubted]
        pool.hours, pool.used = Hours.STARTING, False

    def close(self, pool: Pool, at: float) -> None:
        """End a pool. If no pod ran on it, its hours are wasted."""
        self.flush(pool, at)
        if not pool.used and pool.hours != Hours.UNKNOWN:
            pool.hours = Hours.WASTED
        self._settle(pool)
        del self.pools[pool.name], pool.owner.pools[pool.name]
        self.remember(pool.name)
        self._forget(pool.owner)

    def remember(self, name: str) -> None:
        """Remember a pool that ended."""
        self.closed[name] = None
        if len(self.closed) > CLOSED_MAX:
            self.closed.popitem(last=False)

    def list_starting(self, owner: Slice) -> Iterator[Pool]:
        """Yield the pools of a slice that are starting, also if they end meanwhile."""
        yield from [each for each in owner.pools.values() if each.hours == Hours.STARTING]

    def _forget(self, found: Slice) -> None:
        """Keep nothing of a slice that has no pool and does not wait."""
        if not found.pools and found.waits_since is None:
            self.slices.pop(tuple(found.claim.values()), None)

    def cut(self, start: float, end: float) -> None:
        """Count a time as unknown for everything that is there."""
        self.account.add_gap(start, end)
        for pool in self.pools.values():
            hours = pool.hours
            self.flush(pool, start)
            pool.hours = Hours.UNKNOWN
            self.flush(pool, end)
            pool.hours = hours
        for each in self.list_waiting():
            self.flush_wait(each, start)
            self.flush_wait(each, end, Cause.UNKNOWN)

    def conclude(self, now: float) -> Account:
        """Return the account as if everything ended now, which it does."""
        for each in self.list_waiting():
            if each.missed_at is not None:
                self.end_wait(each, each.missed_at, runs=True)
            self.flush_wait(each, now)
        for pool in self.pools.values():
            self.flush(pool, now)
            self._settle(pool)
        return self.account
