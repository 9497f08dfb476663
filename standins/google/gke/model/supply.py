"""Which machines a pool's groups get: instances that come, wait, grow and go."""

import hashlib
import math
from fnmatch import fnmatchcase
from functools import partial
from typing import Protocol

from standins.google.gke.faults.capacity_script import Stock, is_exact, refuse
from standins.google.gke.faults.fault_rules import Fault, LateNodes, Outcome
from standins.google.gke.model.gpu_machines import gpus_of
from standins.google.gke.model.machines import find_machine
from standins.google.gke.model.node_objects import (
    Event,
    Node,
    NodeChanged,
    NodesDown,
    NodesDraining,
    NodeUp,
    PoolState,
    node_object,
)
from standins.google.gke.model.outcomes import NO_RESERVATION, find_cause, kind_of, shortage_kind
from standins.google.gke.model.proto_messages import PoolStatus, reservation_of, tier_of
from standins.google.gke.model.state import RETRY_SECONDS, ClusterRecord, Coming, PoolRecord, Wait, World

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


_TAKEN_BACK = ("spot", "preemptible")


class Receiver(Protocol):
    """Who is told of a pool's machines."""

    def granted(self, cluster: ClusterRecord, pool: PoolRecord, seconds: float) -> None:
        """The pool has machines for all of its nodes, which are up in so many seconds."""

    def complete(self, cluster: ClusterRecord, pool: PoolRecord) -> None:
        """These nodes should be up."""

    def lost(self, cluster: ClusterRecord, pool: PoolRecord) -> None:
        """Machines were taken back; the pool waits for others."""


