"""What one sweep did and counted, and the errors of single objects, which do not stop the sweep.

Nothing is read for the counts: they come from the list of pools that the sweep has anyway, and from
its decisions.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shared.core.decide.gangs import measure_gang
from shared.core.decide.limits import count_pool_chips
from shared.core.decisions import IDLE_REASONS, LACKING_REASONS, Verdict
from shared.core.errors import KindAbsent, OutOfTime, ProvisionerError, Throttled
from shared.core.identity.pools import PAID
from shared.core.times import measure_seconds
from shared.engine.looks.pool_reads import is_resizable
from shared.engine.tell import describe_claim, name_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.core.decide.attempts import AttemptDecision
    from shared.core.decide.gangs import Gang
    from shared.core.decisions import Decision
    from shared.core.demand.demand import Demand
    from shared.core.identity.names import SliceClaim
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.workloads import PodView
    from shared.engine.tell import Outcome


@dataclass(slots=True)
class SweepReport:
    """What one sweep did in all clusters."""

    outcomes: list[Outcome] = field(default_factory=list)
    errors: list[tuple[str, ProvisionerError]] = field(default_factory=list)
    """Each error, with the name of its object."""
    over_cap: bool = False
    """More pools were due than the sweep may delete without a word of their owners: an alarm."""
    left: int = 0
    """The number of objects that wait for the next sweep: the time was over, or a server answered
    429."""
    figures: dict[str, ClusterFigures] = field(default_factory=dict)
    """By cluster; one whose pools or waiting leaders could not be listed has none."""
    _seen: set[object] = field(default_factory=set)

    def add_error(self, about: str, error: Exception, *, claim: dict[str, str] | None = None) -> None:
        """Add the error of one object. An error that several objects share is added once."""
        found = name_error(error, claim)
        self.left += isinstance(found, OutOfTime | Throttled)
        shared = isinstance(found, KindAbsent | OutOfTime | Throttled)
        key = (type(found), str(found)) if shared else id(error)
        if key not in self._seen:
            self._seen.add(key)
            self.errors.append((about, found))

    def merge(self, others: Iterable[SweepReport]) -> None:
        """Add what was done in other clusters."""
        for other in others:
            self.outcomes += list(other.outcomes)
            self.errors += list(other.errors)
            self.over_cap = self.over_cap or other.over_cap
            self.left += other.left
            self.figures |= other.figures


@dataclass(slots=True)
class ClusterFigures:
    """The figures of one cluster. Its methods may be called side by side."""

    _waits: dict[object, float] = field(default_factory=dict)
    """By claim: for how many seconds its leader has waited."""
    _idle: dict[str, int] = field(default_factory=dict)
    """By pool: its chips."""
    _autoscaled: int = 0

    def note_listed(self, pools: Iterable[PoolSnapshot]) -> None:
        """Note every pool of the cluster, ours and others: each may be one that GKE autoscales."""
        self._autoscaled = sum(each.autoscaled for each in pools)

    def add_pool(self, pool: PoolSnapshot, decision: Decision) -> None:
        """Add the decision about one of our pools."""
        if _is_idle(pool, decision):
            self._idle[pool.name] = count_pool_chips(pool)

    def add_answer(self, pod: PodView, outcome: Outcome, pool: PoolSnapshot | None, *, now: float) -> None:
        """Add what a waiting leader was answered, with the listed pool that the answer names."""
        if outcome.decision.reason in LACKING_REASONS:
            self.add_unanswered(pod, outcome.facts.get("claim"), now=now)
        elif pool is not None and not is_resizable(pool) and _is_idle(pool, outcome.decision):
            self._idle[pool.name] = count_pool_chips(pool)

    def add_unanswered(self, pod: PodView, claim: Mapping[str, str] | None, *, now: float) -> None:
        """Add a leader that waits for its capacity, or whose answer failed."""
        self._note_wait(tuple(claim.values()) if claim else pod.uid, pod.unschedulable_since, now)

    def add_gang(self, gang: Gang, pools: Sequence[PoolSnapshot], *, since: float | None, now: float) -> None:
        """Add the slices of a suspended workload that waits for their capacity.

        One without a running pool waits, and the pools of the others are idle.

        Args:
            gang: the demands of all of its slices.
            pools: at least all pools of the workload.
            since: when its round began, in unix seconds; None, or in the future, for no wait yet.
            now: unix seconds.
        """
        holding = measure_gang(gang, pools)
        self._idle |= {pool.name: count_pool_chips(pool) for pool in holding.pools if pool.status in PAID}
        for demand in gang:
            if demand.claim.slice_name not in holding.running:
                self._note_wait(_find_key(demand.claim), since, now)

    def settle_gang(self, gang: Gang, slices: Iterable[tuple[Demand, AttemptDecision]]) -> None:
        """Leave out the slices whose answer is no lack of capacity, or that were not answered."""
        lacking = {demand.claim.hash for demand, made in slices if made.decision.reason in LACKING_REASONS}
        for demand in gang:
            if demand.claim.hash not in lacking:
                self._waits.pop(_find_key(demand.claim), None)

    def _note_wait(self, key: object, since: float | None, now: float) -> None:
        waited = measure_seconds(since, now) or 0.0
        self._waits[key] = max(waited, self._waits.get(key, 0.0))

    def describe(self) -> dict[str, Any]:
        """Return the fields of the log record, also those that are 0."""
        return {
            "waiting_demands": len(self._waits),
            "oldest_wait_seconds": round(max(self._waits.values(), default=0.0), 1),
            "idle_chips": sum(self._idle.values()),
            "autoscaled_pools": self._autoscaled,
        }


def _find_key(claim: SliceClaim) -> tuple[str, ...]:
    return tuple(describe_claim(claim.cluster, claim).values())


@dataclass(slots=True)
class DeletionCap:
    """How many pools one sweep of a cluster may still delete without proof from their owners.

    So a mistake of ours cannot delete very many pools. Several threads may share it.
    """

    left: int
    """At first ``sweep_deletions_max``."""
    reserved: int = 0
    """Of these, so many are not for pools that are replaced for waiting leaders, who come first.
    Half; of an odd number, chance rounds it up or down, so that of one both have their sweeps."""
    over: bool = False
    """One more deletion was due: an alarm. The next sweep goes on with the rest."""
    nodes: int = 0
    """How many nodes of elastic pools may still be removed one by one."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> bool:
        """Count one deletion that is about to be submitted; return False if it is one too many.

        One that only the reserve could pay for is no alarm yet.
        """
        with self._lock:
            if self.left > self.reserved:
                self.left -= 1
                return True
            self.over = self.reserved == 0
            return False

    def take_nodes(self, wanted: int) -> int:
        """Return how many nodes of so many may be removed, and count them."""
        with self._lock:
            taken = min(wanted, self.nodes)
            self.nodes -= taken
            return taken

    def free(self) -> None:
        """Let the reserved deletions be for every pool from here on."""
        with self._lock:
            self.reserved = 0

    def give_back(self) -> None:
        """Count one deletion less, because GKE refused it."""
        with self._lock:
            self.left += 1


def _is_idle(pool: PoolSnapshot, decision: Decision) -> bool:
    """Return whether a pool is paid for and idle, by a decision about it or its slice's leader."""
    return pool.status in PAID and (decision.verdict == Verdict.DELETE or decision.reason in IDLE_REASONS)
