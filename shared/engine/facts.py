"""Reads what a plan asks for: GKE's operations, what keeps machines away, the pods on nodes."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

from shared.engine.views import add_word, name_operations, read_records, view_stranger
from shared.model.pools import PoolStatus
from shared.plan.scene import Fact

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.engine.inventory import Inventory, WorkloadName
    from shared.engine.look import Look
    from shared.engine.outside import Ports
    from shared.engine.views import Named
    from shared.model.readings import BoundPod
    from shared.plan.scene import Ask, Pod


def add_facts(look: Look, asks: Sequence[Ask], ports: Ports) -> Look:
    """Return the look with what its plan asked for, which is read side by side.

    The pods on nodes are read last, because a deletion rests on them.

    Raises:
        ProvisionerError: something could not be read.
    """
    if any(ask.fact == Fact.OPERATIONS for ask in asks):
        look = _add_operations(look, ports)
    machines = [ask.pool for ask in asks if ask.fact == Fact.MACHINES]
    if machines:
        look = _add_machines(look, machines, ports)
    used = [ask.pool for ask in asks if ask.fact == Fact.USERS]
    return _add_users(look, used, ports) if used else look


def list_named(cluster: str, ports: Ports) -> list[Named]:
    """Return GKE's operations on pools with a name of ours."""
    return name_operations(ports.pools.list_operations(cluster))


def _add_operations(look: Look, ports: Ports) -> Look:
    scene, uid = look.scene, look.workload.uid if look.workload else ""
    named = list_named(look.key.cluster, ports)
    records = read_records(look.key, uid, scene.needs, named, scene.now)
    changed = dataclasses.replace(scene, creations=records.creations, deletions=records.deletions)
    return dataclasses.replace(look, scene=changed)


def _add_machines(look: Look, names: Sequence[str], ports: Ports) -> Look:
    read = [partial(ports.pools.read_machines, look.pools[name]) for name in names]
    machines = dict(zip(names, ports.crew.gather(read), strict=True))
    pools = tuple(
        add_word(pool, machines[pool.name], look.scene.now) if pool.name in machines else pool
        for pool in look.scene.pools
    )
    return dataclasses.replace(look, scene=dataclasses.replace(look.scene, pools=pools))


def _add_users(look: Look, names: Sequence[str], ports: Ports) -> Look:
    """Return the look with the pods of others on the nodes of some pools."""
    began_at, own = ports.clock.now(), {pod.uid for pod in look.pods}
    strangers: list[Pod] = []
    takers: set[WorkloadName] = set()
    for pod, pool in _read_users(look, names, ports):
        if pod.chips and pod.uid not in own:
            strangers.append(view_stranger(pod, pool))
            takers.add(pod.user)
    pools = tuple(
        dataclasses.replace(pool, users_read=True) if pool.name in names else pool
        for pool in look.scene.pools
    )
    scene = dataclasses.replace(
        look.scene,
        pools=pools,
        pods=(*look.scene.pods, *strangers),
        takers_served=are_served({*look.takers, *takers}, look.inventory),
    )
    return dataclasses.replace(
        look, scene=scene, takers=look.takers | takers, users_read_at=look.users_read_at or began_at
    )


def _read_users(look: Look, names: Sequence[str], ports: Ports) -> list[tuple[BoundPod, str]]:
    """Return the unfinished pods on the nodes of some pools, each with its pool."""
    live = ports.clusters[look.key.cluster]
    nodes = [(node.name, name) for name in names for node in look.nodes.get(name, ())]
    reads = [partial(live.list_bound_pods, node) for node, _ in nodes]
    return [
        (pod, pool)
        for (_, pool), pods in zip(nodes, ports.crew.gather(reads), strict=True)
        for pod in pods
    ]


def are_served(takers: Iterable[WorkloadName], inventory: Inventory) -> bool:
    """Return whether one of some workloads has a pool on its way."""
    return any(
        pool.status == PoolStatus.PROVISIONING
        for taker in takers
        for pool in inventory.by_owner.get(taker, ())
    )
