"""Compares a plan with the node pools that run for the same workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cli.plan import PlannedSlice
    from shared.core.identity.pools import PoolSnapshot


def compare(planned: Sequence[PlannedSlice], pools: Iterable[PoolSnapshot]) -> list[str]:
    """Return a line for each pool that the plan adds, keeps, changes or no longer needs.

    A pool is that of a slice by the names in its labels, so the slices of a workload whose name is
    generated are always new.
    """
    mine = {
        (pool.owner.kind, pool.owner.namespace, pool.owner.name, pool.owner.slice_name): pool
        for pool in pools
        if pool.owner is not None
    }
    lines, wanted = [], set()
    for each in planned:
        key = (each.kind, each.namespace, each.workload, each.slice)
        wanted.add(key)
        pool = mine.get(key)
        if each.demand is None or not each.creates:
            continue
        if pool is None or pool.owner is None:
            lines.append(f"+ {each.namespace}/{each.slice}: a new pool, {each.demand.shape}")
        elif pool.owner.was_made_for(each.demand.fingerprint):
            lines.append(f"= {each.namespace}/{each.slice}: node pool {pool.name} ({pool.status}) serves it")
        else:
            what = f"node pool {pool.name} ({pool.status}) does not have this shape, {each.demand.shape}"
            lines.append(f"~ {each.namespace}/{each.slice}: {what}")
    workloads = {key[:3] for key in wanted}
    lines += [
        f"- {key[1]}/{key[3]}: node pool {pool.name} goes; the manifest has no such slice"
        for key, pool in sorted(mine.items())
        if key[:3] in workloads and key not in wanted
    ]
    return lines
