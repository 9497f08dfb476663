"""Decides what the end of a node pool operation says of a pool. Pure and total."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.decisions import Decision, Reason, Verdict
from shared.core.identity.pools import PoolStatus

if TYPE_CHECKING:
    from shared.core.identity.pools import PoolSnapshot

_MADE = (PoolStatus.RUNNING, PoolStatus.RECONCILING)


def decide_succeeded(pool: PoolSnapshot | None) -> Decision | None:
    """Return what to tell the owner of a pool whose creation is said to have succeeded.

    It is None when the pool, as it is now, does not bear that out: then the leader that waits for
    it is answered, as after any other end.
    """
    if pool is None or pool.owner is None or pool.status not in _MADE:
        return None
    nodes = f"; its autoscaler adds {pool.node_count} nodes when there is capacity" if pool.autoscaled else ""
    return Decision(Verdict.KEEP, Reason.POOL_CREATED, f"GKE has created node pool {pool.name}{nodes}")


def decide_left(pool_name: str) -> Decision:
    """Return the decision about a slice without a pool: only the sweep reads what GKE created."""
    message = f"node pool {pool_name} does not exist; the next sweep creates it, or waits if its creation failed"
    return Decision(Verdict.WAIT, Reason.POOL_GONE, message)


def decide_unrelated(what: str) -> Decision:
    """Return the decision about an entry of the log that concerns no pool of this deployment."""
    return Decision(Verdict.NOTHING, Reason.ENTRY_NOT_OURS, f"{what}; nothing was looked up")


def decide_unclaimed(pool_name: str) -> Decision:
    """Return the decision when no leader pod waits for the pool whose operation has ended."""
    return Decision(Verdict.NOTHING, Reason.DEMAND_GONE, f"no leader pod waits for node pool {pool_name}")
