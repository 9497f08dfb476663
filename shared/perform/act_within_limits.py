"""Does the acts that give a cluster nodes: the emergency stop is read and the limits hold.

Before such an act the pool's chips are reserved in a ledger of the cluster, if a limit is set. The
ledger is written only if no other process has written since it was read, so of two processes that
count at the same time one counts again. No process waits for another.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.core.decide.freshness import is_fresh
from shared.core.decide.limits import (
    ACT_SECONDS_MAX,
    add_reservations,
    decide_limit,
    end_listed,
    keep_current,
    measure_others,
)
from shared.core.decisions import Decision, Verdict
from shared.core.errors import Denied, InvalidRequest, NoCapacity, OldLook, ProvisionerError, StaleView, Throttled
from shared.core.identity.pool_index import PoolIndex
from shared.core.ports import Ledger
from shared.perform.emergency_stop import find_stop
from shared.perform.pool_sizes import measure_elastic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shared.core.decide.limits import Usage
    from shared.core.demand.demand import Demand
    from shared.core.ports import Ports, Reservation

TRIES_MAX = 20
"""In each try one process succeeds, so as many can reserve at the same moment."""
_REFUSED = (NoCapacity, InvalidRequest, Denied, Throttled, OldLook)
"""With these GKE has surely created nothing: it refused, or was not asked."""
_LOG = logging.getLogger("limits")


class Limits:
    """What counts against the limits of one cluster: the pools that GKE lists, and reservations.

    One serves a delivery, or all leaders of a sweep. Several threads may share it: they reserve one
    after the other, which is one short call each, so that they are not in each other's way.
    """

    def __init__(self, cluster: str, ports: Ports) -> None:
        self._cluster, self._ports = cluster, ports
        self._pools, self._listed_at = PoolIndex([]), float("-inf")
        self._ledger: Ledger | None = None
        self._lock = threading.Lock()

    def list_pools(self) -> PoolIndex:
        """Return the pools as they were listed last, elastic pools measured; list them at first.

        Raises:
            Retryable: GKE could not be asked.
        """
        if self._listed_at == float("-inf"):
            self._list_now()
        return self._pools

    def start(self, pools: PoolIndex, *, listed_at: float) -> None:
        """Use a list of the sweep, and let the reservations of listed pools end sooner.

        Args:
            pools: with the sizes of elastic pools.
            listed_at: unix seconds before they were listed; 0 if they serve to refuse only.

        Raises:
            Retryable: the ledger could not be read or written.
        """
        self._pools, self._listed_at = pools, listed_at
        self._ledger = self._read()
        left = end_listed(self._ledger.entries, pools, self._ports.clock.now())
        if left != self._ledger.entries:
            self._write(left)

    def measure(self, demand: Demand, *except_names: str) -> Usage:
        """Return what the other pools have, as far as it is known; good enough to refuse."""
        pools, reserved = self.list_pools(), self.list_reserved()
        return measure_others(demand, pools, except_names=except_names, reserved=reserved)

    def list_reserved(self) -> dict[str, Reservation]:
        """Return the reservations that count, as far as they are known."""
        ledger = self._ledger
        return keep_current(ledger.entries if ledger else {}, self._ports.clock.now())

    def forget(self) -> None:
        """Let the pools be listed and measured again before the next reservation."""
        self._listed_at = float("-inf")

    def reserve(self, demand: Demand, pool_name: str, *, instead_of: str = "") -> Reserved | Decision:
        """Return the pool's reservation, or the refusal by a limit; `instead_of` does not count.

        A ledger that was read earlier serves too, since it is written only if it is still the same.

        Raises:
            StaleView: too many processes reserve at the same time.
            Retryable: something could not be read.
        """
        clock = self._ports.clock
        with self._lock:
            for _ in range(TRIES_MAX):
                ledger = self._read()
                if not is_fresh(self._listed_at, now=clock.now()):
                    self._list_now()
                now = clock.now()
                known = keep_current(ledger.entries, now)
                known.pop(instead_of, None)  # its pool exists, so nobody is about to create it
                apart = (pool_name, instead_of)
                usage = measure_others(demand, self._pools, except_names=apart, reserved=known)
                if refused := decide_limit(demand, self._ports.settings, usage):
                    return refused
                wanted = add_reservations(known, demand, pool_name, self._pools, now)
                if self._write(wanted):
                    beside = {name: each for name, each in wanted.items() if name not in (*known, pool_name)}
                    return Reserved(wanted[pool_name], first=pool_name not in known, beside=beside)
        raise StaleView(
            f"other processes wrote the reservations {TRIES_MAX} times; node pool {pool_name} has to wait"
        )

    def give_back(self, reserved: Reserved, pool_name: str) -> None:
        """Take a reservation back if that is possible, so that others need not wait for its end."""
        try:
            with self._lock:
                for _ in range(TRIES_MAX if reserved.first else 0):
                    entries = dict(self._read().entries)
                    if entries.pop(pool_name, None) != reserved.entry:
                        return
                    left = {name: each for name, each in entries.items() if reserved.beside.get(name) != each}
                    if self._write(left):
                        return
        except ProvisionerError as error:
            said = {"pool": pool_name, "error": str(error)}
            _LOG.info("the reservation was not removed, so it expires by itself", extra=said)

    def _list_now(self) -> None:
        at = self._ports.clock.now()
        pools, errors = measure_elastic(self._ports.pools.list(self._cluster), self._ports)
        for error in errors.values():
            raise error
        self._pools, self._listed_at = pools, at

    def _read(self) -> Ledger:
        if self._ledger is None:
            self._ledger = self._ports.clusters[self._cluster].read_ledger(self._ports.settings.own_namespace)
        return self._ledger

    def _write(self, entries: Mapping[str, Reservation]) -> bool:
        """Write the ledger that was read; return False if another process has written since."""
        wanted, self._ledger = Ledger(version=self._read().version, entries=entries), None
        live = self._ports.clusters[self._cluster]
        try:
            self._ledger = live.write_ledger(self._ports.settings.own_namespace, wanted)
        except StaleView:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Reserved:
    """The reservation of this process."""

    entry: Reservation
    first: bool
    """No other process had reserved for the same pool, so this one may give it back."""
    beside: Mapping[str, Reservation]
    """Those of the pool's companions that were not there before."""


