"""What the groups of a pool do when they are told another size, without an operation of GKE.

The autoscaler resizes groups: https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers/resize.
What GKE's own operations do is in `lifecycle`.
"""

from fnmatch import fnmatchcase

from standins.google.gke.faults.fault_rules import Outcome
from standins.google.gke.model.causes import NO_RESERVATION
from standins.google.gke.model.fleet import Fleet
from standins.google.gke.model.outcomes import kind_of
from standins.google.gke.model.proto_messages import reservation_of
from standins.google.gke.model.state import ClusterRecord, PoolRecord, World
from standins.google.gke.model.supply import Supply


class Growth:
    """Adds instances to a pool's groups and removes them."""

    def __init__(self, world: World, fleet: Fleet, supply: Supply) -> None:
        self._world = world
        self._fleet = fleet
        self._supply = supply

    def grow(self, cluster: ClusterRecord, pool: PoolRecord, count: int, zones: list[str] | None = None) -> None:
        """Let a pool's groups have `count` more instances, without an operation of GKE.

        They come when there are machines, and wait as long as there are none.
        """
        target = self._world.target(cluster.name, pool)
        fault = self._world.faults.take(Outcome, target, lambda fault: fault.kind != "invalid")
        if fault is None and not self.lacks_reservation(pool):
            self._supply.expect(cluster, pool, count, zones)
            return
        can_come = 0
        if fault is not None and fault.kind in ("ok", "partial"):
            can_come = count if fault.kind == "ok" else min(fault.nodes, count)
        if can_come:
            bounds = self._world.scenario.timings.create_single
            seconds = self._world.draw("supply", cluster.name, pool.name, bounds)
            self._fleet.expect(cluster, pool, can_come, zones)
            self._fleet.grant(cluster, pool, list(pool.waiting)[-can_come:], seconds)
        if can_come < count:
            kind = NO_RESERVATION if fault is None else kind_of(fault)
            self._supply.block(cluster, pool, kind, fault=fault, count=count - can_come, zones=zones)

    def shrink(self, cluster: ClusterRecord, pool: PoolRecord, names: list[str]) -> None:
        """Remove instances of a pool's groups by name, which keep so many fewer from now on."""
        nodes = [name for name in names if name in pool.nodes]
        self._fleet.drain(cluster, pool, nodes)
        self._fleet.take_down(cluster, pool, nodes)
        self._fleet.forget(pool, names)
        self._supply.fill()

    def lacks_reservation(self, pool: PoolRecord) -> bool:
        """Return whether the pool names a reservation that is not there."""
        name = reservation_of(pool.message)
        held = self._world.scenario.reservation(name)
        return bool(name) and (held is None or not fnmatchcase(pool.zones[0], held.zone))
