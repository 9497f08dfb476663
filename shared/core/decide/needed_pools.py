"""Decides which pools a workload needs: which pool serves which slice, and which is one too many.

Provisioning, collecting and sweeps ask this one function about all pools and all pods of a
workload, so they cannot judge differently. Pure.

- Each pool serves at most one slice, and each slice has at most one pool.
- A slice that runs on a pool is served by it, whatever the pool's name says.
- A slice that waits is served by its own pool, unless another slice runs there. Then it is served
  by a free pool of the same workload and shape.
- A slice whose own pool is in use by another slice, and which no free pool serves, misses a pool.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.core.decide.attempts import find_newest, find_used, rank_attempt
from shared.core.decide.demands import decide_planned_demand
from shared.core.demand.demand import Demand
from shared.core.identity.names import ATTEMPTS_MAX
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import LOST, PoolStatus
from shared.core.kinds.elastic import has_slice, is_leader, leave_out_elastic, list_elastic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from shared.core.decide.pool_facts import Occupancy
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.settings import Settings
    from shared.core.workloads import WorkloadView


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Which pools a workload needs."""

    serving: Mapping[str, str]
    """The pool that serves a slice, by the slice's name."""
    missing: Mapping[str, int]
    """The attempt of the pool that a waiting slice needs although it has one, by its name."""
    surplus: frozenset[str]
    """The names of pools that no slice needs: they go when they are empty."""


def select_pools_of(workload: WorkloadView, pools: Sequence[PoolSnapshot]) -> list[PoolSnapshot]:
    """Return the pools of a workload: those of its UID, and the Go provisioner's of its name."""
    named = select_named(workload, pools)
    return [pool for pool in named if pool.owner and pool.owner.owner_uid in ("", workload.uid)]


def select_named(workload: WorkloadView, pools: Sequence[PoolSnapshot]) -> PoolIndex:
    """Return the pools of all workloads of a kind and name: those of earlier UIDs too."""
    return PoolIndex.of(pools).list_named(workload.kind, workload.namespace, workload.name)


def may_have_surplus(workload: WorkloadView, pools: Sequence[PoolSnapshot]) -> bool:
    """Return whether a live workload may have a pool too many: only then are its pods read.

    The pools of an earlier workload of its name count, because its pods may run on them.

    Args:
        workload: as it is now.
        pools: every pool of workloads of that name, or all of the cluster.
    """
    slices = (each for each in leave_out_elastic(workload).groups if each.template.wants_accelerator)
    wanted = sum(each.replicas for each in slices if not each.beside) + len(list_elastic(workload))
    return sum(pool.status != PoolStatus.STOPPING for pool in select_named(workload, pools)) > wanted


def plan_pools(
    cluster: str,
    seen: Occupancy,
    pools: Sequence[PoolSnapshot],
    settings: Settings,
    *,
    taken: Collection[str] = (),
) -> PoolPlan:
    """Return which pools a workload needs, from all of its pools and pods.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        seen: the workload's live pods, and the pools of its nodes.
        pools: every pool of the workload, or of the cluster.
        settings: the operator's settings.
        taken: names of pools that pods of other workloads use.
    """
    staying = [pool for pool in select_pools_of(seen.workload, pools) if pool.status != PoolStatus.STOPPING]
    stopping = [pool for pool in select_named(seen.workload, pools) if pool.status == PoolStatus.STOPPING]
    alive = [pool for pool in staying if pool.status not in LOST]
    serving = _match_running(alive, seen)
    _match_own(serving, alive, seen)
    _match_free(serving, alive, seen, taken)
    moving = any(seen.list_on(pool.name) for pool in stopping)
    settled = set[str]() if moving else _find_settled(seen)
    return PoolPlan(
        serving=serving,
        missing=_find_missing(serving, staying, seen, pools),
        surplus=frozenset(_find_surplus(cluster, seen, staying, settled, settings)),
    )


def sort_own_attempts(claim_hash: str, pools: Sequence[PoolSnapshot], *, fingerprint: str) -> list[int]:
    """Return the attempts of a slice's pools that live, those of the wanted shape first.

    If none of them lives, it is the newest attempt alone, which tells what follows.
    """

    def rank(pool: PoolSnapshot) -> tuple[bool, int]:
        return bool(pool.owner and not pool.owner.was_made_for(fingerprint)), _get_attempt(pool)

    own = PoolIndex.of(pools).list_claimed(claim_hash)
    newest = find_newest(own)
    alive = [pool for pool in own if pool.status not in LOST]
    return [_get_attempt(pool) for pool in sorted(alive, key=rank) or ([newest] if newest else [])]


def _match_running(alive: Sequence[PoolSnapshot], seen: Occupancy) -> dict[str, str]:
    """Return the pool of each slice that runs on one.

    Of several slices, one with all of its pods has the pool, else the one with the most pods there.
    """
    found: dict[str, str] = {}
    counted = [
        (name not in seen.placed, -count, name != _get_slice(pool), name, pool.name)
        for pool in alive
        for name, count in seen.count_slices_on(pool.name).items()
    ]
    for *_, name, pool_name in sorted(counted):
        if name not in found and pool_name not in found.values():
            found[name] = pool_name
    return found


def _match_own(serving: dict[str, str], alive: Sequence[PoolSnapshot], seen: Occupancy) -> None:
    """Give the other slices their own pools, if no slice runs there."""
    for pool in sorted(alive, key=_get_attempt):
        name = _get_slice(pool)
        if name not in serving and not seen.count_slices_on(pool.name) and _needs_pool(name, seen):
            serving[name] = pool.name


