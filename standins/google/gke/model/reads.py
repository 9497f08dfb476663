"""What get and list show: the present, or the past when a fault makes reads lag.

Changes no pool.
"""

from standins.google.gke.errors import pool_not_found
from standins.google.gke.faults.fault_rules import Get404AfterCreate, ReadLag, StaleList
from standins.google.gke.model.proto_messages import Message, copy_of
from standins.google.gke.model.state import ClusterRecord, Version, World


class Reads:
    """Answers get and list for pools."""

    def __init__(self, world: World) -> None:
        self._world = world

    def pool(self, cluster: ClusterRecord, name: str) -> Message:
        """Return a pool as a get shows it now; raises ApiError (NOT_FOUND)."""
        target = self._world.target(cluster.name, cluster.pools.get(name), name, "GetNodePool")
        lag = self._world.faults.in_force(ReadLag(seconds=0.0), target)
        shown = self._as_of(cluster, name, lag.seconds)
        if shown is None or shown.message is None:
            raise pool_not_found(name)
        if self._world.faults.take(Get404AfterCreate, target) is not None:
            raise pool_not_found(name)
        return copy_of(shown.message)

    def pools(self, cluster: ClusterRecord) -> list[Message]:
        """Return every pool of a cluster as a list shows it now, by name."""
        shown = (self._in_list(cluster, name) for name in sorted(set(cluster.pools) | set(cluster.history)))
        return [message for message in shown if message is not None]

    def _in_list(self, cluster: ClusterRecord, name: str) -> Message | None:
        target = self._world.target(cluster.name, cluster.pools.get(name), name, "ListNodePools")
        lag = self._world.faults.in_force(ReadLag(seconds=0.0), target)
        stale = self._world.faults.in_force(StaleList(seconds=0.0, created=False), target)
        shown = self._as_of(cluster, name, max(lag.seconds, stale.seconds))
        if shown is None or shown.message is None:
            return None
        if stale.created and shown.finished_at is None:
            return None
        return copy_of(shown.message)

    def _as_of(self, cluster: ClusterRecord, name: str, seconds: float) -> Version | None:
        moment = self._world.now - seconds
        past = [version for version in cluster.history.get(name, []) if version.at <= moment]
        return past[-1] if past else None
