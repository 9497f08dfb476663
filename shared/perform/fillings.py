"""Reads why a pool has no nodes yet: its instance groups, and what GKE's autoscaler told the pod.

Only the sweep reads them, because its account has the rights and it comes once a minute, and what
shows an operator the present state. What cannot be read is left out and logged, because a time
decides without it, only later.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from shared.core.decide.filling import Filling, decide_trying
from shared.core.errors import Denied, ProvisionerError, Throttled
from shared.core.identity.pools import PoolStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.core.decisions import Decision
    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Machines
    from shared.core.workloads import PodView
    from shared.perform.look import Look

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


def read_filling(look: Look, pod: PodView, pool: PoolSnapshot) -> Filling:
    """Return what is known about the nodes that a pool of the pod's slice is to get."""
    if not look.ports.reads_fillings:
        return Filling()
    told = _try_to_read(f"Pod {pod.namespace}/{pod.name}", partial(look.live.list_scale_ups, pod))
    # The machines come last: no other read is between them and a deletion.
    return Filling(machines=_read_machines(look, pool), told=told, looked=True)


def read_trying(look: Look, demand: Demand, pool: PoolSnapshot | None) -> Decision | None:
    """Return what GKE says while it creates a pool with its nodes; None if it says nothing.

    The demand may be on any attempt, and the pool of its slice in any status, or absent.
    """
    now = look.now()
    creates = pool is not None and pool.status == PoolStatus.PROVISIONING and not pool.autoscaled
    if pool is None or not (look.ports.reads_fillings and creates and pool.is_older(TRYING_SECONDS, now)):
        return None
    machines = _read_machines(look, pool)
    tried = demand.on_attempt(pool.owner.attempt if pool.owner else 0)
    return decide_trying(tried, pool, machines, now=now) if machines else None


def _read_machines(look: Look, pool: PoolSnapshot) -> Machines | None:
    return _try_to_read(f"node pool {pool.name}", partial(look.ports.pools.read_machines, pool))


def _try_to_read(what: str, read: Callable[[], T]) -> T | None:
    try:
        return read()
    except ProvisionerError as error:
        _LOG.warning("what keeps a node pool empty could not be read", extra={"object": what, "error": str(error)})
        return None
