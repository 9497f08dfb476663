"""Turns the functions' log records into times of pools and slices. Pure.

A record is an observation. Sweeps log only what changes or waits, so that a sweep without errors
does not name a slice is an observation too: its leader pod has a node. Such a change counts at the
middle between the two sweeps, because the records do not tell the moment. So its error is at most
half a minute, in both directions alike. A record of a message counts at its own time.

A pool counts from the record of its create to that of its delete. If its state follows from no
record, the hours are unknown.
"""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cli.usage.hours import HOUR_SECONDS, Account, Cause, Hours, Size, find_cause, read_size
from cli.usage.lives import Lives
from shared.model.decisions import FAILURE_REASONS, Reason, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from cli.usage.lives import Pool, Slice

FILLING_DOUBT_SECONDS = 300.0
"""A pool that seems to be used for less, and has no nodes then, was not used: the pod was only
absent for a while."""
LEFT_SECONDS = 120.0
"""A slice that stopped to wait so long before its pool was made runs elsewhere, or is over."""
STAYED_SECONDS = 900.0
"""A pool that stays for so long all the same is used: its workload needs it."""
SURPLUS_DOUBT_SECONDS = 3600.0
"""A pool that its workload does not need was not used if it seems to be used for less. The slice
ran on another pool. Of 41 such pools of the simulator 34 were never used."""
GAP_SECONDS = 900.0
"""Without the end of a sweep for so long, records are missing: it runs each minute."""
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
_RUNS = frozenset({Reason.POOL_SERVES, Reason.POD_UNPLACED})
"""With one of them a leader waits beside a pool that runs. Other pods may run there."""
_BOUND = frozenset({Reason.DEMAND_SCHEDULED, Reason.DEMAND_NOMINATED})
_UNTOLD = frozenset({Reason.POOL_IN_PROGRESS, Reason.NOT_A_LEADER, Reason.DEMAND_NOT_UNSCHEDULABLE})
"""With NOTHING they do not say that a slice has stopped to wait."""
_OTHERS = frozenset({Reason.POOL_TAKEN, Reason.POOL_IN_USE, Reason.POOL_LENT})
"""With one of them, pods of others run on the pool."""
_OVER = frozenset({Reason.GRACE_NOT_OVER, Reason.POOL_WARM, Reason.MODE_REPORT_ONLY, Reason.GKE_BUSY})
"""A pool that is kept with one of them is needed by no pod."""
_GONE = frozenset({Reason.POOL_GONE, Reason.POOL_STOPPING})
_NO_NODE = re.compile(r": 0 of \d+ nodes exist")
"""What a record says of a pool that has lost all of its nodes (`shared.core.decide.pool_use`)."""
_SOME_NODES = re.compile(r": [1-9]\d* of \d+ nodes exist")
"""Other pods of the slice run on these nodes."""
_REMOVED = re.compile(r"\((\d+) nodes, \d+ needed\): (.+)$")
_GIVEN_UP = re.compile(r" gives up (\d+) nodes ")


