"""The hosts of a pool: their names, when they come up, and how they go.

What for is decided in `lifecycle`.
"""

import hashlib
from functools import partial

from standins.google.gke.faults.fault_rules import LateNodes
from standins.google.gke.model.instances import Coming
from standins.google.gke.model.node_events import NodeChanged, NodesDown, NodesDraining, NodeUp
from standins.google.gke.model.node_objects import Node, node_object
from standins.google.gke.model.state import ClusterRecord, PoolRecord, World

_LETTERS = "bcdfghjklmnpqrstvwxz0123456789"


class Fleet:
    """Brings nodes up one by one and takes them down, telling the listeners."""

    def __init__(self, world: World) -> None:
        self._world = world

    def bring_up(self, cluster: ClusterRecord, pool: PoolRecord, count: int, seconds: float) -> None:
        """Let `count` nodes come up across the last part of the next `seconds`.

        Some later if a fault says so.
        """
        self.expect(cluster, pool, count)
        self.grant(cluster, pool, list(pool.waiting)[pool.short - max(count, 0) :], seconds)

    def expect(self, cluster: ClusterRecord, pool: PoolRecord, count: int, zones: list[str] | None = None) -> None:
        """Let the groups of these zones (default: all) have `count` more instances, which wait."""
        zones = zones or pool.zones
        for index in range(count):
            zone = zones[index % len(zones)]
            pool.waiting[self._new_name(cluster, pool, zone)] = zone

    def grant(self, cluster: ClusterRecord, pool: PoolRecord, names: list[str], seconds: float) -> None:
        """Give waiting instances their machines: they are nodes within `seconds`."""
        world, count = self._world, len(names)
        late = world.faults.take(LateNodes, world.target(cluster.name, pool)) if names else None
        first = world.scenario.timings.nodes_from * seconds
        zones = {name: pool.waiting[name] for name in names}
        pool.forget_waiting(names, world.now)
        for index, name in enumerate(names):
            due = first + (seconds - first) * (index + 1) / (count + 1)
            if late is not None and index >= count - late.nodes:
                due = seconds + late.seconds
            entry = world.agenda.after(due, partial(self._up, cluster, pool, name))
            pool.coming[name] = Coming(zones[name], world.now, world.now + due, entry)

    def _up(self, cluster: ClusterRecord, pool: PoolRecord, name: str) -> None:
        node = self._node(cluster, pool, name, pool.coming.pop(name).zone)
        pool.nodes[name] = node
        self._world.tell(NodeUp(node))

    def _node(self, cluster: ClusterRecord, pool: PoolRecord, name: str, zone: str) -> Node:
        return node_object(cluster.name, pool.message, pool.shape.machine, pool.shape.topology, (name, zone))

    def _new_name(self, cluster: ClusterRecord, pool: PoolRecord, zone: str) -> str:
        chance = self._world.chance(f"node:{cluster.name.cluster}:{pool.name}")
        while True:
            suffix = "".join(chance.choices(_LETTERS, k=4))
            if pool.shape.machine.is_tpu:
                name = f"gke-tpu-{group_hash(cluster, pool, zone)}-{suffix}"
            else:
                name = f"{group_name(cluster, pool, zone)}-{suffix}"
            if not pool.zone_of(name):
                return name

    def stop_arrivals(self, pool: PoolRecord) -> None:
        """Forget nodes that have not come up yet."""
        self.forget(pool, [*pool.coming, *pool.waiting])

    def stop_waiting(self, pool: PoolRecord) -> None:
        """Forget nodes that there are no machines for."""
        self.forget(pool, list(pool.waiting))

    def forget(self, pool: PoolRecord, names: list[str]) -> None:
        """Forget some instances that are no nodes; others are left alone."""
        for name in set(names) & set(pool.coming):
            pool.coming.pop(name).entry.cancelled = True
        pool.forget_waiting([name for name in names if name in pool.waiting], self._world.now)

    def drain(self, cluster: ClusterRecord, pool: PoolRecord, names: list[str]) -> None:
        """Announce that nodes are about to go."""
        if names:
            self._world.tell(NodesDraining(cluster.name, pool.name, names))

    def take_down(self, cluster: ClusterRecord, pool: PoolRecord, names: list[str]) -> None:
        """Remove nodes."""
        for name in names:
            pool.nodes.pop(name, None)
        if names:
            self._world.tell(NodesDown(cluster.name, pool.name, names))

    def relabel(self, cluster: ClusterRecord, pool: PoolRecord) -> None:
        """Bring labels and taints of the nodes that are up in line with the pool's description."""
        for name, old in list(pool.nodes.items()):
            new = self._node(cluster, pool, name, old.zone)
            before, after = old.manifest["metadata"]["labels"], new.manifest["metadata"]["labels"]
            pool.nodes[name] = new
            self._world.tell(NodeChanged(new, sorted(set(before) - set(after))))


def group_hash(cluster: ClusterRecord, pool: PoolRecord, zone: str) -> str:
    """Return the eight hex digits of a pool's managed instance group in one zone."""
    text = f"{cluster.name.path}/{pool.name}/{zone}/{pool.accepted_at}"
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def group_name(cluster: ClusterRecord, pool: PoolRecord, zone: str) -> str:
    """Return the stem of instance names: cluster and pool, squeezed, and the hash."""
    stem = f"gke-{cluster.name.cluster[:16].rstrip('-')}-{pool.name[:16].rstrip('-')}"
    return f"{stem}-{group_hash(cluster, pool, zone)}"


def group_urls(cluster: ClusterRecord, pool: PoolRecord) -> list[str]:
    """Return the URLs of a pool's managed instance groups, one for each zone."""
    return [
        f"https://www.googleapis.com/compute/v1/projects/{cluster.name.project}/zones/{zone}"
        f"/instanceGroupManagers/{group_name(cluster, pool, zone)}-grp"
        for zone in pool.zones
    ]
