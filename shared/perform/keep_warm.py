"""Keeps the record of how long a pool is idle, and lets idle pools make room under a limit.

Only a sweep does this, because only its account may write the taint that is the record.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from shared.core.decide.freshness import is_fresh
from shared.core.decide.warm_pools import (
    decide_idle_marking,
    plan_marks,
)
from shared.core.errors import OldLook
from shared.perform.emergency_stop import find_stop

if TYPE_CHECKING:
    from shared.core.decide.pool_facts import PoolFacts
    from shared.core.decisions import Decision
    from shared.core.ports import Ports

_LOG = logging.getLogger("warm")


def mark_nodes(cluster: str, facts: PoolFacts, ports: Ports, *, looked_at: float) -> Decision | bool:
    """Write on a pool's nodes since when it is idle, as the facts show it.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        facts: with the pods on the pool and the marks of its nodes.
        ports: the outside world.
        looked_at: when the first read of these facts began, in unix seconds.

    Returns:
        Whether the nodes were closed to new pods, so that another look may delete the pool; the
        decision if the cluster's label stops the marking.

    Raises:
        OldLook: the facts are too old; nothing was written.
        Retryable: a node could not be read or written, or another process changed it.
        Denied: the permission to change nodes is missing.
    """
    name, now = facts.pool.name, ports.clock.now()
    plan = plan_marks(facts, now=now, settings=ports.settings)
    if not plan:
        return False
    if stopped := find_stop(cluster, decide_idle_marking(name), ports):
        return stopped
    if not is_fresh(looked_at, now=ports.clock.now(), objects=facts.pool.node_count):
        raise OldLook(f"the nodes of node pool {name} were not marked, because the look at it took too long")
    for node, (since, closed) in plan.items():
        ports.clusters[cluster].mark_surplus(node, since, closed=closed)
    since, closed = next(iter(plan.values()))
    what = "in use" if since is None else "closed" if closed else "idle"
    said = {"pool": name, "state": what, "idle_since": since, "nodes": len(plan)}
    _LOG.info("nodes of a node pool that may stay idle were marked", extra=said)
    return closed
