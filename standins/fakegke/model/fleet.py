"""The hosts of a pool: their names, when they come up, and how they go.

What for is decided in `lifecycle`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from standins.fakegke.faults.fault_rules import LateNodes
from standins.fakegke.model.node_events import NodeChanged, NodesDown, NodesDraining, NodeUp
from standins.fakegke.model.node_objects import Node, node_object

if TYPE_CHECKING:
    from standins.fakegke.model.state import ClusterRecord, PoolRecord, World

_LETTERS = "bcdfghjklmnpqrstvwxz0123456789"


class Fleet:
    """Brings nodes up one by one and takes them down, telling the listeners."""

    def __init__(self, world: World) -> None:
        self._world = world

    def bring_up(self, cluster: ClusterRecord, pool: PoolRecord, count: int, seconds: float) -> None:
        """Let `count` nodes come up across the last part of the next `seconds`.

        Some later if a fault says so.
        """
        world = self._world
        pool.target += max(count, 0)
        late = world.faults.take(LateNodes, world.target(cluster.name, pool)) if count > 0 else None
        first = world.scenario.timings.nodes_from * seconds
        for index in range(count):
            due = first + (seconds - first) * (index + 1) / (count + 1)
            if late is not None and index >= count - late.nodes:
                due = seconds + late.seconds
            self._schedule(cluster, pool, index, due)

    def _schedule(self, cluster: ClusterRecord, pool: PoolRecord, index: int, due: float) -> None:
        zone = pool.zones[index % len(pool.zones)]
        entry = self._world.agenda.after(due, lambda: self._up(cluster, pool, zone))
        pool.pending_nodes.append(entry)

    def _up(self, cluster: ClusterRecord, pool: PoolRecord, zone: str) -> None:
        node = self._node(cluster, pool, self._new_name(cluster, pool, zone), zone)
        pool.nodes[node.name] = node
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
            if name not in pool.nodes:
                return name

    def stop_arrivals(self, pool: PoolRecord) -> None:
        """Forget nodes that have not come up yet."""
        pool.target, pool.short = len(pool.nodes), 0
        for entry in pool.pending_nodes:
            entry.cancelled = True
        pool.pending_nodes.clear()

    def stop_waiting(self, pool: PoolRecord) -> None:
        """Forget nodes that there are no machines for."""
        pool.target, pool.short = pool.granted, 0

    def give_up(self, pool: PoolRecord, count: int) -> None:
        """Forget some of the nodes that there are no machines for."""
        pool.target, pool.short = pool.target - count, pool.short - count

    def drain(self, cluster: ClusterRecord, pool: PoolRecord, names: list[str]) -> None:
        """Announce that nodes are about to go."""
        if names:
            self._world.tell(NodesDraining(cluster.name, pool.name, names))

    def take_down(self, cluster: ClusterRecord, pool: PoolRecord, names: list[str]) -> None:
        """Remove nodes."""
        for name in names:
            if pool.nodes.pop(name, None) is not None:
                pool.target -= 1
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
