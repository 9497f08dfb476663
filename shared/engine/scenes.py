"""Reads what one workload has and wants, and makes the scene of it.

A look is made from live reads, from the lists of a tick, or from another look again. Within a look
pools come before pods: a pool that is listed too early may only lead to one create too few.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.engine.inventory import count_chips
from shared.engine.kueue import Standing, read_standing
from shared.engine.look import DELIVERY_SECONDS, Look
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

    from shared.engine.budget import Room
    from shared.engine.inventory import Inventory, Key, WorkloadName
    from shared.engine.kueue import Queued
    from shared.engine.look import From, Lists, Memory, StopAndCause
    from shared.engine.outside import Ports
    from shared.model.pools import NodePool
    from shared.model.readings import PoolNode
    from shared.model.workloads import PodView, WorkloadView
    from shared.plan.scene import Pod, Pool


def take_look(key: Key, ports: Ports, memory: Memory, source: From) -> Look:
    """Return what a workload has and wants now."""
    began_at = source.lists.began_at if source.lists else ports.clock.now()
    reads = Reads(key, ports, memory, source, began_at)
    stop = reads.begin_stop()
    listing = reads.begin_pools()
    workload, is_known = reads.read_owner()
    standing = read_standing(key, workload, ports) if workload else Standing()
    workload = standing.owner or workload
    inventory = listing()
    mine = reads.choose_mine(inventory, workload)
    nodes_listing = reads.begin_nodes([pool.name for pool in mine])
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
        now, wanted = ports.clock.now(), self._list_wanted()
        parent = self.reads.find_parent(self.workload)
        strangers, takers = self._list_strangers()
        viewed = tuple(self._view(pool, now) for pool in self.mine)
        pods = (*wanted.pods, *strangers)
        room = self._count_room(inventory, now)
        records = self._read_records(wanted, now, inventory)
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
            part_held_since=_find_held_since(standing.queued, viewed) if standing.queued else None,
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

    def _list_wanted(self) -> Wanted:
        key, settings = self.reads.key, self.reads.ports.settings
        if self.workload is None:
            waiting = [pod for pod in self.pods if not pod.node_name]
            return Wanted(refusals=tuple(_refuse_stray(pod, key) for pod in waiting))
        lists = self.reads.source.lists
        pools_of = lists.pools_of if lists else map_nodes(self.nodes)
        wanted = self._recall_wanted(self.workload, pools_of)
        plain = self.standing.plain
        if plain is None or not any(need.never for need in wanted.needs):
            return wanted
        return _blame_flavor(wanted, list_wanted(key.cluster, plain, (), {}, settings))

    def _recall_wanted(self, workload: WorkloadView, pools_of: Mapping[str, str]) -> Wanted:
        """Return what a workload wants: as the last tick found it, if it rests on the same."""
        reads, key = self.reads, self.reads.key
        places = [pools_of.get(pod.node_name, "") for pod in self.pods]
        before = reads.memory.wanted.get(key.cluster, {}).get(key)
        if before is None or before[0] != (workload, self.pods, places):
            settings = reads.ports.settings
            wanted = list_wanted(key.cluster, workload, self.pods, pools_of, settings)
            before = (workload, self.pods, places), wanted
        if reads.source.lists:
            reads.source.lists.wanted[key] = before
        return before[1]

    def _view(self, pool: NodePool, now: float) -> Pool:
        memory, cluster, lists = self.reads.memory, self.reads.key.cluster, self.reads.source.lists
        nodes, name = self.nodes.get(pool.name, ()), (cluster, pool.name)
        missing_since = None
        if has_lost_nodes(pool, nodes):
            missing_since = memory.missing_since.setdefault(name, now)
        else:
            memory.missing_since.pop(name, None)
        return view_pool(
            pool,
            nodes,
            missing_since=missing_since,
            spare=pool.name in memory.spare.get(cluster, frozenset()),
            users_read=lists is not None or self._is_carried(pool),
        )

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
        if self.mine and lists is None:
            room = dataclasses.replace(room, chips=room.chips + self._count_unused(inventory))
        if ports.adds is None or not ports.budget.needs_operations(key.cluster):
            return room
        named = lists.operations if lists else list_operations(key.cluster, ports)
        counted = ports.budget.count_running(key.cluster, named, inventory)
        return room if counted else dataclasses.replace(room, chips=0)

    def _count_unused(self, inventory: Inventory) -> int:
        """Return the chips of its pools without machines, which a list alone counts as whole."""
        return sum(
            count_chips(pool, None, inventory.nodes_before.get(pool.name, 0))
            - count_chips(pool, self.nodes.get(pool.name, ()))
            for pool in self.mine
        )

    def _read_records(self, wanted: Wanted, now: float, inventory: Inventory) -> Records:
        """Return what GKE's operations say, as far as it is known."""
        lists, again, key = self.reads.source.lists, self.reads.source.again, self.reads.key
        if again is not None and again.scene.creations is not None:
            return Records(again.scene.creations, again.scene.deletions)
        if lists is None:
            return Records()
        uid = self.workload.uid if self.workload else ""
        operations, listed = lists.operations, inventory.pools
        return read_records(key, uid, wanted.needs, operations, now=now, listed=listed)


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
    text = f"the labels of the pod name {key}, which the cluster does not know"
    return PodRefusal(pod=pod, decision=Decision(Verdict.REFUSE, Reason.OWNER_KIND_UNKNOWN, text))


def _is_over(workload: WorkloadView | None) -> bool:
    return workload is None or workload.deleting or bool(workload.terminal)


def _find_held_since(queued: Queued, pools: Sequence[Pool]) -> float | None:
    """Return since when a part of the pools is held for a workload with quota.

    Pools that are left from before it got its quota, since GKE works on them, count from then.
    """
    since = min((pool.created_at for pool in pools), default=None)
    return None if since is None else max(since, queued.workload.reserved_at or 0.0)


def _find_suspension(
    workload: WorkloadView | None, pools: Sequence[Pool], now: float
) -> float | None:
    """Return since when a workload is suspended; None if it is not.

    A suspension without a time that can be true began after its pools were made, by our own clock.
    """
    if workload is None or not workload.suspended:
        return None
    since = workload.suspended_since
    if since is None:
        since = workload.suspend_set_at
    if since is not None and measure_seconds(since, now) is not None:
        return min(since, now)
    return max((pool.created_at for pool in pools), default=now)
