"""Reads why a pool has no nodes yet: its instance groups, and what GKE's autoscaler told the pod.

Only the sweep reads them, because its account has the rights and it comes once a minute, and what
shows an operator the present state. What cannot be read is left out and logged, because a time
decides without it, only later.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from shared.core.decide.filling import Filling, decide_trying
from shared.core.decisions import Decision, Reason
from shared.core.errors import Denied, ProvisionerError, Throttled
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
READS_MAX = 300
"""The most reads about pools, and the most about pods, in one sweep of a cluster: three for a pool
that is given up, and one for any other. Each takes up to three calls, and Compute Engine answers
1,500 in a minute for one project and region: https://cloud.google.com/compute/api-quota. The rest
is decided by the time."""
TRYING_SECONDS = 30.0
"""GKE makes the instance groups of a pool about so long after it has accepted it."""
_LOG = logging.getLogger("fillings")


class OptionalReads:
    """A port of which one method only tells more, so that it is called so often and no more.

    After an answer that says no to each such call (a permission is missing, or 429), the method is
    not called again. It returns None then.
    """

    def __init__(self, port: object, method: str, *, apart: object = None, reads_max: int = READS_MAX) -> None:
        """Prepare; `apart` has the method if its errors must not change what the port does."""
        self._port, self._method, self._apart = port, method, apart or port
        self._lock, self._left, self._refused = threading.Lock(), reads_max, False

    def __getattr__(self, name: str) -> Any:
        """Return a method of the port."""
        return self._read if name == self._method else getattr(self._port, name)

    def _read(self, *given: object) -> object:
        with self._lock:
            if self._left <= 0:
                return None
            self._left -= 1
        try:
            return getattr(self._apart, self._method)(*given)
        except (Denied, Throttled):
            with self._lock:
                first, self._refused, self._left = not self._refused, True, 0
            if first:
                raise
            return None


def read_filling(cluster: str, pod: PodView, pool: PoolSnapshot, ports: Ports) -> Filling:
    """Return what is known about the nodes that a pool of the pod's slice is to get."""
    if not ports.reads_fillings:
        return Filling()
    live = ports.clusters[cluster]
    told = _try_to_read(f"Pod {pod.namespace}/{pod.name}", partial(live.list_scale_ups, pod))
    # The machines come last: no other read is between them and a deletion.
    machines = _try_to_read(f"node pool {pool.name}", partial(ports.pools.read_machines, pool))
    return Filling(machines=machines, told=told, looked=True)


def tell_trying(
    demand: Demand, found: AttemptDecision, ports: Ports, pools: Sequence[PoolSnapshot]
) -> AttemptDecision:
    """Return what was decided, with what GKE says while it creates the pool with its nodes.

    Args:
        demand: what the slice needs.
        found: what was decided about its pool.
        ports: the outside world.
        pools: every pool of the cluster.
    """
    pool = PoolIndex.of(pools).find(build_pool_name(demand.claim, found.attempt))
    if pool is None or found.decision.reason != Reason.POOL_IN_PROGRESS:
        return found
    told = read_trying(demand.on_attempt(found.attempt), pool, ports)
    return replace(found, decision=told) if told else found


def read_trying(demand: Demand, pool: PoolSnapshot, ports: Ports) -> Decision | None:
    """Return what GKE says while it creates a pool with its nodes; None if it says nothing.

    Args:
        demand: what the slice needs, on the attempt of the pool.
        pool: of the slice, in any status.
        ports: the outside world.
    """
    now = ports.clock.now()
    creates = pool.status == PoolStatus.PROVISIONING and not pool.autoscaled
    if not (ports.reads_fillings and creates and pool.is_older(TRYING_SECONDS, now)):
        return None
    machines = _try_to_read(f"node pool {pool.name}", partial(ports.pools.read_machines, pool))
    return decide_trying(demand, pool, machines, now=now) if machines else None


def _try_to_read(what: str, read: Callable[[], T]) -> T | None:
    try:
        return read()
    except ProvisionerError as error:
        _LOG.warning("what keeps a node pool empty could not be read", extra={"object": what, "error": str(error)})
        return None
