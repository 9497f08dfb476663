"""Ports that are asked less: not after the end of a delivery, not after a 429, not too often."""

from __future__ import annotations

import dataclasses
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.core.errors import Denied, OutOfTime, Throttled
from shared.engine.looks.side_by_side import PAUSE_SECONDS

if TYPE_CHECKING:
    from shared.core.ports import Clock, NodePools, Ports
READS_MAX = 300  # assumes: compute-rate
"""The most reads about pools, and the most about pods, in one sweep of a cluster: three for a pool
that is given up, and one for any other. Each takes up to three calls, and Compute Engine answers
1,500 in a minute for one project and region: https://cloud.google.com/compute/api-quota. The rest
is decided by the time."""


@dataclass(frozen=True, slots=True)
class _Bounded:
    """Any port, of which every method raises `OutOfTime` after the end."""

    port: Any
    clock: Clock
    until: float

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.port, name)

        def call(*args: Any, **named: Any) -> Any:
            if self.clock.now() >= self.until:
                raise OutOfTime(f"the time of this delivery is over, so nothing more is asked ({name})")
            return method(*args, **named)

        return call


def bound_ports(ports: Ports, until: float) -> Ports:
    """Return the same ports; GKE and the clusters are asked only before a time (unix seconds).

    A call that has begun may end later, by at most its own time-out.
    """
    until = min(until, ports.until)

    def bound(port: object) -> Any:
        inner = port.port if isinstance(port, _Bounded) else port  # which was bound to a later time
        return _Bounded(inner, ports.clock, until)

    return dataclasses.replace(
        ports,
        until=until,
        pools=bound(ports.pools),
        clusters={name: bound(live) for name, live in ports.clusters.items()},
        queues={name: bound(each) for name, each in ports.queues.items()},
    )


class RestingPools:
    """The node pools of one cluster. A method that got 429 rests for as long as GKE advised.

    Such a call gets a `Throttled` of the same words, so that it can be tried again by `run_paced`
    or by the next sweep. Calls that run at that moment, and other methods, are not touched.
    """

    def __init__(self, pools: NodePools, clock: Clock) -> None:
        """Begin without a rest."""
        self._pools, self._clock = pools, clock
        self._rests: dict[str, tuple[float, str]] = {}
        """By method: the end of its rest, in unix seconds, and GKE's words."""

    def __getattr__(self, name: str) -> Any:
        """Return a method of the port."""
        method = getattr(self._pools, name)

        def call(*args: Any, **named: Any) -> Any:
            (until, cause), now = self._rests.get(name, (0.0, "")), self._clock.now()
            if now < until:
                raise Throttled(cause, retry_after_seconds=until - now)
            try:
                return method(*args, **named)
            except Throttled as error:
                seconds = error.retry_after_seconds or PAUSE_SECONDS
                self._rests[name] = (self._clock.now() + seconds, str(error))
                raise

        return call


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