def _match_free(
    serving: dict[str, str], alive: Sequence[PoolSnapshot], seen: Occupancy, taken: Collection[str]
) -> None:
    """Give the slices that share a pool with another one the free pools; who waits is first."""
    used = set(serving.values()) | set(taken)
    free = [pool for pool in alive if not seen.count_slices_on(pool.name) and pool.name not in used]
    sharing = [
        (name not in seen.waiting_slices, name, pool.name, pool)
        for pool in alive
        if (here := seen.count_slices_on(pool.name))
        for name in {_get_slice(pool), *here}
    ]
    for _, name, _, shared in sorted(sharing, key=lambda each: each[:3]):
        fit = next((pool for pool in free if _is_of_one_shape(pool, shared)), None)
        if fit and name not in serving and _needs_pool(name, seen):
            serving[name] = fit.name
            free.remove(fit)


def _is_of_one_shape(one: PoolSnapshot, other: PoolSnapshot) -> bool:
    """Return whether two pools are of the same shape, as far as both of them say.

    A fingerprint of another version, or of the Go provisioner, which has none, cannot be compared.
    """
    pairs = ((one.machine_type, other.machine_type), (one.topology, other.topology))
    same = all(mine == theirs or not (mine and theirs) for mine, theirs in pairs)
    return same and bool(one.owner and other.owner and one.owner.was_made_for(other.owner.fingerprint))


def _needs_pool(name: str, seen: Occupancy) -> bool:
    """Return whether a slice is wanted and does not run with all of its pods already, anywhere."""
    return name not in seen.placed and has_slice(seen.kind, seen.workload, name, seen.pods)


def _find_missing(
    serving: Mapping[str, str], staying: Sequence[PoolSnapshot], seen: Occupancy, pools: Sequence[PoolSnapshot]
) -> dict[str, int]:
    """Return the next attempt of each slice that waits and whose pools are all in use by others.

    Where two slices mix on one pool, the slice that waits with its leader may not be the one that
    no pool serves. Then it gets the pool, because only a waiting leader asks for one.
    """
    leaders = (pod for pod in seen.waiting if not pod.gates and is_leader(seen.kind, pod))
    asking = {known.name for pod in leaders if (known := seen.slices[pod.name]) is not None}
    held = [
        (_get_slice(pool), set(seen.count_slices_on(pool.name))) for pool in staying if pool.status not in LOST
    ]
    shared = {own for own, here in held if here - {own}}
    mixed = {name for _, here in held for name in here}
    lacking = sum(name not in serving for name in (mixed | shared) & seen.waiting_slices.keys())
    candidates = sorted(asking & shared, key=lambda name: (name in serving, name))
    return {name: _find_attempt(name, staying, pools) for name in candidates[:lacking]}


def _find_attempt(name: str, staying: Sequence[PoolSnapshot], pools: Sequence[PoolSnapshot]) -> int:
    """Return the newest attempt if its creation failed, else the first whose name no pool keeps.

    A candidate that gave a pool is tried again, so the attempt grows by the number of candidates.
    """
    newest = max((pool for pool in staying if _get_slice(pool) == name), key=rank_attempt)
    if newest.owner is None or newest.status == PoolStatus.ERROR:
        return _get_attempt(newest)
    used = find_used(newest.name, (each.name for each in pools if each.status != PoolStatus.STOPPING))
    index, count = newest.owner.candidates
    return next(attempt for attempt in range(index, ATTEMPTS_MAX, count) if attempt not in used)


def _find_surplus(
    cluster: str, seen: Occupancy, staying: Sequence[PoolSnapshot], settled: Collection[str], settings: Settings
) -> Iterable[str]:
    """Yield the empty pools that no slice needs, those that failed included.

    - The slice runs on other nodes, and no pod of the workload waits, is still to be created, or
      runs on a pool that is being deleted.
    - The slice was scaled away, and no slice waits that can use the pool.
    """
    waiting, kept = _list_waiting_demands(cluster, seen, settings), 0
    for pool in sorted(staying, key=lambda each: each.name):
        name = _get_slice(pool)
        if seen.list_on(pool.name):
            continue
        if has_slice(seen.kind, seen.workload, name, seen.pods):
            if name in settled:
                yield pool.name
        elif pool.status in LOST:
            yield pool.name
        elif pool.owner and sum(pool.owner.was_made_for(each.fingerprint) for each in waiting) > kept:
            kept += 1  # one such pool stays for each slice that waits
        else:
            yield pool.name


def _find_settled(seen: Occupancy) -> set[str]:
    """Return the slices that run with all of their pods, if their group is complete.

    A slice without pods, with fewer pods than hosts, or of unknown size is no proof, because its
    next pods may be created at any moment.
    """
    if seen.waiting or None in seen.slices.values():
        return set()
    complete = Counter(group.name for group in seen.placed.values())
    return {name for name, group in seen.placed.items() if group.elastic or complete[group.name] >= group.replicas}


def _list_waiting_demands(cluster: str, seen: Occupancy, settings: Settings) -> list[Demand]:
    found = [
        decide_planned_demand(cluster, seen.workload, each, settings)
        for each in seen.waiting_slices.values()
        if has_slice(seen.kind, seen.workload, each.name, seen.pods)
    ]
    return [each for each in found if isinstance(each, Demand)]


def _get_slice(pool: PoolSnapshot) -> str:
    return pool.owner.slice_name if pool.owner else ""


def _get_attempt(pool: PoolSnapshot) -> int:
    return pool.owner.attempt if pool.owner else 0