class UsageFold:
    """Reads records in the order of time. Its size follows the pools and slices that exist.

    Args:
        begin: unix seconds; hours before it do not count, but records before it are of use.
        group_of: returns the group of a claim and a size.
        clusters: only their hours are added up; empty: those of all. Records of all are read in any
            case, because a sweep counts the pools of all.
    """

    def __init__(
        self,
        begin: float,
        group_of: Callable[[Mapping[str, str], Size | None], str],
        clusters: Collection[str] = (),
    ) -> None:
        self._lives = Lives(Account(begin, group_of, clusters))
        self._clean_at = self._swept_at = begin
        """When the last sweep without errors ended, and the last one."""
        self._failed = 0
        """Leaders for which the sweep that runs has found a failed creation."""

    def see(self, at: float, record: Mapping[str, Any]) -> None:
        """Read one record, which was written at a time in unix seconds."""
        name, claim = str(record.get("pool") or ""), record.get("claim")
        if record.get("message") == "swept":
            self._see_sweep(at, record.get("reasons") or {}, record.get("counts") or {})
        elif "decision" not in record:
            self._see_marks(at, name, record)
        elif name and str(record.get("subject") or "node pool").startswith("node pool"):
            self._see_pool(at, name, record)
        elif isinstance(claim, dict) and claim.get("slice"):
            self._see_leader(at, self._lives.find_slice(claim), name, record)

    @property
    def size(self) -> int:
        """Return the number of pools and slices that it remembers."""
        return len(self._lives.slices) + len(self._lives.pools)

    def total(self, now: float) -> Account:
        """Return the account as if everything that is open ended now; the fold goes on."""
        lives = copy.deepcopy(self._lives)
        if now - self._swept_at > GAP_SECONDS:
            lives.cut(self._swept_at, now)
        return lives.conclude(now)

    # --- what was answered to leaders -------------------------------------------------------------

    def _see_leader(self, at: float, asking: Slice, name: str, record: Mapping[str, Any]) -> None:
        """Read what was answered to the leader pod of a slice, or for a slice without pods."""
        decision, reason, swept = record["decision"], record.get("reason"), _is_swept(record)
        asking.size = read_size(record) or asking.size
        cause = None if decision == "none" else find_cause(record)
        if decision == Verdict.NOTHING:
            if reason not in _UNTOLD:
                self._lives.end_wait(asking, at, runs=reason in _BOUND)
            return
        if cause is None and asking.waits_since is None and find_cause(record) != Cause.QUEUE:
            return  # an error about a slice of which nothing else is known
        asking.in_gang = "attempt" in record and not str(record.get("subject") or "").startswith("Pod ")
        waited = record.get("waited_seconds") if decision == Verdict.CREATE else 0.0
        self._lives.note_wait(asking, at, cause, before=waited if isinstance(waited, int | float) else 0.0)
        asking.swept = asking.swept or swept
        self._failed += swept and reason == Reason.POOL_FAILED
        if record.get("failure"):
            self._see_failed(at, asking, name, record)
        elif name and "attempt" in record:
            self._see_taken(at, asking, name, swept=swept)
        pool = self._lives.pools.get(name)
        if decision == Verdict.CREATE:
            self._lives.open(name, asking, at)
        elif pool:
            self._see_waiting_pool(at, pool, record)
        elif reason in _THERE and name not in self._lives.closed:
            self._lives.open(name, asking, at)

    def _see_failed(self, at: float, asking: Slice, name: str, record: Mapping[str, Any]) -> None:
        """End the pools of a slice whose creation failed, if another one follows now."""
        for pool in self._lives.list_starting(asking):
            failed_at = pool.failed_at or self._observe(pool, at, swept=_is_swept(record))
            if record["decision"] != Verdict.CREATE:
                pool.failed_at = failed_at
            elif pool.name != name:
                self._lives.close(pool, at if pool.made_at else failed_at)  # an empty pool goes only now

    def _see_taken(self, at: float, asking: Slice, name: str, *, swept: bool) -> None:
        """Find the pools of a slice that others took: it gets another one without a failure."""
        for pool in self._lives.list_starting(asking):
            if pool.name != name and pool.creating_at < self._clean_at:
                self._lives.turn(pool, Hours.USED, pool.made_at or self._observe(pool, at, swept=swept))

    def _see_waiting_pool(self, at: float, pool: Pool, record: Mapping[str, Any]) -> None:
        """Read what an answer to a leader says of the pool that the answer is about."""
        reason, observed = record.get("reason"), self._observe(pool, at, swept=_is_swept(record))
        pool.named_at = at if reason in _THERE else pool.named_at
        if record["decision"] == Verdict.DELETE or reason in _GONE:
            self._lives.close(pool, observed)
        elif reason in _OTHERS:
            self._lives.turn(pool, Hours.USED, observed)
        elif record["decision"] == Verdict.RESIZE:
            self._lives.resize(pool, read_size(record) or pool.size, at)
        elif reason in _RUNS and pool.hours == Hours.STARTING and _SOME_NODES.search(str(record.get("message"))):
            self._lives.turn(pool, Hours.USED, observed)
        elif reason in _RUNS and pool.hours == Hours.USED:
            pool.beside_at = pool.beside_at or observed
            if (pool.size and pool.size.nodes == 1) or _NO_NODE.search(str(record.get("message"))):
                self._lives.turn(pool, Hours.STARTING, pool.beside_at)
        elif reason in _THERE and pool.hours != Hours.STARTING and not (pool.size and pool.size.elastic):
            self._lives.turn(pool, Hours.STARTING, observed)
            if reason == Reason.POOL_IN_PROGRESS and observed - pool.used_at < FILLING_DOUBT_SECONDS:
                self._lives.unuse(pool)  # its nodes have not come yet, and no pod ran on it

    # --- what was decided about pools -------------------------------------------------------------

    def _see_pool(self, at: float, name: str, record: Mapping[str, Any]) -> None:
        """Read what was decided about one pool."""
        decision, reason, pool = record["decision"], record.get("reason"), self._lives.pools.get(name)
        if pool is None:
            self._see_unknown_pool(at, name, record)
            return
        pool.named_at = at
        pool.proven = pool.proven or reason == Reason.PODS_STILL_BOUND
        observed = self._observe(pool, at, swept=_is_swept(record))
        if decision == Verdict.DELETE:
            if reason == Reason.POOL_SURPLUS and at - pool.used_at < SURPLUS_DOUBT_SECONDS:
                self._lives.unuse(pool)
            if pool.hours == Hours.USED:
                self._lives.turn(pool, Hours.IDLE, observed)
            failed = reason in FAILURE_REASONS and not (pool.used or pool.made_at)
            self._lives.close(pool, observed if failed else at)
        elif reason in _GONE or (reason == Reason.POOL_FAILED and pool.hours == Hours.STARTING):
            self._lives.close(pool, observed)
        elif reason == Reason.POOL_CREATED:
            pool.made_at = pool.made_at or at
        elif reason == Reason.POOL_IN_PROGRESS:
            pool.creating_at = at
        elif reason == Reason.POOL_SHRINKS:
            self._lives.resize(pool, shrink(pool.size, str(record.get("message"))), at)
        else:
            self._see_end(at, pool, str(reason), observed)

    def _see_unknown_pool(self, at: float, name: str, record: Mapping[str, Any]) -> None:
        """Note a pool whose create no record tells."""
        claim = record.get("claim")
        if name in self._lives.closed:
            return
        if record["decision"] == Verdict.DELETE:
            self._lives.account.sizeless_pools += 1
            self._lives.remember(name)
        elif record.get("reason") == Reason.POOL_CREATED and isinstance(claim, dict):
            self._lives.open(name, self._lives.find_slice(claim), at)

    def _see_end(self, at: float, pool: Pool, reason: str, observed: float) -> None:
        """Read about a pool whose workload may be over or suspended."""
        if reason in _OVER:
            self._lives.end_wait(pool.owner, at, runs=False)
            if pool.hours == Hours.USED:
                self._lives.turn(pool, Hours.IDLE, at)
            pool.needless = not pool.used
            pool.suspended_at = at if reason == Reason.GRACE_NOT_OVER else 0.0
        elif (
            reason in _OTHERS
            or (reason == Reason.PODS_STILL_BOUND and pool.hours == Hours.STARTING)
            or (reason == Reason.OWNER_LIVE and pool.hours == Hours.IDLE)
        ):
            self._lives.turn(pool, Hours.USED, observed)

    def _see_marks(self, at: float, name: str, record: Mapping[str, Any]) -> None:
        """Read since when a pool that stays for the next workload is idle, or that it is used."""
        pool, state, since = self._lives.pools.get(name), record.get("state"), record.get("idle_since")
        if pool is None:
            return
        if state == "in use":
            self._lives.turn(pool, Hours.USED, self._observe(pool, at, swept=True))
        elif state == "idle" and pool.hours == Hours.USED:
            self._lives.turn(pool, Hours.IDLE, self._observe(pool, float(since or at), swept=True))

    def _observe(self, pool: Pool, at: float, *, swept: bool) -> float:
        """Return when something happened that a record tells; a sweep tells it a while later."""
        return (max(self._clean_at, pool.since) + at) / 2 if swept else at

    # --- sweeps -----------------------------------------------------------------------------------

    def _see_sweep(self, at: float, reasons: Mapping[str, int], counts: Mapping[str, int]) -> None:
        """Read the end of a sweep: what it did not name has no waiting leader pod any more."""
        if at - self._swept_at > GAP_SECONDS:
            self._lives.cut(self._swept_at, at)
            self._clean_at = at
        self._swept_at = at
        if counts.get("errors") or counts.get("left"):
            for each in self._lives.slices.values():
                each.swept = False
        else:
            failed = max(0, reasons.get(Reason.POOL_FAILED, 0) - self._failed)
            self._see_records(failed)
            self._see_lost(at, counts.get("keep", 0) - reasons.get(Reason.POOL_SERVES, 0) - failed)
            self._see_unnamed(at, reasons.get(Reason.POOL_SERVES, 0))
            self._see_suspended(at, reasons.get(Reason.GRACE_NOT_OVER, 0))
            self._see_made(at)
            nameless = reasons.get(Reason.OWNER_LIVE, 0) - len(self._lives.pools)
            self._lives.account.nameless_hours += max(0, nameless) * self._measure(at)
            self._clean_at = at
        self._failed = 0

    def _measure(self, at: float) -> float:
        """Return the hours of the account since the last sweep without errors."""
        return max(0.0, at - max(self._clean_at, self._lives.account.begin)) / HOUR_SECONDS

    def _see_records(self, failed: int) -> None:
        """End the pools that are only the record of their failure, while their slices pause.

        A pool that GKE has created empty is none, and may get its nodes then.
        """
        for pool in [each for each in self._lives.pools.values() if each.failed_at]:
            if failed and pool.hours == Hours.STARTING and not pool.made_at:
                self._lives.close(pool, pool.failed_at)
                failed -= 1
            pool.failed_at = 0.0

    def _see_lost(self, at: float, kept: int) -> None:
        """Find pools that ended without a record: the sweep kept fewer than there should be.

        If it kept none, all have ended. Else those have that no record but the one of their create
        has named, if they are not too many.
        """
        kept = max(0, kept)
        old = [each for each in self._lives.pools.values() if each.opened_at < self._clean_at]
        silent = [each for each in old if each.named_at <= self._clean_at]
        lost = len(silent) - kept
        if lost <= 0:
            return
        doubtful = [each for each in silent if not each.named_at or not kept]
        for pool in doubtful if len(doubtful) <= lost else ():
            pool.hours = pool.hours if pool.named_at else Hours.UNKNOWN
            self._lives.close(pool, self._observe(pool, at, swept=True))
            lost -= 1
        self._lives.account.endless_hours += lost * self._measure(at)

    def _see_unnamed(self, at: float, serving: int) -> None:
        """End the waits of slices that the sweep did not name.

        A leader beside a running pool is only counted. If that may be one of several, nothing
        follows for them.
        """
        unnamed = []
        for each in self._lives.list_waiting():
            if each.swept or each.in_gang:
                each.swept, each.missed_at = False, None
            else:
                unnamed.append(each)
        beside = sum(bool(each.pools) for each in unnamed)
        for each in unnamed:
            if serving and each.pools:
                if serving >= beside:
                    each.seen_at, each.missed_at = at, None
            elif each.missed_at is None and each.seen_at > self._clean_at:
                each.missed_at = at  # the sweep may have begun before that record
            else:
                self._lives.end_wait(each, (each.seen_at + (each.missed_at or at)) / 2, runs=True)

    def _see_made(self, at: float) -> None:
        """Find the pools that GKE has created meanwhile, and for which no leader waits."""
        for pool in [each for each in self._lives.pools.values() if each.hours is Hours.STARTING]:
            waits = pool.owner.waits_since is not None or pool.suspended_at
            begun = max(pool.creating_at, pool.made_at) > 0 and pool.creating_at < at
            if not begun or waits or pool.needless:
                continue
            last, left_at = max(pool.made_at, pool.creating_at), pool.owner.ended_at
            if left_at and left_at < last - LEFT_SECONDS and at < last + STAYED_SECONDS:
                continue
            self._lives.turn(pool, Hours.USED, last if pool.made_at >= pool.creating_at else (last + at) / 2)

    def _see_suspended(self, at: float, waiting: int) -> None:
        """Find the pools in their grace whose workloads were resumed, which no record names."""
        known = [each for each in self._lives.pools.values() if 0 < each.suspended_at < self._clean_at]
        for pool in known if len(known) > waiting else ():
            since = pool.suspended_at
            if pool.hours != Hours.STARTING:
                hours = Hours.UNKNOWN if waiting else Hours.USED
                self._lives.turn(pool, hours, self._observe(pool, at, swept=True))
            pool.suspended_at = since if waiting else 0.0


def _is_swept(record: Mapping[str, Any]) -> bool:
    return record.get("function") == "sweep"


def shrink(size: Size | None, message: str) -> Size | None:
    """Return the size that a pool has after some of its nodes were removed; None if unknown.

    Only the message of the record tells it (`shared.core.decide.elastic_sizes`).
    """
    removed, given_up = _REMOVED.search(message), _GIVEN_UP.search(message)
    if size and removed:
        return replace(size, nodes=int(removed[1]) - len(removed[2].split(", ")))
    return replace(size, nodes=max(0, size.nodes - int(given_up[1]))) if size and given_up else None
