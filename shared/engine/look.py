"""Reads what one workload has and wants, and makes the scene of it.

A look is made from live reads, from the lists of a tick, or from another look again. Within a look
pools come before pods: a pool that is listed too early may only lead to one create too few.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from shared.engine.budget import Room, Turns
from shared.engine.inventory import Inventory
from shared.engine.kueue import Standing, read_standing
from shared.engine.reads import (
    Reads,
    are_served,
    find_strongest,
    find_user,
    list_operations,
    map_nodes,
)
from shared.engine.views import Records, has_lost_nodes, read_records, view_pool, view_stranger
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.times import measure_seconds
from shared.needs.wanted import PodRefusal, Wanted, list_wanted
from shared.plan.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.engine.inventory import WorkloadName
    from shared.engine.outside import Ports
    from shared.engine.reads import StopAndCause
    from shared.engine.views import Operations
    from shared.model.pools import NodePool
    from shared.model.readings import PoolNode
    from shared.model.workloads import Parent, PodView, WorkloadView
    from shared.plan.scene import Pod, Pool

DELIVERY_SECONDS = 50.0
"""How long after its beginning a delivery begins an act; every request ends within 55 s."""


@dataclass(frozen=True, slots=True)
class Key:
    """One workload of one cluster, by its name."""

    cluster: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    """Empty for the one that has the name now; else that one only, and it may be gone."""

    @property
    def workload(self) -> WorkloadName:
        """Return kind, namespace and name."""
        return self.kind, self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(slots=True)
class Memory:
    """What a process remembers. Without it acts come later, and never wrongly."""

    missing_since: dict[tuple[str, str], float] = field(default_factory=dict)
    """By cluster and pool, when nodes were first seen to be missing, in unix seconds."""
    spare: dict[str, frozenset[str]] = field(default_factory=dict)
    """By cluster, the pools that the last tick found too many."""
    inventories: dict[str, Inventory] = field(default_factory=dict)
    """By cluster, the newest list of pools."""
    acted: dict[Key, float] = field(default_factory=dict)
    """When something was added for a workload; an older list of pools does not show it."""
    uids: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By cluster, the UID of its namespace ``kube-system``, and when that was read."""
    told: dict[tuple[str, ...], float] = field(default_factory=dict)
    """What a tick has told, and when."""
    left: dict[str, tuple[Key, ...]] = field(default_factory=dict)
    """By cluster, the keys for which the last tick had no time."""
    turns: Turns = field(default_factory=Turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """What a tick has read of a cluster once for all of its looks."""

    inventory: Inventory
    nodes: Mapping[str, Sequence[PoolNode]]
    """By pool."""
    pools_of: Mapping[str, str]
    """The pool of each of these nodes."""
    pods: Mapping[WorkloadName, Sequence[PodView]]
    """The accelerator pods of the cluster by kind, namespace and name of their workload."""
    users: Mapping[str, Sequence[PodView]]
    """The accelerator pods on each pool of ours."""
    operations: Operations
    began_at: float
    until: float
    """When the last act may begin."""
    stops: dict[str, StopAndCause] = field(default_factory=dict)
    """By namespace, as far as looks have read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look saw, with what its acts need beside the scene."""

    key: Key
    scene: Scene
    wanted: Wanted
    workload: WorkloadView | None
    pools: Mapping[str, NodePool]
    """Of the owner, by name."""
    nodes: Mapping[str, Sequence[PoolNode]] = field(default_factory=dict)
    """By pool."""
    pods: Sequence[PodView] = ()
    takers: frozenset[WorkloadName] = frozenset()
    """The other workloads whose pods are on the owner's pools."""
    stop_cause: str = ""
    standing: Standing
    """What Kueue says of it."""
    parent: Parent | None = None
    cluster_uid: str = ""
    """Of the namespace ``kube-system``; read before an act only."""
    inventory: Inventory = field(default_factory=Inventory)
    room: Room = field(default_factory=Room)
    began_at: float
    users_read_at: float | None = None
    """When the pods on its nodes began to be read, one node after the other."""
    until: float = 0.0
    """When the last act may begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class From:
    """What a look is made from, beside live reads."""

    lists: Lists | None = None
    again: Look | None = None
    """The look before it, whose pools are read anew by name."""
    names: frozenset[str] = frozenset()
    """Of these, those that must be."""
    shares: bool = False
    """It may use a list of pools that another look has just read; before a create only."""
    until: float | None = None


def take_look(key: Key, ports: Ports, memory: Memory, source: From) -> Look:
    """Return what a workload has and wants now."""
    reads = Reads(key, ports, memory, source)
    stop = reads.begin_stop()
    listing = ports.crew.fork(reads.list_pools)
    workload, is_known = reads.read_owner()
    standing = read_standing(key, workload, ports) if workload else Standing()
    workload = standing.owner or workload
    inventory = listing()
    mine = reads.choose_mine(inventory, workload)
    nodes_listing = ports.crew.fork(partial(reads.read_nodes, [pool.name for pool in mine]))
    pods = reads.read_pods(workload)
    workload = reads.add_disks(workload, pods)
    nodes = nodes_listing()
    builder = _Builder(reads, workload, mine, nodes, pods, standing)
    return builder.build(inventory, find_strongest(stop()), is_known=is_known)


@dataclass(slots=True)
class _Builder:
    """Makes the scene of what was read."""

    reads: Reads
    workload: WorkloadView | None
    mine: list[NodePool]
    nodes: Mapping[str, Sequence[PoolNode]]
    pods: list[PodView]
    standing: Standing

    def build(self, inventory: Inventory, stop: StopAndCause, *, is_known: bool) -> Look:
        """Return the look."""
        standing = self.standing
        key, ports, source = self.reads.key, self.reads.ports, self.reads.source
        now, wanted = ports.clock.now(), self._list_wanted(is_known=is_known)
        parent = self.reads.find_parent(self.workload)
        strangers, takers = self._list_strangers()
        viewed = tuple(self._view(pool, now) for pool in self.mine)
        pods = (*wanted.pods, *strangers)
        room = self._count_room(inventory, now)
        records = self._read_records(wanted, now)
        scene = Scene(
            now=now,
            needs=wanted.needs,
            pods=pods,
            pools=viewed,
            over=_is_over(self.workload),
            owner_known=is_known,
            suspended_since=_find_suspension(self.workload, viewed, now),
            queue=standing.queue,
            quota_lost_at=standing.lost_at,
            retried=standing.retried,
            part_held_since=min((pool.created_at for pool in viewed), default=None),
            part_seconds=standing.queued.seconds if standing.queued else 0,
            room=room.chips,
            slots=room.slots,
            stop=stop[0],
            refused=ports.budget.list_refused(key.cluster, now),
            creations=records.creations,
            deletions=records.deletions,
            creation_seconds=ports.settings.creation_seconds_max,
            grace_seconds=ports.settings.grace_seconds,
            takers_served=are_served(takers, inventory),
            parent_over=bool(parent and parent.keeps),
            autoscaled_elsewhere=inventory.autoscaled - sum(pool.autoscaled for pool in viewed),
        )
        lists = source.lists
        until = lists.until if lists else source.until
        return Look(
            key=key,
            scene=scene,
            wanted=wanted,
            workload=self.workload,
            pools={pool.name: pool for pool in self.mine},
            nodes=self.nodes,
            pods=self.pods,
            takers=takers,
            stop_cause=stop[1],
            standing=standing,
            parent=parent,
            inventory=inventory,
            room=room,
            began_at=self.reads.began_at,
            until=self.reads.began_at + DELIVERY_SECONDS if until is None else until,
        )

    def _list_wanted(self, *, is_known: bool) -> Wanted:
        key, settings = self.reads.key, self.reads.ports.settings
        if self.workload is None:
            waiting = [pod for pod in self.pods if is_known and not pod.node_name]
            return Wanted(refusals=tuple(_refuse_stray(pod, key) for pod in waiting))
        lists = self.reads.source.lists
        pools_of = lists.pools_of if lists else map_nodes(self.nodes)
        wanted = list_wanted(key.cluster, self.workload, self.pods, pools_of, settings)
        plain = self.standing.plain
        if plain is None or not any(need.never for need in wanted.needs):
            return wanted
        return _blame_flavor(wanted, list_wanted(key.cluster, plain, (), {}, settings))

    def _view(self, pool: NodePool, now: float) -> Pool:
        memory, cluster, lists = self.reads.memory, self.reads.key.cluster, self.reads.source.lists
        nodes, name = self.nodes.get(pool.name, ()), (cluster, pool.name)
        missing_since = None
        if has_lost_nodes(pool, nodes):
            missing_since = memory.missing_since.setdefault(name, now)
        else:
            memory.missing_since.pop(name, None)
        spare = pool.name in memory.spare.get(cluster, frozenset())
        viewed = view_pool(pool, nodes, missing_since=missing_since, spare=spare)
        return dataclasses.replace(viewed, users_read=lists is not None or self._is_carried(pool))

    def _is_carried(self, pool: NodePool) -> bool:
        """Return whether a second look leaves the users of a pool to the first one."""
        again, names = self.reads.source.again, self.reads.source.names
        return again is not None and pool.name not in names

    def _list_strangers(self) -> tuple[list[Pod], frozenset[WorkloadName]]:
        """Return the pods of others on the pools, and whose they are, as far as they are known."""
        lists, again = self.reads.source.lists, self.reads.source.again
        if again is not None:
            carried = [pool.name for pool in self.mine if self._is_carried(pool)]
            pods = [pod for pod in again.scene.pods if not pod.need and pod.pool in carried]
            return pods, again.takers
        return self._list_users(lists) if lists else ([], frozenset())

    def _list_users(self, lists: Lists) -> tuple[list[Pod], frozenset[WorkloadName]]:
        """Return the pods of others on the pools, and whose they are, by the lists of a tick."""
        own = {pod.uid for pod in self.pods}
        pairs = [
            (pool.name, pod)
            for pool in self.mine
            for pod in lists.users.get(pool.name, ())
            if pod.uid not in own
        ]
        strangers = [view_stranger(pod, name) for name, pod in pairs]
        return strangers, frozenset(find_user(pod) for _, pod in pairs)

    def _count_room(self, inventory: Inventory, now: float) -> Room:
        """Return what limits and slots leave; at first also beside what ran before this process."""
        ports, key, lists = self.reads.ports, self.reads.key, self.reads.source.lists
        room = ports.budget.count_room(key, inventory, now)
        if ports.adds is None or not ports.budget.needs_operations(key.cluster):
            return room
        named = lists.operations if lists else list_operations(key.cluster, ports)
        counted = ports.budget.count_running(key.cluster, named, inventory)
        return room if counted else dataclasses.replace(room, chips=0)

    def _read_records(self, wanted: Wanted, now: float) -> Records:
        """Return what GKE's operations say, as far as it is known."""
        lists, again, key = self.reads.source.lists, self.reads.source.again, self.reads.key
        if again is not None and again.scene.creations is not None:
            return Records(again.scene.creations, again.scene.deletions)
        if lists is None:
            return Records()
        uid = self.workload.uid if self.workload else ""
        return read_records(key, uid, wanted.needs, lists.operations, now)


def _blame_flavor(wanted: Wanted, plain: Wanted) -> Wanted:
    """Return what is wanted; a flavor is to blame if the spec alone could be served."""
    if any(need.never for need in plain.needs):
        return wanted
    needs = tuple(
        dataclasses.replace(need, never=dataclasses.replace(need.never, of_flavor=True))
        if need.never
        else need
        for need in wanted.needs
    )
    return dataclasses.replace(wanted, needs=needs)


def _refuse_stray(pod: PodView, key: Key) -> PodRefusal:
    text = f"the labels of the pod name {key}, which does not exist"
    return PodRefusal(pod=pod, decision=Decision(Verdict.REFUSE, Reason.OWNER_KIND_UNKNOWN, text))


def _is_over(workload: WorkloadView | None) -> bool:
    return workload is None or workload.deleting or bool(workload.terminal)


def _find_suspension(
    workload: WorkloadView | None, pools: Sequence[Pool], now: float
) -> float | None:
    """Return since when a workload is suspended; None if it is not.

    A suspension without a time that can be true began after its pools were made, by our own clock.
    """
    if workload is None or not workload.suspended:
        return None
    told = workload.suspended_since
    if told is None:
        told = workload.suspend_set_at
    if told is not None and measure_seconds(told, now) is not None:
        return min(told, now)
    return max((pool.created_at for pool in pools), default=now)
