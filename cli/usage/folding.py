"""Turns the functions' log records into times of pools and slices. Pure.

A record is an observation. Sweeps log only what changes or waits, so that a sweep without errors
does not name a slice is an observation too: its leader pod has a node. Such a change counts at the
middle between the two sweeps, because the records do not tell the moment. So its error is at most
half a minute, in both directions alike. A record of a message counts at its own time.

A pool counts from the record of its create to that of its delete. For the time in which a pool's
state follows from no record, the hours are unknown.
"""

from __future__ import annotations

import copy
import re
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cli.usage.hours import HOUR_SECONDS, Account, Cause, Hours, Size, find_cause, read_size
from shared.core.decisions import FAILURE_REASONS, Reason, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

GAP_SECONDS = 900.0
"""Without the end of a sweep for so long, records are missing: it runs each minute."""
CLOSED_MAX = 10_000
"""So many pools that ended are remembered, because a later record may name them again."""
_THERE = frozenset(
    {
        Reason.POOL_IN_PROGRESS,
        Reason.POOL_IN_PROGRESS_DIFFERS,
        Reason.POOL_SERVES,
        Reason.POOL_GROWS,
        Reason.POD_UNPLACED,
        Reason.POOL_DEGRADED,
    }
)
"""A leader that is answered with one of them waits beside a pool of its slice."""
_REMOVED = re.compile(r"\((\d+) nodes, \d+ needed\): (.+)$")
_GIVEN_UP = re.compile(r" gives up (\d+) nodes ")
_BOUND = frozenset({Reason.DEMAND_SCHEDULED, Reason.DEMAND_NOMINATED})
_UNTOLD = frozenset({Reason.POOL_IN_PROGRESS, Reason.NOT_A_LEADER, Reason.DEMAND_NOT_UNSCHEDULABLE})
"""With NOTHING they do not say that a slice has stopped to wait."""
_OTHERS = frozenset({Reason.POOL_TAKEN, Reason.POOL_IN_USE, Reason.POOL_LENT})
"""With one of them, pods of others run on the pool."""
_GONE = frozenset({Reason.POOL_GONE, Reason.POOL_STOPPING})


@dataclass(slots=True, eq=False)
class _Slice:
    claim: Mapping[str, str]
    size: Size | None = None
    pools: dict[str, _Pool] = field(default_factory=dict)
    waits_since: float | None = None
    cause: Cause = Cause.CREATION
    seen_at: float = 0.0
    """When a record last said that it waits."""
    swept: bool = False
    """The sweep whose end is not seen yet said so."""
    missed_at: float | None = None
    """When the first sweep ended that did not name it since then."""
    in_gang: bool = False
    """Its workload is suspended until all slices have their pools. Sweeps do not name it."""


@dataclass(slots=True, eq=False)
class _Pool:
    name: str
    owner: _Slice
    size: Size | None
    hours: Hours
    since: float
    """Since when these hours are not added yet."""
    used: bool = False
    made_at: float = 0.0
    """When GKE had created it; 0 if no record says it."""
    creating_at: float = 0.0
    """When a record last said that GKE creates it."""
    opened_at: float = 0.0
    named_at: float = 0.0
    """When a record last named it, after that of its create."""
    suspended_at: float | None = None
    """When its workload was found suspended. Sweeps only count such pools."""


