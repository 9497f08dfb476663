"""Counts the chips of a cluster's pools, and finds the limit that one more pool exceeds.

What other processes are about to create is counted by their reservations
(docs/decisions/0019-limits-by-reservation.md).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shared.core.counts import parse_count
from shared.core.decide.failures import Failure, classify_failure
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.names import build_pool_name
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import PoolStatus
from shared.core.ports import LimitHold
from shared.core.shapes.tpu_catalogue import CHIPS_BY_MACHINE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from shared.core.demand.demand import Demand
    from shared.core.identity.names import SliceClaim
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.settings import Settings

_RUNNING = re.compile(r"\brunning [1-9]")
LISTED_SECONDS = 300.0  # assumes: list-after-create
"""How long a hold still counts after GKE has listed its pool: another list may be older."""
HOLD_SECONDS = 900.0 + LISTED_SECONDS
"""How long a hold counts without that. A process that is frozen in the moment before its
create goes on within the first part or never, because Cloud Run stops an idle instance after 15
minutes: https://cloud.google.com/run/docs/about-instance-autoscaling#idle-instances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The chips and slices of a cluster's pools, pools that GKE is still creating included."""

    chips: int = 0
    chips_in_namespace: int = 0
    slices: int = 0


def decide_limit(demand: Demand, settings: Settings, usage: Usage | None) -> Decision | None:
    """Return the refusal of a pool that would exceed a limit; None when it exceeds none.

    The pool and its fellows get through together or not at all. The usage is that of all other
    pools (`measure_others`), None when no limit is set.
    """
    if usage is None:
        return None
    chips = demand.shape.chips + sum(each.shape.chips for each in demand.fellows)
    beside = len(demand.fellows)
    pools = f"this node pool and {beside} more that its workload needs with it" if beside else "this node pool"
    here, here_chips = f"chips in namespace {demand.claim.namespace}", usage.chips_in_namespace + chips
    rows = (
        (settings.limit_chips, "limit_chips", usage.chips + chips, "chips in the cluster"),
        (settings.limit_chips_per_namespace, "limit_chips_per_namespace", here_chips, here),
        (settings.limit_slices, "limit_slices", usage.slices + 1 + beside, "slices in the cluster"),
    )
    for limit, setting, wanted, what in rows:
        if limit and wanted > limit:
            message = (
                f"with {pools} there would be {wanted} {what}; the setting {setting} is {limit}; end other "
                "workloads, ask for less, or let an operator raise the setting"
            )
            return Decision(Verdict.REFUSE, Reason.LIMIT_REACHED, message)
    return None


class CountedPools:
    """The pools and holds of one cluster as they count. What changes is counted alone."""

    def __init__(self, pools: Sequence[PoolSnapshot], holds: Mapping[str, LimitHold]) -> None:
        self.pools, self.entries = PoolIndex.of(pools), dict[str, LimitHold]()
        self.until = min((each.made_at for each in holds.values()), default=math.inf) + HOLD_SECONDS
        """Unix seconds at which the first of the holds no longer counts."""
        self._chips = Counter(self.pools.sum_by_namespace(_count_kept_chips))
        self._slices = self.pools.sum_by_namespace(may_hold_machines).total()
        self.put(holds)

    def put(self, entries: Mapping[str, LimitHold | None]) -> None:
        """Count holds in place of those of the same names; None ends one."""
        for name, each in entries.items():
            before = self._weigh(name)
            self.entries.pop(name, None)
            if each is not None:
                self.entries[name] = each
            for sign, (namespace, chips, slices) in ((-1, before), (1, self._weigh(name))):
                self._chips[namespace] += sign * chips
                self._slices += sign * slices

    def measure(self, demand: Demand, pool_name: str, *others: str) -> Usage:
        """Return the usage without a demand's pool, its fellows', and others that end."""
        here, own = demand.claim.namespace, name_pools(demand, pool_name, self.pools).values()
        apart = [self._weigh(name) for name in {*self.leave_out(others), *own}]
        return Usage(
            chips=self._chips.total() - sum(chips for _, chips, _ in apart),
            chips_in_namespace=self._chips[here] - sum(chips for each, chips, _ in apart if each == here),
            slices=self._slices - sum(slices for *_, slices in apart),
        )

    def leave_out(self, names: Collection[str]) -> list[str]:
        """Return those of some pools that nobody can create any more once they are gone."""
        return [name for name in names if not (name in self.entries and self.entries[name].again)]

    def _weigh(self, name: str) -> tuple[str, int, int]:
        """Return the namespace, chips and slices (0 or 1) that count for one name.

        A pool that is listed and has a hold counts once, with the larger figure. A failed one
        without machines, whose name nobody else is about to create, counts nothing.
        """
        pool, entry = self.pools.find(name), self.entries.get(name)
        kept = pool is not None and may_hold_machines(pool)
        if pool and pool.owner and kept:
            return pool.owner.namespace, max(count_pool_chips(pool), entry.chips if entry else 0), 1
        if entry is None or (pool and pool.status == PoolStatus.ERROR and not kept and not entry.again):
            return "", 0, 0
        return entry.namespace, entry.chips, 1


