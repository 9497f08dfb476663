"""Ends a delivery in time: after its end no call to GKE or to a cluster begins any more."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from shared.core.errors import OutOfTime

if TYPE_CHECKING:
    from shared.core.ports import Clock, Cluster, NodePools, Ports, Queues


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

    A call that has begun may end later, by at most its own time-out. Dead letters are kept at any
    time.
    """
    until = min(until, ports.until)
    return dataclasses.replace(
        ports,
        until=until,
        pools=cast("NodePools", _Bounded(ports.pools, ports.clock, until)),
        clusters={
            name: cast("Cluster", _Bounded(live, ports.clock, until)) for name, live in ports.clusters.items()
        },
        queues={name: cast("Queues", _Bounded(each, ports.clock, until)) for name, each in ports.queues.items()},
    )
