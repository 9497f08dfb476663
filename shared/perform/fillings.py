"""Reads why a pool has no nodes yet: its instance groups, and what GKE's autoscaler told the pod.

Only the sweep reads them: its account has the rights, and it comes once a minute. What cannot be
read is left out and logged, because a time decides without it, only later.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from shared.core.decide.filling import Filling, decide_trying
from shared.core.errors import ProvisionerError
from shared.core.identity.names import build_pool_name
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import PoolStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shared.core.decide.attempts import AttemptDecision
    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Ports
    from shared.core.workloads import PodView

T = TypeVar("T")
_LOG = logging.getLogger("fillings")


def read_filling(cluster: str, pod: PodView, pool: PoolSnapshot, ports: Ports) -> Filling:
    """Return what is known about the nodes that a pool of the pod's slice is to get."""
    live = ports.clusters[cluster]
    machines = _try_to_read(f"node pool {pool.name}", lambda: ports.pools.read_machines(pool))
    told = _try_to_read(f"Pod {pod.namespace}/{pod.name}", lambda: live.list_scale_up_errors(pod))
    return Filling(machines=machines, told=told or ())


def tell_trying(
    demand: Demand, found: AttemptDecision, ports: Ports, pools: Sequence[PoolSnapshot] | None, *, sweeps: bool
) -> AttemptDecision:
    """Return what was decided, with what GKE says while it creates the pool with its nodes.

    Args:
        demand: what the slice needs.
        found: what was decided about its pool.
        ports: the outside world.
        pools: every pool of the cluster, if they were listed.
        sweeps: this is a sweep. Nothing else reads the groups.
    """
    pool = PoolIndex.of(pools or ()).find(build_pool_name(demand.claim, found.attempt))
    if not sweeps or pool is None or pool.status != PoolStatus.PROVISIONING or pool.autoscaled:
        return found
    machines = _try_to_read(f"node pool {pool.name}", lambda: ports.pools.read_machines(pool))
    told = (
        decide_trying(demand.on_attempt(found.attempt), pool, machines, now=ports.clock.now())
        if machines
        else None
    )
    return replace(found, decision=told) if told else found


def _try_to_read(what: str, read: Callable[[], T]) -> T | None:
    try:
        return read()
    except ProvisionerError as error:
        _LOG.warning("what keeps a node pool empty could not be read", extra={"object": what, "error": str(error)})
        return None
