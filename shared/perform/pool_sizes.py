"""Reads the present size of elastic pools, which GKE's list does not have."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import PoolStatus
from shared.perform.side_by_side import CALLS_AT_ONCE, get_runner

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Ports


def measure_elastic(
    pools: Sequence[PoolSnapshot], ports: Ports, *, autoscaled: bool = False
) -> tuple[PoolIndex, dict[str, Exception]]:
    """Return the pools, elastic pools with the size that they have now, read side by side.

    Autoscaled pools keep the size that they may grow to, unless `autoscaled` asks for theirs.

    A pool that cannot be measured keeps the size that it was created with; its error is returned
    by its name.
    """
    found, errors = {pool.name: pool for pool in pools}, dict[str, Exception]()
    elastic = [pool for pool in pools if is_resizable(pool) or (autoscaled and pool.autoscaled)]
    tasks = [partial(ports.pools.measure, pool) for pool in elastic]
    done = get_runner(ports)(tasks, at_once=CALLS_AT_ONCE, until=ports.until)
    for pool, size in zip(elastic, done, strict=True):
        if isinstance(size, Exception):
            errors[pool.name] = size
        else:
            found[pool.name] = pool.resized(size)
    return PoolIndex(list(found.values())), errors


def measure_pools(pools: Iterable[PoolSnapshot], ports: Ports) -> dict[str, int]:
    """Return how many nodes GKE keeps in each pool; of one that it creates, how many are asked.

    Raises:
        Retryable: GKE could not be asked.
    """
    return {
        each.name: each.node_count if each.status == PoolStatus.PROVISIONING else ports.pools.measure(each)
        for each in pools
    }


def is_resizable(pool: PoolSnapshot) -> bool:
    """Return whether a pool is a running elastic pool of ours.

    With a list of capacity it may run with errors, because it keeps its nodes when it cannot grow.
    """
    if pool.owner is None or not pool.owner.elastic:
        return False
    short = pool.status == PoolStatus.RUNNING_WITH_ERROR and pool.owner.candidates[1] > 1
    return short or pool.status == PoolStatus.RUNNING
