"""Decides about a running pool that has lost nodes of its slice. Pure.

GKE removed nodes and adds them again when there is capacity, for spot perhaps never. If the demand
has a list of capacity, another candidate may have room, so the pool counts as failed after a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.decide.filling import is_empty
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.pools import PoolStatus
from shared.core.settings import Mode
from shared.core.times import measure_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.settings import Settings
    from shared.core.workloads import NodeView, PodView

LOST_GRACES = 2
"""A pool is kept for so many graces without its nodes: GKE creates those of a slice in minutes."""


def decide_lost(
    demand: Demand, pod: PodView, pool: PoolSnapshot, nodes: Sequence[NodeView], *, now: float, settings: Settings
) -> Decision | None:
    """Return what follows if a running pool has had too few nodes for long; None if it has not.

    Those that are left must be as old: a younger one shows that GKE is adding them again. DELETE
    means that the list of capacity is tried from the beginning. A TPU slice needs all of its hosts,
    so pods on the other hosts lose nothing. Jobs on GPUs may continue with fewer nodes, so such a
    pool must have lost all of them. An autoscaled pool without nodes may get all of them again:
    `shared.core.decide.filling` decides about it.

    The wait of the pod is the proof that the pool of its slice does not serve.
    """
    active = settings.find_mode(demand.claim.namespace) == Mode.ACTIVE
    if demand.elastic or pool.status != PoolStatus.RUNNING or not active or is_empty(pool, nodes):
        return None
    patience = LOST_GRACES * settings.grace_seconds
    waits = [
        measure_seconds(since, now) for since in (pod.unschedulable_since, *(each.created_at for each in nodes))
    ]
    if not pool.is_older(patience, now) or any(each is None or each < patience for each in waits):
        return None
    missing = pool.node_count - len(nodes)
    if missing <= 0 or demand.choices == 1 or (nodes and demand.shape.gpus):
        return None
    message = (
        f"node pool {pool.name} has lost {missing} of its {pool.node_count} nodes, and its pods wait for more "
        f"than {patience} s; it is deleted, and the list of capacity is tried from the beginning"
    )
    return Decision(Verdict.DELETE, Reason.POOL_DEGRADED, message)
