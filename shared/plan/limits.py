"""What a limit counts of a pool. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.plan.short import has_failed

if TYPE_CHECKING:
    from shared.plan.scene import Need, Pool, Scene

ELASTIC_NODES_MAX = 1000
"""The most nodes of one node pool: https://cloud.google.com/kubernetes-engine/quotas."""


def count_nodes(pool: Pool) -> int:
    """Return for how many nodes a pool counts: the larger of those that exist and may come.

    A failed pool without nodes counts as none, and so does one that is switched off, whose maximum
    is 0.
    """
    if has_failed(pool) and not pool.ready:
        return 0
    return max(pool.maximum, pool.ready or 0)


def count_affordable(scene: Scene, need: Need, wanted: int) -> int:
    """Return how many more pools of a need the limits leave room for, at most those wanted.

    A workload in Kueue's queue gets all that it lacks, or none: a part of it is of no use.
    """
    chips = need.hosts * max(need.asks.shape.units, 1)
    affordable = min(wanted, max(0, scene.room) // chips)
    if scene.queue and affordable < wanted:
        return 0
    return affordable


def count_more_nodes(scene: Scene, need: Need) -> int:
    """Return for how many more nodes of an elastic need the limits leave room."""
    return max(0, scene.room) // max(need.asks.shape.units, 1)
