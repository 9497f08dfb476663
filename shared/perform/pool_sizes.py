"""Reads the present size of elastic pools, which GKE's list does not have."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import BROKEN, PoolStatus
from shared.perform.side_by_side import CALLS_AT_ONCE, get_runner

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Ports


def measure_elastic(
    pools: Sequence[PoolSnapshot], ports: Ports, *, autoscaled: bool = False
) -> tuple[PoolIndex, dict[str, Exception]]:
    """Return the pools, elastic pools with the size that they have now, read side by side.

    An elastic pool is measured in every status in which it may have grown since it was created.
    Autoscaled pools keep the size that they may grow to, unless `autoscaled` asks for theirs. A
    pool that cannot be measured keeps the size that it was created with; its error is returned by
    its name.
    """
    found, errors = {pool.name: pool for pool in pools}, dict[str, Exception]()
    elastic = [pool for pool in pools if _may_have_grown(pool) or (autoscaled and pool.autoscaled)]
    tasks = [partial(ports.pools.measure, pool) for pool in elastic]
    done = get_runner(ports)(tasks, at_once=CALLS_AT_ONCE, until=ports.until)
    for pool, size in zip(elastic, done, strict=True):
        if isinstance(size, Exception):
            errors[pool.name] = size
        else:
            found[pool.name] = pool.resized(size)
    return PoolIndex(list(found.values())), errors


def measure_pools(pools: Iterable[PoolSnapshot], ports: Ports) -> dict[str, int]:
    """Return how many nodes GKE keeps in each pool.

    Of one that it creates, those that are asked count, and of one whose creation failed those that
    are made.

    Raises:
        Retryable: GKE could not be asked.
    """
    return {each.name: _measure(each, ports) for each in pools}


def _measure(pool: PoolSnapshot, ports: Ports) -> int:
    if pool.status == PoolStatus.PROVISIONING:
        return pool.node_count
    size = ports.pools.measure(pool)
    if pool.status != PoolStatus.ERROR or not size:
        return size
    return max(0, size - len(ports.pools.list_missing(pool)))


def _may_have_grown(pool: PoolSnapshot) -> bool:
    created = pool.status not in (PoolStatus.PROVISIONING, PoolStatus.STOPPING)
    return pool.owner is not None and pool.owner.elastic and created


def is_resizable(pool: PoolSnapshot) -> bool:
    """Return whether a pool is an elastic pool of ours that may have nodes, with errors too."""
    return pool.owner is not None and pool.owner.elastic and pool.status in (PoolStatus.RUNNING, *BROKEN)