def find_limits(cluster: str, ports: Ports) -> Limits | None:
    """Return what counts the chips of a cluster; None if no limit is set, so nothing is read."""
    return Limits(cluster, ports) if ports.settings.limited else None


def act_within_limits(
    demand: Demand,
    pool_name: str,
    decision: Decision,
    act: Callable[[], None],
    ports: Ports,
    limits: Limits | None,
    *,
    instead_of: str = "",
    make_room: Callable[[], Decision] | None = None,
) -> Decision:
    """Create or resize a pool, unless a limit or the emergency stop forbids it.

    Args:
        demand: what the pool is for; its shape is all that the pool will have.
        pool_name: the pool.
        decision: what the act is and why; returned when the act was done.
        act: the one call of GKE.
        ports: the outside world.
        limits: what counts against the limits; None if none is set.
        instead_of: a pool without machines that this one replaces, so that it does not count.
        make_room: deletes a pool before the act, once the limits allow the act: that pool may be
            the only record of what failed. Any other decision than DELETE is the answer.

    Raises:
        StaleView: too many processes reserve at the same time, or this one was held up for longer
            than its reservation or its look at the emergency stop allows. The act was not done; try
            again.
        Retryable: something could not be read, so the act was not done; or what `act` or
            `make_room` raises.
    """
    reserved = limits.reserve(demand, pool_name, instead_of=instead_of) if limits else None
    if isinstance(reserved, Decision):
        return reserved
    if make_room and (gone := make_room()).verdict != Verdict.DELETE:
        if limits and reserved:
            limits.give_back(reserved, pool_name)
        return gone
    looked_at = ports.clock.now()
    if stopped := find_stop(demand.claim.cluster, decision, ports):
        if limits and reserved:
            limits.give_back(reserved, pool_name)
        return stopped
    if not is_fresh(looked_at, now=ports.clock.now()):
        raise OldLook(f"the emergency stop was read too long ago for node pool {pool_name}; it is read again")
    if reserved and not 0 <= ports.clock.now() - reserved.entry.made_at <= ACT_SECONDS_MAX:
        raise StaleView(f"the limits were counted too long ago for node pool {pool_name}; they are counted again")
    try:
        act()
    except _REFUSED:
        if limits and reserved:
            limits.give_back(reserved, pool_name)
        raise
    return decision
