"""Writes holds for the chips of pools that are about to be created, so that limits are kept.

If a limit is set, the pool's chips are first written as a hold into a ledger of the cluster. It is
written only if no other process has written since it was read: of two that count at the same time
one counts again. While one thread writes, others wait, and the next write has the holds of all.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from shared.core.decide.limits import CountedPools, decide_limit, end_listed, keep_current, make_holds, name_pools
from shared.core.decisions import Decision
from shared.core.errors import ProvisionerError, StaleView
from shared.core.identity.pool_index import PoolIndex
from shared.core.ports import Ledger
from shared.core.times import is_fresh
from shared.engine.looks.pool_reads import measure_elastic

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from shared.core.decide.limits import Usage
    from shared.core.demand.demand import Demand
    from shared.core.identity.names import SliceClaim
    from shared.core.ports import LimitHold, Ports

TRIES_MAX = 20
"""In each try one process succeeds, so as many can write at the same moment."""
_LOG = logging.getLogger("limits")


class Limits:
    """What counts against the limits of one cluster: the pools that GKE lists, and holds.

    One serves a delivery, or all leaders of a sweep. Several threads may share it.
    """

    def __init__(self, cluster: str, ports: Ports) -> None:
        self._cluster, self._ports = cluster, ports
        self._pools, self._listed_at = PoolIndex([]), float("-inf")
        self._ledger: Ledger | None = None
        self._counted: CountedPools | None = None
        """Of the ledger above; None while that is unknown."""
        self._waiting, self._mine = deque[_Call](), set[str]()
        self._lock = threading.Lock()

    def list_pools(self) -> PoolIndex:
        """Return the pools as they were listed last, elastic pools measured; list them at first."""
        if self._listed_at == float("-inf"):
            self._list_now()
        return self._pools

    def start(self, pools: PoolIndex, *, listed_at: float) -> None:
        """Use a list of the sweep, and let the holds of listed pools end sooner.

        Args:
            pools: with the sizes of elastic pools.
            listed_at: unix seconds before they were listed; 0 if they serve to refuse only.

        Raises:
            Retryable: the ledger could not be read or written.
        """
        self._pools, self._listed_at = pools, listed_at
        self._ledger = self._read()
        left = end_listed(self._ledger.entries, pools, self._ports.clock.now())
        if left == self._ledger.entries or self._write(left):
            self._counted = CountedPools(pools, left)

    def measure(self, demand: Demand, pool_name: str, *others: str) -> Usage:
        """Return what all but these pools have, as far as it is known; good enough to refuse."""
        return self.count_known().measure(demand, pool_name, *others)

    def count_known(self) -> CountedPools:
        """Return the pools and holds that count, as far as they are known."""
        pools, counted, ledger, now = self.list_pools(), self._counted, self._ledger, self._ports.clock.now()
        if counted is None or counted.pools is not pools or now >= counted.until:
            counted = CountedPools(pools, keep_current(ledger.entries if ledger else {}, now))
        return counted

    def forget(self) -> None:
        """Let the pools be listed and measured again before the next hold."""
        self._listed_at = float("-inf")

    def hold(self, demand: Demand, pool_name: str, *, instead_of: Collection[str] = ()) -> OwnHolds | Decision:
        """Return the pool's hold, or the refusal by a limit; `instead_of` does not count.

        A ledger that was read earlier serves too, since it is written only if it is still the same.

        Raises:
            StaleView: too many processes write holds at the same time.
            Retryable: something could not be read.
        """
        call = _Call(demand, pool_name, instead_of)
        self._waiting.append(call)
        with self._lock:
            if call.answer is None:
                calls = [self._waiting.popleft() for _ in range(len(self._waiting))]
                try:
                    self._answer(calls)
                finally:  # after an error each of the others tries again itself
                    self._waiting.extend(each for each in calls if each.answer is None and each is not call)
        return cast("OwnHolds | Decision", call.answer)

    def _answer(self, calls: Sequence[_Call]) -> None:
        """Answer all calls by one write of the ledger, in their order."""
        for _ in range(TRIES_MAX):
            counted, now = self._count(), self._ports.clock.now()
            answers = [self._add(counted, call, now) for call in calls]
            if all(isinstance(each, Decision) for each in answers) or self._write(counted.entries):
                for call, answer in zip(calls, answers, strict=True):
                    call.answer = answer
                    self._mine.update(answer.names.values() if isinstance(answer, OwnHolds) else ())
                return
        raise StaleView(f"others wrote the ledger {TRIES_MAX} times; node pool {calls[0].pool_name} has to wait")

    def _add(self, counted: CountedPools, call: _Call, now: float) -> OwnHolds | Decision:
        demand, name, names = call.demand, call.pool_name, name_pools(call.demand, call.pool_name, counted.pools)
        if refused := decide_limit(demand, self._ports.settings, counted.measure(demand, name, *call.instead_of)):
            return refused
        others = self._read().entries.keys() & {*names.values()} - self._mine
        made = make_holds(counted, demand, names, now, others=others)
        first = {} if name in counted.entries else {each: made[each] for each in made.keys() - counted.entries}
        counted.put({**dict.fromkeys(counted.leave_out(call.instead_of)), **made})
        return OwnHolds(now, names, first)

    def _count(self) -> CountedPools:
        self._read()
        if not is_fresh(self._listed_at, now=self._ports.clock.now()):
            self._list_now()
        self._counted = self.count_known()
        return self._counted

    def give_back(self, holds: OwnHolds) -> None:
        """Take a hold back if that is possible, so that others need not wait for its end."""
        try:
            with self._lock:
                self._mine.difference_update(holds.first)
                for _ in range(TRIES_MAX if holds.first else 0):
                    entries = self._read().entries
                    ended = {name: None for name, each in holds.first.items() if entries.get(name) == each}
                    left = {name: each for name, each in entries.items() if name not in ended}
                    if not ended or self._write(left):
                        if self._counted is not None:
                            self._counted.put(ended)
                        return
        except ProvisionerError as error:
            fields = {"pools": sorted(holds.first), "error": str(error)}
            _LOG.info("the limit hold was not removed, so it expires by itself", extra=fields)

    def _list_now(self) -> None:
        at = self._ports.clock.now()
        pools, errors = measure_elastic(self._ports.pools.list(self._cluster), self._ports)
        for name, error in errors.items():
            told = copy(error)
            told.args = (f"limits cannot be counted, because node pool {name} cannot be measured: {error}",)
            raise told from error
        self._pools, self._listed_at = pools, at

    def _read(self) -> Ledger:
        if self._ledger is None:
            self._ledger = self._ports.clusters[self._cluster].read_ledger(self._ports.settings.own_namespace)
        return self._ledger

    def _write(self, entries: Mapping[str, LimitHold]) -> bool:
        """Write the ledger that was read; return False if another process has written since."""
        wanted, written = Ledger(version=self._read().version, entries=dict(entries)), None
        live = self._ports.clusters[self._cluster]
        try:
            written = live.write_ledger(self._ports.settings.own_namespace, wanted)
        except StaleView:
            return False
        finally:
            self._ledger = written
            if written is None:
                self._counted = None
        return True


@dataclass(frozen=True, slots=True)
class OwnHolds:
    """The hold of this process."""

    made_at: float
    names: Mapping[SliceClaim, str]
    """Of the pool and of its fellows."""
    first: Mapping[str, LimitHold]
    """What this process may give back, by the pool: nothing if another had a hold for its pool,
    else that of the pool, and those of its fellows that were not there before."""


@dataclass(eq=False, slots=True)
class _Call:
    """A pool that one thread needs a hold for, and its answer as soon as the ledger has it."""

    demand: Demand
    pool_name: str
    instead_of: Collection[str]
    answer: OwnHolds | Decision | None = None


def find_limits(cluster: str, ports: Ports) -> Limits | None:
    """Return what counts the chips of a cluster; None if no limit is set, so nothing is read."""
    return Limits(cluster, ports) if ports.settings.limited else None