class Supply:
    """Hands out the machines of the scenario's stocks, and tells what a pool gets and loses."""

    def __init__(self, world: World, fleet: Fleet, tell: Receiver) -> None:
        self._world = world
        self._fleet = fleet
        self._tell = tell
        for index, stock in enumerate(world.scenario.capacity):
            if is_exact(stock.machine_type) and find_machine(stock.machine_type) is None:
                field = f"capacity[{index}].machine_type"
                refuse(field, "is no machine type", stock.machine_type, "a machine type of GKE, or a pattern")
        self._stocks = world.scenario.stocks
        self._fill_due = False
        if self._stocks:
            world.listeners.append(self._note)
        self._used_from: dict[int, float] = {}
        """When the first node of a stock came up, by its number."""
        for at in sorted({at for stock in self._stocks if not stock.from_use for at, _ in stock.steps if at}):
            world.agenda.after(at, self._change)

    def stock_of(self, cluster: ClusterRecord, pool: PoolRecord) -> Stock | None:
        """Return the stock of the first rule that covers a pool, None when there is none."""
        target, reservation = self._world.target(cluster.name, pool), reservation_of(pool.message)
        return next((stock for stock in self._stocks if stock.covers(target, reservation)), None)

    def fits(self, pool: PoolRecord, count: int) -> bool:
        """Return whether there are machines for `count` more nodes of the pool now."""
        return count <= self._room(pool)

    def expect(self, cluster: ClusterRecord, pool: PoolRecord, count: int, zones: list[str] | None = None) -> None:
        """Let the pool wait for `count` more nodes; those with machines come up at once."""
        self._fleet.expect(cluster, pool, count, zones)
        if pool.short and pool.wait is None:
            pool.wait = self._new_wait(cluster, pool, shortage_kind(pool))
        self.fill()

    def block(
        self,
        cluster: ClusterRecord,
        pool: PoolRecord,
        kind: str,
        *,
        fault: Fault | None = None,
        count: int = 0,
        zones: list[str] | None = None,
    ) -> None:
        """Let the pool wait for `count` nodes that cannot be made until the fault is cleared."""
        self._fleet.expect(cluster, pool, count, zones)
        if pool.short:
            pool.wait = self._new_wait(cluster, pool, kind)
            pool.wait.fault, pool.wait.blocked = fault, True
            self._look_again(pool, pool.wait)

    def _new_wait(self, cluster: ClusterRecord, pool: PoolRecord, kind: str) -> Wait:
        world, name = self._world, cluster.name
        after = world.draw("error", name, pool.name, world.scenario.timings.first_error)
        queued = tier_of(pool.message) == "flex-start" and kind == "stockout"
        error = None if queued else find_cause(kind, pool, name).instance
        return Wait(world.now, world.now + after, error)

    def _look_again(self, pool: PoolRecord, wait: Wait) -> None:
        """Try blocked instances again and again, as a group does."""
        if pool.wait is not wait or wait.fault is None:
            return
        if self._world.faults.holds(wait.fault):
            self._world.agenda.after(RETRY_SECONDS, lambda: self._look_again(pool, wait))
            return
        wait.blocked = False
        self.fill()

    def _note(self, event: Event) -> None:
        if isinstance(event, NodeUp):
            self._begin_counts()
        # Machines may be free again. The change that the event tells of may not be complete yet.
        if isinstance(event, NodesDown | PoolState) and not self._fill_due:
            self._fill_due = True
            self._world.agenda.after(0.0, self.fill)

    def _begin_counts(self) -> None:
        """Begin to count the seconds of the stocks that count from their first node."""
        for number, stock in enumerate(self._stocks):
            if stock.from_use and number not in self._used_from and self._has_nodes(stock):
                self._used_from[number] = self._world.now
                for at in (at for at, _ in stock.steps if at):
                    self._world.agenda.after(at, self._change)

    def _has_nodes(self, stock: Stock) -> bool:
        return any(pool.stock is stock and pool.nodes for _, pool in self._pools())

    def _amount(self, stock: Stock) -> int | None:
        """Return how many machines there are now, None without a bound."""
        if not stock.from_use:
            return stock.amount_at(self._world.now)
        number = next(number for number, each in enumerate(self._stocks) if each is stock)
        now = self._world.now
        # Not as a difference, which may be less than the step that the agenda has just reached.
        return stock.amount_at(now, self._used_from.get(number, now))

    def _change(self) -> None:
        for stock in self._stocks:
            self._take_back(stock)
        self.fill()

    def _take_back(self, stock: Stock) -> None:
        amount = self._amount(stock)
        excess = 0 if amount is None else self._used(stock) - amount
        for cluster, pool in reversed(self._pools()):
            each = _units(stock, pool) if pool.stock is stock else 0
            if excess > 0 and each and tier_of(pool.message) in _TAKEN_BACK:
                before = pool.granted
                self._lose(cluster, pool, math.ceil(excess / each))
                excess -= (before - pool.granted) * each

    def _lose(self, cluster: ClusterRecord, pool: PoolRecord, count: int) -> None:
        wanted, kept = pool.target, 0 if pool.shape.atomic else max(pool.granted - count, 0)
        self._fleet.stop_arrivals(pool)
        names = list(pool.nodes)[kept:]
        self._fleet.drain(cluster, pool, names)
        self._fleet.take_down(cluster, pool, names)
        self._fleet.expect(cluster, pool, wanted - len(pool.nodes))
        if pool.short:
            pool.wait = self._new_wait(cluster, pool, shortage_kind(pool))
        self._tell.lost(cluster, pool)

    def fill(self) -> None:
        """Give the machines that are free to the pools that wait, the oldest first."""
        self._fill_due = False
        for cluster, pool in self._pools():
            blocked = pool.wait is not None and pool.wait.blocked
            if pool.short and not blocked and pool.status != PoolStatus.STOPPING:
                room = self._room(pool)
                some = 0 if pool.all_or_none else int(min(room, pool.short))
                self._grant(cluster, pool, pool.short if room >= pool.short else some)

    def _grant(self, cluster: ClusterRecord, pool: PoolRecord, count: int) -> None:
        if not count:
            return
        timings = self._world.scenario.timings
        bounds = timings.create_slice if pool.shape.atomic else timings.create_single
        seconds = self._world.draw("supply", cluster.name, pool.name, bounds)
        self._fleet.grant(cluster, pool, list(pool.waiting)[:count], seconds)
        if not pool.short:
            self._tell.granted(cluster, pool, seconds)
            self._world.agenda.after(seconds, lambda: self._tell.complete(cluster, pool))

    def _room(self, pool: PoolRecord) -> float:
        stock = pool.stock
        amount = None if stock is None else self._amount(stock)
        if stock is None or amount is None or not _units(stock, pool):
            return math.inf
        return max(amount - self._used(stock), 0) // _units(stock, pool)

    def _used(self, stock: Stock) -> int:
        return sum(
            max(pool.held, pool.granted) * _units(stock, pool)
            for cluster in self._world.clusters.values()
            for pool in cluster.pools.values()
            if pool.stock is stock
        )

    def _pools(self) -> list[tuple[ClusterRecord, PoolRecord]]:
        """Return every pool with its cluster, the oldest first."""
        pools = [(cluster, pool) for cluster in self._world.clusters.values() for pool in cluster.pools.values()]
        return sorted(pools, key=lambda pair: pair[1].accepted_at)


def _units(stock: Stock, pool: PoolRecord) -> int:
    """Return how much of the stock one node of the pool takes: chips are TPU chips or GPUs."""
    if stock.unit == "nodes":
        return 1
    gpus = gpus_of(pool.message.config)
    return pool.shape.machine.chips or (gpus.count if gpus is not None else 0)


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