class UsageFold:
    """Reads records in the order of time. Its size follows the pools and slices that exist.

    Args:
        begin: unix seconds; hours before it do not count, but records before it are of use.
        group_of: returns the group of a claim and a size.
    """

    def __init__(self, begin: float, group_of: Callable[[Mapping[str, str], Size | None], str]) -> None:
        self._account = Account(begin, group_of)
        self._slices: dict[tuple[str, ...], _Slice] = {}
        self._pools: dict[str, _Pool] = {}
        self._closed: OrderedDict[str, None] = OrderedDict()
        self._clean_at = begin
        """When the last sweep without errors ended."""
        self._swept_at = begin
        self._failed = 0
        """Leaders for which the sweep that runs has found a failed creation."""

    def see(self, at: float, said: Mapping[str, Any]) -> None:
        """Read one record, which was written at a time in unix seconds."""
        name, reason = str(said.get("pool") or ""), str(said.get("reason") or "")
        if said.get("message") == "swept":
            self._see_sweep(at, said.get("reasons") or {}, said.get("counts") or {})
        elif "decision" not in said:
            self._see_marks(at, name, said)
        elif reason == Reason.WORKLOAD_RESUMED:
            self._see_resumed(at, said)
        elif name and str(said.get("subject") or "node pool").startswith("node pool"):
            self._see_pool(at, name, said)
        elif isinstance(claim := said.get("claim"), dict) and claim.get("slice"):
            self._see_leader(at, self._find_slice(claim), name, said)

    def total(self, now: float) -> Account:
        """Return the account as if everything that is open ended now; the fold may go on."""
        end = copy.deepcopy(self)
        if now - end._swept_at > GAP_SECONDS:
            end._cut(end._swept_at, now)
        for each in [each for each in end._slices.values() if each.missed_at is not None]:
            end._end_wait(each, each.missed_at or now, runs=True)
        for each in end._slices.values():
            if each.waits_since is not None:
                end._account.add_wait(each.claim, each.size, each.cause, each.waits_since, now)
        for pool in end._pools.values():
            end._flush(pool, now)
        return end._account

    def _find_slice(self, claim: Mapping[str, str]) -> _Slice:
        key = tuple(str(claim.get(each) or "") for each in ("cluster", "kind", "namespace", "name", "owner_uid"))
        key += (str(claim["slice"]),)
        found = self._slices.get(key)
        if found is None:
            found = self._slices[key] = _Slice({str(name): str(value) for name, value in claim.items()})
        return found

    # --- waiting slices ---------------------------------------------------------------------------

    def _see_leader(self, at: float, slice_: _Slice, name: str, said: Mapping[str, Any]) -> None:
        """Read what was answered to the leader pod of a slice, or for a slice without pods."""
        decision, reason, swept = said["decision"], str(said.get("reason")), said.get("function") == "sweep"
        slice_.size = read_size(said) or slice_.size
        if decision == Verdict.NOTHING:
            if slice_.waits_since is not None and reason not in _UNTOLD:
                self._end_wait(slice_, at, runs=reason in _BOUND)
            return
        if decision == "none" and slice_.waits_since is None and find_cause(said) != Cause.QUEUE:
            return  # an error about a slice of which nothing else is known
        slice_.in_gang = "attempt" in said and not str(said.get("subject") or "").startswith("Pod ")
        waited = said.get("waited_seconds")
        before = float(waited) if decision == Verdict.CREATE and isinstance(waited, int | float) else 0.0
        self._note_wait(slice_, at, before, None if decision == "none" else find_cause(said))
        slice_.swept = slice_.swept or swept
        self._failed += swept and reason == Reason.POOL_FAILED
        if said.get("failure"):
            self._see_failed(slice_, name, at, said)
        elif name and "attempt" in said:
            self._see_other_pools(slice_, name, at, swept=swept)
        if decision == Verdict.CREATE:
            self._share_nodes(slice_, at)
            self._open(name, slice_, at)
        elif name in self._pools:
            self._pools[name].named_at = at if reason in _THERE else self._pools[name].named_at
            self._see_waiting_pool(at, self._pools[name], said, swept=swept)
        elif reason in _THERE and name not in self._closed and decision != "none":
            self._open(name, slice_, at)

    def _see_failed(self, slice_: _Slice, name: str, at: float, said: Mapping[str, Any]) -> None:
        """End the pools of a slice whose creation failed.

        One that GKE has created empty stays while its slice pauses, and may get its nodes then.
        """
        creates, swept = said["decision"] == Verdict.CREATE, said.get("function") == "sweep"
        for each in [each for each in slice_.pools.values() if each.hours == Hours.STARTING]:
            made = each.made_at or max(each.opened_at, each.creating_at) < self._clean_at
            if (each.name != name) if creates else not made:
                self._close(each, self._observe(each, at, swept=swept))

    def _share_nodes(self, slice_: _Slice, at: float) -> None:
        """Take the nodes of a new elastic pool from the one beside it, which gave up so many."""
        others = [each for each in slice_.pools.values() if each.hours == Hours.USED and each.size]
        if slice_.size and slice_.size.elastic and len(others) == 1 and (size := others[0].size):
            self._flush(others[0], at)
            others[0].size = replace(size, nodes=max(0, size.nodes - slice_.size.nodes))

    def _see_other_pools(self, slice_: _Slice, name: str, at: float, *, swept: bool) -> None:
        """Find the pools of a slice that others took, because it gets another one without failure."""
        for each in slice_.pools.values():
            if each.name != name and each.hours == Hours.STARTING and each.creating_at < self._clean_at:
                self._turn(each, Hours.USED, each.made_at or self._observe(each, at, swept=swept))

    def _note_wait(self, slice_: _Slice, at: float, before: float, cause: Cause | None) -> None:
        if slice_.waits_since is None:
            slice_.waits_since = at - before
            slice_.cause = cause or Cause.QUEUE
        else:
            self._account.add_wait(slice_.claim, slice_.size, slice_.cause, slice_.waits_since, at)
            slice_.waits_since = max(at, slice_.waits_since)
        slice_.cause = cause or slice_.cause
        slice_.seen_at, slice_.missed_at = at, None

    def _see_waiting_pool(self, at: float, pool: _Pool, said: Mapping[str, Any], *, swept: bool) -> None:
        """Read what an answer to a leader says of the pool that the answer is about."""
        decision, reason, size = said["decision"], said.get("reason"), read_size(said)
        if decision == Verdict.DELETE or reason in _GONE:
            self._close(pool, self._observe(pool, at, swept=swept))
        elif reason in _OTHERS:
            self._turn(pool, Hours.USED, self._observe(pool, at, swept=swept))
        elif decision == Verdict.RESIZE:
            self._flush(pool, at)
            pool.size = size or pool.size
        elif reason in _THERE and pool.hours != Hours.STARTING and not (pool.size and pool.size.elastic):
            self._turn(pool, Hours.STARTING, self._observe(pool, at, swept=swept))

    def _end_wait(self, slice_: _Slice, at: float, *, runs: bool) -> None:
        """End the wait of a slice; if its pods run, they run on its newest pool."""
        since = slice_.waits_since
        if since is None:
            return
        pool = self._find_starting(slice_) if runs else None
        at = max(since, pool.made_at if pool and pool.made_at >= slice_.seen_at else at)
        self._account.add_wait(slice_.claim, slice_.size, slice_.cause, since, at)
        slice_.waits_since = slice_.missed_at = None
        slice_.swept = slice_.in_gang = False
        if pool:
            self._turn(pool, Hours.USED, at)
        self._forget(slice_)

    def _find_starting(self, slice_: _Slice) -> _Pool | None:
        """Return the pool on which the pods of a slice run that waited until now.

        Without one of its own it is one of another slice of its workload.
        """
        uid, found = slice_.claim.get("owner_uid"), None
        for pool in slice_.pools.values() or self._pools.values():
            starting = pool.hours == Hours.STARTING and pool.creating_at <= pool.owner.seen_at
            if starting and pool.owner.claim.get("owner_uid") == uid:
                found = pool
        return found

    def _see_resumed(self, at: float, said: Mapping[str, Any]) -> None:
        """Let the slices of a workload run that was resumed with the pools of all of them."""
        uid = (said.get("claim") or {}).get("owner_uid")
        for each in [each for each in self._slices.values() if each.claim.get("owner_uid") == uid]:
            self._end_wait(each, at, runs=True)
            for pool in each.pools.values():
                if pool.hours in (Hours.STARTING, Hours.IDLE):
                    self._turn(pool, Hours.USED, at)

    # --- pools ------------------------------------------------------------------------------------

    def _open(self, name: str, slice_: _Slice, at: float) -> None:
        if name in self._pools:
            self._turn(self._pools[name], Hours.UNKNOWN, self._pools[name].since)
            self._close(self._pools[name], at)
        self._closed.pop(name, None)
        made = _Pool(name, slice_, slice_.size, Hours.STARTING, at, opened_at=at)
        self._pools[name] = slice_.pools[name] = made
        if slice_.size is None:
            self._account.sizeless_pools += 1

    def _see_pool(self, at: float, name: str, said: Mapping[str, Any]) -> None:
        """Read what was decided about one pool."""
        decision, reason, pool = said["decision"], str(said.get("reason")), self._pools.get(name)
        if pool is None:
            known = name in self._closed or reason not in (Reason.POOL_CREATED, *FAILURE_REASONS)
            if decision == Verdict.DELETE and name not in self._closed:
                self._account.sizeless_pools += 1
                self._remember(name)
            elif not known and reason == Reason.POOL_CREATED and isinstance(said.get("claim"), dict):
                self._open(name, self._find_slice(said["claim"]), at)
            return
        pool.named_at = at
        observed = self._observe(pool, at, swept=said.get("function") == "sweep")
        if decision == Verdict.DELETE:
            if pool.hours == Hours.USED:
                self._turn(pool, Hours.IDLE, observed)
            self._close(pool, observed if reason in FAILURE_REASONS and not pool.used else at)
        elif reason in _GONE:
            self._close(pool, observed)
        elif reason == Reason.POOL_CREATED:
            pool.made_at = pool.made_at or at
        elif reason == Reason.POOL_IN_PROGRESS:
            pool.creating_at = at
        elif reason == Reason.POOL_FAILED and pool.hours == Hours.STARTING:
            self._close(pool, observed)
        elif reason == Reason.POOL_SHRINKS:
            self._flush(pool, at)
            pool.size = pool.size and shrink(pool.size, str(said.get("message")))
        else:
            self._see_end(at, pool, reason, observed)

    def _see_end(self, at: float, pool: _Pool, reason: str, observed: float) -> None:
        """Read about a pool whose workload may be over or suspended."""
        if reason in (Reason.GRACE_NOT_OVER, Reason.POOL_WARM):
            self._end_wait(pool.owner, at, runs=False)
            if pool.hours == Hours.USED:
                self._turn(pool, Hours.IDLE, at)
            pool.suspended_at = at if reason == Reason.GRACE_NOT_OVER else None
        elif (reason == Reason.OWNER_LIVE and pool.hours == Hours.IDLE) or (
            reason in _OTHERS and pool.hours != Hours.USED
        ):
            self._turn(pool, Hours.USED, observed)

    def _see_marks(self, at: float, name: str, said: Mapping[str, Any]) -> None:
        """Read since when a pool that stays for the next workload is idle, or that it is used."""
        pool, state, since = self._pools.get(name), said.get("state"), said.get("idle_since")
        if pool is None:
            return
        if state == "in use":
            self._turn(pool, Hours.USED, self._observe(pool, at, swept=True))
        elif state == "idle" and pool.hours == Hours.USED:
            self._turn(pool, Hours.IDLE, self._observe(pool, float(since or at), swept=True))

    def _turn(self, pool: _Pool, hours: Hours, at: float) -> None:
        self._flush(pool, at)
        pool.hours, pool.suspended_at = hours, None
        pool.used = pool.used or hours == Hours.USED

    def _flush(self, pool: _Pool, until: float) -> None:
        if until > pool.since:
            self._account.add_chips(pool.owner.claim, pool.size, pool.hours, pool.since, until)
            pool.since = until

    def _close(self, pool: _Pool, at: float) -> None:
        if pool.hours == Hours.STARTING and not pool.used:
            pool.hours = Hours.WASTED
        self._flush(pool, at)
        del self._pools[pool.name], pool.owner.pools[pool.name]
        self._remember(pool.name)
        self._forget(pool.owner)

    def _remember(self, name: str) -> None:
        self._closed[name] = None
        if len(self._closed) > CLOSED_MAX:
            self._closed.popitem(last=False)

    def _forget(self, slice_: _Slice) -> None:
        """Keep nothing of a slice that has no pool and does not wait."""
        if not slice_.pools and slice_.waits_since is None:
            claim = slice_.claim
            keys = ("cluster", "kind", "namespace", "name", "owner_uid", "slice")
            self._slices.pop(tuple(claim.get(each, "") for each in keys), None)

    def _observe(self, pool: _Pool, at: float, *, swept: bool) -> float:
        """Return when something happened that a record tells: since the sweep before, for a sweep's."""
        return (max(self._clean_at, pool.since) + at) / 2 if swept else at

    # --- sweeps -----------------------------------------------------------------------------------

    def _see_sweep(self, at: float, reasons: Mapping[str, int], counts: Mapping[str, int]) -> None:
        """Read the end of a sweep: what it did not name has no waiting leader pod any more."""
        if at - self._swept_at > GAP_SECONDS:
            self._cut(self._swept_at, at)
            self._clean_at = at
        self._swept_at = at
        if counts.get("errors") or counts.get("left"):
            for each in self._slices.values():
                each.swept = False
            self._failed = 0
            return
        self._see_lost(at, reasons, counts.get("keep", 0))
        self._see_unnamed(at, reasons.get(Reason.POOL_SERVES, 0))
        self._see_suspended(at, reasons.get(Reason.GRACE_NOT_OVER, 0))
        self._see_made(at)
        nameless = reasons.get(Reason.OWNER_LIVE, 0) - len(self._pools)
        if nameless > 0 and at > self._account.begin:
            self._account.nameless_hours += nameless * (at - max(self._clean_at, self._account.begin)) / HOUR_SECONDS
        self._clean_at = at

    def _see_lost(self, at: float, reasons: Mapping[str, int], keeps: int) -> None:
        """Find pools that ended without a record: the sweep kept fewer than there should be.

        If it kept none, all have ended. Else those have that no record but the one of their create
        has named, if they are not too many.
        """
        failed = max(0, reasons.get(Reason.POOL_FAILED, 0) - self._failed)
        kept, self._failed = keeps - reasons.get(Reason.POOL_SERVES, 0) - failed, 0
        old = [each for each in self._pools.values() if each.opened_at < self._clean_at]
        silent = [each for each in old if each.named_at <= self._clean_at]
        lost = len(silent) - max(0, kept)
        if lost <= 0:
            return
        doubtful = silent if kept <= 0 else [each for each in silent if not each.named_at]
        for each in doubtful if len(doubtful) <= lost else ():
            each.hours = each.hours if each.named_at else Hours.UNKNOWN
            self._close(each, self._observe(each, at, swept=True))
            lost -= 1
        self._account.endless_hours += lost * max(0.0, at - max(self._clean_at, self._account.begin)) / HOUR_SECONDS

    def _see_unnamed(self, at: float, serving: int) -> None:
        """End the waits of slices that the sweep did not name.

        A leader beside a running pool is only counted. If that may be one of several, nothing
        follows for them.
        """
        unnamed = []
        for each in [each for each in self._slices.values() if each.waits_since is not None]:
            if each.swept or each.in_gang:
                each.swept, each.missed_at = False, None
            else:
                unnamed.append(each)
        beside = [each for each in unnamed if each.pools]
        for each in unnamed:
            if serving and each.pools:
                if serving >= len(beside):
                    each.seen_at, each.missed_at = at, None
            elif each.missed_at is None and each.seen_at > self._clean_at:
                each.missed_at = at  # the sweep may have begun before that record
            else:
                self._end_wait(each, (each.seen_at + (each.missed_at or at)) / 2, runs=True)

    def _see_made(self, at: float) -> None:
        """Find the pools that GKE has created meanwhile, and for which no leader waits."""
        for pool in list(self._pools.values()):
            begun = max(pool.creating_at, pool.made_at)
            waits = pool.owner.waits_since is not None or pool.suspended_at is not None
            if pool.hours == Hours.STARTING and begun and not waits and pool.creating_at < at:
                made = pool.made_at if pool.made_at >= pool.creating_at else (pool.creating_at + at) / 2
                self._turn(pool, Hours.USED, made)

    def _see_suspended(self, at: float, waiting: int) -> None:
        """Find the pools in their grace whose workloads were resumed, which no record names."""
        known = [each for each in self._pools.values() if (each.suspended_at or at) < self._clean_at]
        if len(known) <= waiting:
            return
        for pool in known:
            since = pool.suspended_at
            if pool.hours == Hours.STARTING:
                pool.suspended_at = since if waiting else None
                continue
            self._turn(pool, Hours.UNKNOWN if waiting else Hours.USED, self._observe(pool, at, swept=True))
            pool.suspended_at = since if waiting else None

    def _cut(self, start: float, end: float) -> None:
        """Count a time without sweeps as unknown for everything that was there."""
        self._account.add_gap(start, end)
        for pool in self._pools.values():
            hours = pool.hours
            self._flush(pool, start)
            pool.hours = Hours.UNKNOWN
            self._flush(pool, end)
            pool.hours = hours
        for each in self._slices.values():
            if each.waits_since is not None:
                self._account.add_wait(each.claim, each.size, each.cause, each.waits_since, start)
                self._account.add_wait(each.claim, each.size, Cause.UNKNOWN, max(start, each.waits_since), end)
                each.waits_since = end


def shrink(size: Size, message: str) -> Size | None:
    """Return the size that a pool has after some of its nodes were removed; None if unknown.

    Only the message of the record tells it (`shared.core.decide.elastic_sizes`).
    """
    removed, given_up = _REMOVED.search(message), _GIVEN_UP.search(message)
    if removed:
        return replace(size, nodes=int(removed[1]) - len(removed[2].split(", ")))
    return replace(size, nodes=max(0, size.nodes - int(given_up[1]))) if given_up else None


def fold(records: Iterable[tuple[float, Mapping[str, Any]]], into: UsageFold) -> UsageFold:
    """Return a fold that has read records, each with its time, in order."""
    for at, said in records:
        into.see(at, said)
    return into
