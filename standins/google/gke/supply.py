"""Which machines a pool's groups get: instances that come, wait, grow and go."""

import hashlib
import math
from collections.abc import Callable
from functools import partial

from standins.google.gke.faults import Fault
from standins.google.gke.machines import gpus_of
from standins.google.gke.nodes import Event, NodesLeave, NodeUp, PoolState, node_object
from standins.google.gke.operations import instance_error, shortage_kind
from standins.google.gke.pools import PoolStatus, tier_of
from standins.google.gke.scenario import Stock
from standins.google.gke.state import RETRY_SECONDS, ClusterRecord, Coming, PoolRecord, Wait, World, find_target

_LETTERS = "bcdfghjklmnpqrstvwxz0123456789"
_TAKEN_BACK = ("spot", "preemptible")


class Fleet:
    """Brings nodes up one by one and takes them down, telling the listeners."""

    def __init__(self, world: World) -> None:
        self._world = world

    def expect(self, cluster: ClusterRecord, pool: PoolRecord, count: int, zones: list[str] | None = None) -> None:
        """Let the groups of these zones (default: all) have `count` more instances, which wait."""
        zones = zones or pool.zones
        for index in range(count):
            zone = zones[index % len(zones)]
            pool.waiting[self._new_name(cluster, pool, zone)] = zone

    def grant(self, cluster: ClusterRecord, pool: PoolRecord, names: list[str], seconds: float) -> None:
        """Give waiting instances their machines: they are nodes within `seconds`.

        They come up one by one in the last part of that time, some later if a fault says so.
        """
        world, count = self._world, len(names)
        target = find_target(cluster.name, pool.message, pool.zones)
        late = world.faults.take("late_nodes", target) if names else None
        first = world.scenario.timings.nodes_from * seconds
        zones = {name: pool.waiting[name] for name in names}
        pool.forget_waiting(names, world.now)
        for index, name in enumerate(names):
            due = first + (seconds - first) * (index + 1) / (count + 1)
            if late is not None and index >= count - late.nodes:
                due = seconds + (late.seconds or 0.0)
            entry = world.agenda.after(due, partial(self._up, cluster, pool, name))
            pool.coming[name] = Coming(zones[name], world.now, world.now + due, entry)

    def _up(self, cluster: ClusterRecord, pool: PoolRecord, name: str) -> None:
        place = (name, pool.coming.pop(name).zone)
        pool.nodes[name] = node_object(cluster.name, pool.message, pool.shape.machine, pool.shape.topology, place)
        self._world.tell(NodeUp(pool.nodes[name]))

    def _new_name(self, cluster: ClusterRecord, pool: PoolRecord, zone: str) -> str:
        chance = self._world.chance(f"node:{cluster.name.cluster}:{pool.name}")
        stem = group_name(cluster, pool, zone)
        if pool.shape.machine.is_tpu:
            stem = f"gke-tpu-{stem.rpartition('-')[2]}"
        while True:
            name = f"{stem}-{''.join(chance.choices(_LETTERS, k=4))}"
            if not pool.zone_of(name):
                return name

    def forget(self, pool: PoolRecord, names: list[str]) -> None:
        """Forget some instances that are no nodes; others are left alone."""
        for name in set(names) & set(pool.coming):
            pool.coming.pop(name).entry.cancelled = True
        pool.forget_waiting([name for name in names if name in pool.waiting], self._world.now)

    def announce(self, cluster: ClusterRecord, pool: PoolRecord, names: list[str], *, gone: bool) -> None:
        """Announce that nodes are about to go, or that they are gone."""
        if names:
            self._world.tell(NodesLeave(cluster.name, pool.name, names, gone))

    def take_down(self, cluster: ClusterRecord, pool: PoolRecord, names: list[str]) -> None:
        """Remove nodes."""
        for name in names:
            pool.nodes.pop(name, None)
        self.announce(cluster, pool, names, gone=True)


