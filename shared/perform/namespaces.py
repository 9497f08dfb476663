"""Whether a namespace leaves its pods to somebody else; read when something is about to be bought, not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.demand import Demand, find_namespace_obstacle

if TYPE_CHECKING:
    from shared.core.decisions import Decision
    from shared.perform.outcome import Ports


def read_namespace_obstacle(demand: Demand, ports: Ports) -> Decision | None:
    """Return why nothing is to be bought for the demand's namespace as it is now; None when something may be.

    Raises:
        Retryable: the namespace could not be read.
        Denied: it may not be read.
    """
    live = ports.clusters[demand.claim.cluster]
    return find_namespace_obstacle(demand, live.get_namespace_labels(demand.claim.namespace))