def name_pools(demand: Demand, pool_name: str, pools: Sequence[PoolSnapshot]) -> dict[SliceClaim, str]:
    """Return the name of a demand's pool, and of the pool of each fellow (`name_pool`)."""
    index = PoolIndex.of(pools)
    return {demand.claim: pool_name} | {each.claim: name_pool(each.claim, index) for each in demand.fellows}


def name_pool(claim: SliceClaim, pools: PoolIndex) -> str:
    """Return the name of the pool of a claim: as it is listed, else as it will be."""
    own = pools.list_claimed(claim.hash)
    return own[-1].name if own else build_pool_name(claim)


def _count_kept_chips(pool: PoolSnapshot) -> int:
    return count_pool_chips(pool) * may_hold_machines(pool)


def keep_current(entries: Mapping[str, LimitHold], now: float) -> dict[str, LimitHold]:
    """Return the holds that still count. One of the future is as old as one of now."""
    return {
        name: each if each.made_at <= now else replace(each, made_at=now)
        for name, each in entries.items()
        if now - each.made_at < HOLD_SECONDS
    }


def end_listed(entries: Mapping[str, LimitHold], pools: PoolIndex, now: float) -> dict[str, LimitHold]:
    """Return the holds that still count; those of pools that GKE lists end sooner.

    A pool with fewer chips may still be about to grow. One that is held again may come again.
    """
    latest = now - HOLD_SECONDS + LISTED_SECONDS
    found = keep_current(entries, now)
    for name, each in found.items():
        pool = pools.find(name)
        if pool is not None and count_pool_chips(pool) >= each.chips and not each.again:
            found[name] = replace(each, made_at=min(each.made_at, latest))
    return found


def make_holds(
    counted: CountedPools, demand: Demand, names: Mapping[SliceClaim, str], now: float, *, others: Collection[str]
) -> dict[str, LimitHold]:
    """Return the holds of a pool and its fellows; other processes made `others`."""
    made = {}
    for each in (demand, *demand.fellows):
        known = counted.entries.get(name := names[each.claim])
        chips = max(each.shape.chips, known.chips if known else 0)  # none becomes less
        again = known is not None and (known.again or (name in others and not counted.pools.find(name)))
        made[name] = LimitHold(namespace=each.claim.namespace, chips=chips, made_at=now, again=again)
    return made


def may_hold_machines(pool: PoolSnapshot) -> bool:
    """Return whether a pool may have machines, or get some, as far as GKE's list tells.

    GKE makes all nodes of a TPU slice or none, so such a pool has none if it failed because no
    machine could be made: https://cloud.google.com/kubernetes-engine/docs/concepts/tpus. The same
    is true of one node. Of any other some may run, as in ``Expected 18, running 16``.
    """
    if pool.status != PoolStatus.ERROR:
        return pool.status != PoolStatus.STOPPING
    elastic = pool.owner is None or pool.owner.elastic
    partial = pool.node_count != 1 and (elastic or pool.gpus_per_node > 0)
    made_some = classify_failure(pool.error) in (Failure.INTERNAL, Failure.UNKNOWN) or _RUNNING.search(pool.error)
    return partial or bool(made_some)


def count_pool_chips(pool: PoolSnapshot) -> int:
    """Return the TPU chips or whole GPUs of all nodes of a pool; 0 without accelerators."""
    digits = pool.machine_type.rpartition("-")[2].removesuffix("t")  # of an unknown machine: ``-Nt``
    named = parse_count(digits) if pool.machine_type.endswith("t") else None
    return pool.node_count * (pool.gpus_per_node or CHIPS_BY_MACHINE.get(pool.machine_type, named or 0))