def group_name(cluster: ClusterRecord, pool: PoolRecord, zone: str) -> str:
    """Return the stem of instance names: cluster and pool, squeezed, and the hash of the group."""
    text = f"{cluster.name.path}/{pool.name}/{zone}/{pool.accepted_at}"
    digits = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"gke-{cluster.name.cluster[:16].rstrip('-')}-{pool.name[:16].rstrip('-')}-{digits}"


def group_url(cluster: ClusterRecord, pool: PoolRecord, zone: str) -> str:
    """Return the URL of a pool's managed instance group in a zone."""
    place = f"projects/{cluster.name.project}/zones/{zone}"
    name = f"{group_name(cluster, pool, zone)}-grp"
    return f"https://www.googleapis.com/compute/v1/{place}/instanceGroupManagers/{name}"


class Supply:
    """Hands out the machines of the scenario's stocks, and lets groups grow and shrink.

    `granted`, `lost` and `completed` hear that a pool has machines for all of its nodes (which are
    up in so many seconds), that some were taken back, and that all nodes should be up.
    """

    granted: Callable[[ClusterRecord, PoolRecord, float], None]
    lost: Callable[[ClusterRecord, PoolRecord], None]
    completed: Callable[[ClusterRecord, PoolRecord], None]

    def __init__(self, world: World, fleet: Fleet) -> None:
        self._world, self._fleet = world, fleet
        self._stocks = world.scenario.capacity
        self._used_from: dict[Stock, float] = {}
        """When the first node of a stock came up that counts from then on."""
        self._fill_due = False
        if self._stocks:
            world.listeners.append(self._note)
        for stock in self._stocks:
            if not stock.from_use:
                self._expect_changes(stock)

    def _expect_changes(self, stock: Stock) -> None:
        for change in stock.changes:
            self._world.agenda.after(change.at, self._change)

    def find_stock(self, cluster: ClusterRecord, pool: PoolRecord, reservation: str) -> Stock | None:
        """Return the stock of the first rule that covers a pool, None when there is none."""
        target = find_target(cluster.name, pool.message, pool.zones)
        return next((stock for stock in self._stocks if stock.covers(target, reservation)), None)

    def expect(self, cluster: ClusterRecord, pool: PoolRecord, count: int, zones: list[str] | None = None) -> None:
        """Let the pool wait for `count` more nodes; those with machines come up at once."""
        self._fleet.expect(cluster, pool, count, zones)
        if pool.short and pool.wait is None:
            pool.wait = self._new_wait(cluster, pool, shortage_kind(pool))
        self.fill()

    def block(
        self, cluster: ClusterRecord, pool: PoolRecord, fault: Fault, count: int, zones: list[str] | None = None
    ) -> None:
        """Let the pool wait for `count` nodes that cannot be made until the fault is cleared."""
        self._fleet.expect(cluster, pool, count, zones)
        if pool.short:
            pool.wait = self._new_wait(cluster, pool, fault.kind)
            pool.wait.fault = fault
            self._look_again(pool, pool.wait, fault)

    def grow(self, cluster: ClusterRecord, pool: PoolRecord, count: int, zones: list[str]) -> None:
        """Let a pool's groups have `count` more instances, without an operation of GKE.

        They come when there are machines, and wait as long as there are none.
        """
        fault = self._world.faults.take("outcome", find_target(cluster.name, pool.message, pool.zones))
        if fault is None:
            self.expect(cluster, pool, count, zones)
        else:
            self.block(cluster, pool, fault, count, zones)

    def shrink(self, cluster: ClusterRecord, pool: PoolRecord, names: list[str]) -> None:
        """Remove instances of a pool's groups by name, which keep so many fewer from now on."""
        nodes = [name for name in names if name in pool.nodes]
        self._fleet.announce(cluster, pool, nodes, gone=False)
        self._fleet.take_down(cluster, pool, nodes)
        self._fleet.forget(pool, names)
        self.fill()

    def _new_wait(self, cluster: ClusterRecord, pool: PoolRecord, kind: str) -> Wait:
        world, name = self._world, cluster.name
        after = world.draw("error", name, pool.name, world.scenario.timings.first_error)
        queued = tier_of(pool.message) == "flex-start" and kind == "stockout"
        return Wait(world.now + after, None if queued else instance_error(kind, pool, name))

    def _look_again(self, pool: PoolRecord, wait: Wait, fault: Fault) -> None:
        """Try blocked instances again and again, as a group does."""
        if pool.wait is not wait:
            return
        if self._world.faults.holds(fault):
            self._world.agenda.after(RETRY_SECONDS, lambda: self._look_again(pool, wait, fault))
            return
        wait.fault = None
        self.fill()

    def _note(self, event: Event) -> None:
        if isinstance(event, NodeUp):
            self._begin_counts()
        # Machines may be free again. The change that the event tells of may not be complete yet.
        if isinstance(event, NodesLeave | PoolState) and not self._fill_due:
            self._fill_due = True
            self._world.agenda.after(0.0, self.fill)

    def _begin_counts(self) -> None:
        """Begin to count the seconds of the stocks that count from their first node."""
        used = {pool.stock for _, pool in self._world.pools if pool.nodes}
        for stock in self._stocks:
            if stock.from_use and stock in used and stock not in self._used_from:
                self._used_from[stock] = self._world.now
                self._expect_changes(stock)

    def _amount(self, stock: Stock) -> int | None:
        """Return how many machines there are now, None without a bound."""
        now = self._world.now
        # Not as a difference, which may be less than the step that the agenda has just reached.
        return stock.amount_at(now, self._used_from.get(stock, now) if stock.from_use else 0.0)

    def _change(self) -> None:
        for stock in self._stocks:
            self._take_back(stock)
        self.fill()

    def _take_back(self, stock: Stock) -> None:
        amount = self._amount(stock)
        excess = 0 if amount is None else self._used(stock) - amount
        for cluster, pool in reversed(self._world.pools):
            each = _units(stock, pool) if pool.stock is stock else 0
            if excess > 0 and each and tier_of(pool.message) in _TAKEN_BACK:
                before = pool.granted
                self._lose(cluster, pool, math.ceil(excess / each))
                excess -= (before - pool.granted) * each

    def _lose(self, cluster: ClusterRecord, pool: PoolRecord, count: int) -> None:
        wanted, kept = pool.granted + pool.short, 0 if pool.shape.atomic else max(pool.granted - count, 0)
        self._fleet.forget(pool, [*pool.coming, *pool.waiting])
        names = list(pool.nodes)[kept:]
        self._fleet.announce(cluster, pool, names, gone=False)
        self._fleet.take_down(cluster, pool, names)
        self._fleet.expect(cluster, pool, wanted - len(pool.nodes))
        if pool.short:
            pool.wait = self._new_wait(cluster, pool, shortage_kind(pool))
        self.lost(cluster, pool)

    def fill(self) -> None:
        """Give the machines that are free to the pools that wait, the oldest first."""
        self._fill_due = False
        for cluster, pool in self._world.pools:
            blocked = pool.wait is not None and pool.wait.fault is not None
            if pool.short and not blocked and pool.status != PoolStatus.STOPPING:
                room = self.room(pool)
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
            self.granted(cluster, pool, seconds)
            self._world.agenda.after(seconds, lambda: self.completed(cluster, pool))

    def room(self, pool: PoolRecord) -> float:
        """Return for how many more nodes of a pool there are machines now."""
        stock = pool.stock
        amount = None if stock is None else self._amount(stock)
        if stock is None or amount is None or not _units(stock, pool):
            return math.inf
        return max(amount - self._used(stock), 0) // _units(stock, pool)

    def _used(self, stock: Stock) -> int:
        return sum(pool.granted * _units(stock, pool) for _, pool in self._world.pools if pool.stock is stock)


def _units(stock: Stock, pool: PoolRecord) -> int:
    """Return how much of the stock one node of the pool takes: chips are TPU chips or GPUs."""
    if stock.unit == "nodes":
        return 1
    gpus = gpus_of(pool.message.config)
    return pool.shape.machine.chips or (gpus.count if gpus is not None else 0)
