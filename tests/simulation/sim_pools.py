"""The node pools of a story, as GKE keeps them: what it accepts, refuses, makes and ends.

A pool that is created with its nodes is a failure only after some 35 minutes without capacity. GKE
tries all that time, and the pool cannot be deleted. It may come good at any moment. A reservation
answers within a minute. A pool that the autoscaler fills is created empty, in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from shared.model.errors import AlreadyExists, Busy, NotFound, ProvisionerError, Throttled, Unavailable
from shared.model.pools import UNDER_WAY, Machines, NodePool, Operation, PoolStatus
from tests.simulation.sim_faults import CALL_SECONDS, LATE, OUTCOMES
from tests.simulation.sim_pool_bodies import DEFAULT_POOL, RESTING, Pool, read_body
from tests.simulation.sim_scenarios import START, Fault
from tests.simulation.sim_workloads import Workload

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

CREATE_SECONDS = 1.4  # how long GKE takes to accept a create
OPERATIONS_SECONDS = 7200.0  # how long GKE lists an operation that has ended
TRIES_SECONDS = 2104.0
"""How long GKE looks for machines: quoted messages say "after 35m4s" to "after 35m11s"."""
STUCK_SECONDS = 4500.0
EMPTY_SECONDS = 22.0
RESERVED_SECONDS = 40.0
SOON_SECONDS = 120.0
"""A stockout of at most this length is one of quota, which GKE tells within 26 to 51 seconds."""
AGAIN_SECONDS = 150.0  # how often GKE may find machines that have come meanwhile
EXHAUSTED = (
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS: The zone '{zone}' does not have enough resources available to "
    "fulfill the request"
)
_NO_QUOTA = (
    "Not all instances running in IGM after 35.2s. Current errors: [GCE_QUOTA_EXCEEDED]: Instance '{pool}-0' "
    "creation failed: Quota 'TPU_LITE_PODSLICE_V5' exceeded. Limit: 0.0 in region us-east5"
)
_FAILED = (
    "Not all instances running in IGM after 35m7s. Expected {size}, running {made}, transitioning {short}. "
    "Current errors: [GCE_STOCKOUT]: Instance '{pool}-0' creation failed: The zone '{zone}' does not have enough "
    "resources available to fulfill the request"
)


@dataclass(slots=True)
class GkePools:
    """The pools of each cluster of one story; the truth is `pools`. It is its own port.

    `shared.engine.outside` says what each of its methods does.
    """

    world: World
    pools: dict[str, dict[str, Pool]] = field(default_factory=dict)
    operations: dict[str, list[Operation]] = field(default_factory=dict)
    """Creates and deletes by cluster, the oldest first."""
    _history: dict[str, list[tuple[float, dict[str, NodePool]]]] = field(default_factory=dict)

    # --- what the product asks --------------------------------------------------------------------

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        """Accept one pool; what becomes of it shows later."""
        with self.world.faults.changing("create", cluster):
            self.world.time.pause(CREATE_SECONDS * self.world.rng.random())
            self._do("create", cluster, partial(self._create, cluster, node_pool))

    def _create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        world, name = self.world, node_pool["name"]
        if name in self.pools[cluster]:
            self._check_free(self.pools[cluster][name])
            raise AlreadyExists(f"Already exists: node pool {name}")
        self._take_slot(cluster)
        pool = read_body(cluster, node_pool, world.time.now)
        world.judge.see_create(pool)
        where = f"{pool.zone}{' spot' if pool.listed.spot else ''}{' autoscaled' if pool.autoscaled else ''}"
        world.tell(f"GKE accepts the create of {name} ({pool.size} nodes, {where})")
        outcome = world.faults.take(cluster, OUTCOMES)
        self._begin_operation(cluster, name, creates=True)
        if outcome is not None and outcome.kind == "vanish":
            self._end_operation(cluster, name, "the simulator lets this creation leave no pool")
        else:
            self.add(pool)
            follow_creation(self, pool, outcome)

    def _take_slot(self, cluster: str) -> None:
        """Refuse an operation while as many run as GKE allows, with that number or without."""
        slots, says = self.world.scenario.operation_slots, self.world.scenario.says_slots
        running = sum(not each.ended for each in self.operations.get(cluster, ()))
        if slots and running >= slots:
            number = f": the concurrent operations quota {slots} is exceeded" if says else ""
            raise Throttled(f"Too many operations{number}")

    def is_blocked(self, cluster: str, seconds: float) -> bool:
        """Return whether creates that run for longer than some seconds hold all operation slots."""
        since, slots = self.world.time.now - seconds, self.world.scenario.operation_slots
        running = [each for each in self.operations.get(cluster, ()) if not each.ended]
        return bool(slots) and sum(each.creates and (each.began_at or since) < since for each in running) >= slots

    def get(self, cluster: str, name: str) -> NodePool | None:
        self.world.faults.read("get", cluster)
        self.world.note_pool_read(cluster, name)
        return self._show(cluster).get(name)

    def list(self, cluster: str) -> list[NodePool]:
        self.world.faults.read("list", cluster)
        self.world.note_pool_read(cluster, "")
        return [DEFAULT_POOL, *self._show(cluster).values()]

    def list_operations(self, cluster: str) -> Sequence[Operation]:
        self.world.faults.read("list_operations", cluster)
        since = self.world.time.now - OPERATIONS_SECONDS
        return [each for each in self.operations.get(cluster, ()) if (each.ended_at or math.inf) > since]

    def read_machines(self, pool: NodePool) -> Machines:
        named = (name for name, pools in self.pools.items() if pool.name in pools)
        cluster = next(named, self.world.cluster_names[0])
        self.world.faults.read("read_machines", cluster)
        truth = self.pools[cluster].get(pool.name)
        said = (
            truth.recall_machines(self.world.time.now - self.world.faults.stale_seconds) if truth else Machines()
        )
        # The errors that a group remembers are read only if machines are absent and none comes.
        remembers = not said.coming and said.present < max(pool.maximum, 1)
        return replace(said, errors=tuple(error for error in said.errors if error.at is None or remembers))

    def find_channel(self, cluster: str) -> str:
        return "REGULAR" if cluster in self.pools else ""

    def delete(self, cluster: str, name: str) -> None:
        with self.world.faults.changing("delete", cluster):
            self._do("delete", cluster, partial(self._delete, cluster, name))

    def _delete(self, cluster: str, name: str) -> None:
        pool = self.pools[cluster].get(name)
        if pool is None:
            return
        self._check_free(pool)
        self._take_slot(cluster)
        self.world.judge.see_delete(pool)
        self.world.tell(f"GKE begins to delete {name} ({pool.status})")
        self.stop(pool)

    def _do(self, method: str, cluster: str, effect: Callable[[], None]) -> None:
        """Do what is asked now, or long after the caller has given up without an answer."""
        fault, time = self.world.faults.take(cluster, {LATE}, method), self.world.time
        if fault is None:
            effect()
            return
        self.world.tell(f"FAULT {method} comes {fault.seconds:.0f} s late")
        run, began = time.get_owner(), time.get_call_began()

        def do() -> None:
            with suppress(ProvisionerError):
                effect()

        time.after(fault.seconds, lambda: time.spawn(do, run, began))
        time.pause(CALL_SECONDS)
        raise Unavailable(f"no answer to {method} within {CALL_SECONDS:.0f} s")

    def raise_maximum(self, cluster: str, name: str, nodes: int, *, least: int = 0) -> None:
        self._bound("raise_maximum", cluster, name, nodes, least=least)

    def lower_maximum(self, cluster: str, name: str, nodes: int) -> None:
        """Bound a pool to fewer nodes; 0 switches its autoscaling off."""
        self._bound("lower_maximum", cluster, name, nodes)

    def _bound(self, method: str, cluster: str, name: str, nodes: int, *, least: int = 0) -> None:
        with self.world.faults.changing(method, cluster):
            pool = self.pools[cluster].get(name)
            if pool is None:
                raise NotFound(f"node pool {name} does not exist")
            self._check_free(pool)
            self.world.judge.see_bound(pool, nodes, adds=method == "raise_maximum")
            self.world.tell(f"GKE bounds {name} to {nodes} nodes")
            pool.off = nodes == 0
            pool.listed = replace(pool.listed, maximum=nodes, autoscaled=nodes > 0)
            if nodes:
                pool.size = nodes
                pool.smallest = least
            if pool.status == PoolStatus.RUNNING:
                self.set_status(pool, PoolStatus.RECONCILING)
                seconds = 2 + 8 * self.world.rng.random()
                self.world.time.after(seconds, lambda: self._end_bound(pool))
            self.world.note_change()

    def _end_bound(self, pool: Pool) -> None:
        if pool.status == PoolStatus.RECONCILING:
            self.set_status(pool, PoolStatus.RUNNING)

    def _check_free(self, pool: Pool) -> None:
        """Refuse a change of a pool while another operation runs on it."""
        if pool.status in UNDER_WAY:
            raise Busy(f"node pool {pool.name} is {pool.status}")

    # --- the truth --------------------------------------------------------------------------------

    def list_owned(self, cluster: str, made: Workload) -> Sequence[Pool]:
        """Return the pools of a workload, those of the Go provisioner among them."""
        return [pool for pool in self.pools[cluster].values() if pool.is_of(made)]

    def list_fitting(self, cluster: str, made: Workload) -> Sequence[Pool]:
        """Return the pools of a workload on which its pods can run."""
        return [pool for pool in self.list_owned(cluster, made) if pool.fits(made)]

    def find_room(self, cluster: str, zone: str) -> float:
        """Return for how many more hosts a zone has machines now."""
        now, rows = self.world.time.now - START, self.world.scenario.stock
        known = [each for each in rows if each.zone == zone[-1:] and each.at <= now]
        if not known:
            return math.inf
        used = sum(pool.granted for pool in self.pools[cluster].values() if pool.zone == zone)
        return max(known, key=lambda each: each.at).hosts - used

    def find_machines(self, pool: Pool, wanted: int) -> int:
        """Return how many more machines a pool gets now; hosts of one unit get all or none."""
        dry = self.world.faults.is_out_of_stock(pool.cluster, pool.zone) or pool.dry_until > self.world.time.now
        room = 0 if dry else int(max(0, min(self.find_room(pool.cluster, pool.zone), wanted)))
        return room if room == wanted or not (pool.whole and not pool.listed.gpus_per_node) else 0

    def exists(self, pool: Pool) -> bool:
        """Return whether a pool is there, and no later one of its name."""
        return self.pools[pool.cluster].get(pool.name) is pool

    def is_there(self, pool: Pool) -> bool:
        return self.exists(pool) and pool.status != PoolStatus.STOPPING

    def add(self, pool: Pool) -> None:
        self.pools[pool.cluster][pool.name] = pool
        self._remember(pool.cluster)

    def set_status(self, pool: Pool, status: PoolStatus, error: str = "") -> None:
        """Change a pool, if it still exists."""
        if not self.exists(pool):
            return
        created = pool.status == PoolStatus.PROVISIONING and status != PoolStatus.STOPPING
        pool.listed = replace(pool.listed, status=status, error=error)
        if created:
            self._end_operation(pool.cluster, pool.name, error)
        self._remember(pool.cluster)

    def _begin_operation(self, cluster: str, name: str, *, creates: bool) -> None:
        begun = Operation(pool=name, creates=creates, ended=False, began_at=self.world.time.now)
        self.operations.setdefault(cluster, []).append(begun)

    def _end_operation(self, cluster: str, name: str, error: str = "") -> None:
        """End the operation on a pool, and write that to the audit log."""
        rows = self.operations.get(cluster, [])
        index = next((at for at, each in enumerate(rows) if each.pool == name and not each.ended), None)
        if index is not None:
            rows[index] = replace(rows[index], ended=True, error=error, ended_at=self.world.time.now)
            self.world.end_operation(cluster, name, "Create" if rows[index].creates else "Delete", error)

    def stop(self, pool: Pool) -> None:
        """Begin the end of a pool: its pods go, and after a while its nodes."""
        self.set_status(pool, PoolStatus.STOPPING)
        pool.healthy_since = None
        self._begin_operation(pool.cluster, pool.name, creates=False)
        home = self.world.clusters[pool.cluster]
        for node in home.list_nodes(pool):
            home.drain_node(node.name)
        self.world.time.after(50 + self.world.rng.random() * 100, lambda: self._finish_stop(pool))

    def _finish_stop(self, pool: Pool) -> None:
        home = self.world.clusters[pool.cluster]
        for node in home.list_nodes(pool):
            home.remove_node(node.name)
        if self.exists(pool):
            del self.pools[pool.cluster][pool.name]
            self.world.tell(f"node pool {pool.name} is gone")
            self._end_operation(pool.cluster, pool.name)
            self._remember(pool.cluster)

    def fill(self, pool: Pool, nodes: int | None = None) -> None:
        """Let the machines of a pool that are no nodes yet join the cluster."""
        home = self.world.clusters[pool.cluster]
        wanted = pool.granted if nodes is None else nodes
        for _ in range(wanted - len(home.list_nodes(pool))):
            pool.made_nodes += 1
            home.add_node(pool, f"{pool.name}-n{pool.made_nodes}")
        self.note_nodes(pool)

    def note_nodes(self, pool: Pool) -> None:
        """Note whether a pool has the nodes that it needs to serve."""
        count = len(self.world.clusters[pool.cluster].list_nodes(pool))
        whole = count >= (max(pool.size, 1) if pool.whole else 1)
        pool.healthy_since = (pool.healthy_since or self.world.time.now) if whole else None

    def lose_node(self, pool: Pool, name: str) -> None:
        """Take a machine away with its node."""
        self.world.clusters[pool.cluster].remove_node(name)
        pool.granted = max(0, pool.granted - 1)

    def refill(self) -> None:
        """Let all pools that lost machines have those that there are now."""
        for pools in self.pools.values():
            for pool in pools.values():
                if not pool.autoscaled and pool.granted < pool.size:
                    self.repair(pool)

    def repair(self, pool: Pool) -> None:
        """Let a pool that lost machines have those that there are now."""
        if self.exists(pool) and pool.status in RESTING:
            pool.granted += self.find_machines(pool, pool.size - pool.granted)
            self.fill(pool)

    def relabel(self, pool: Pool, changed: dict[str, str]) -> None:
        pool.listed, pool.relabelled_at = replace(pool.listed, labels=changed), self.world.time.now
        self._remember(pool.cluster)

    def _remember(self, cluster: str) -> None:
        self.world.note_change()
        if self.world.keeps_history:
            self._history.setdefault(cluster, []).append((self.world.time.now, self._list_now(cluster)))

    def _list_now(self, cluster: str) -> dict[str, NodePool]:
        return {name: pool.listed for name, pool in self.pools[cluster].items()}

    def _show(self, cluster: str) -> dict[str, NodePool]:
        """Return the pools as GKE lists them, which may be as they were some time ago."""
        if not self.world.faults.stale_seconds:
            return self._list_now(cluster)
        then, history = self.world.time.now - self.world.faults.stale_seconds, self._history.get(cluster, ())
        return next((pools for moment, pools in reversed(history) if moment <= then), {})


# --- what becomes of a create ---------------------------------------------------------------------


def follow_creation(gke: GkePools, pool: Pool, outcome: Fault | None) -> None:
    """Let a creation end in time, with the nodes that there are then."""
    kind, rng, time = outcome.kind if outcome else "", gke.world.rng, gke.world.time
    seconds = 60 + rng.random() * 60
    if kind == "stockout":
        # A stockout of a known length may come good late.
        known = outcome.seconds if outcome else 0.0
        pool.dry_until = time.now + (known or TRIES_SECONDS + 60)
    soon = kind == "stockout" and pool.dry_until - time.now <= SOON_SECONDS
    if not pool.begins:
        seconds = EMPTY_SECONDS + 6 * (rng.random() - 0.5)
        time.after(STUCK_SECONDS if kind == "slow" else seconds, partial(_run, gke, pool))
    elif soon or gke.world.faults.lasts(pool.cluster, "no-chips"):
        answer = _NO_QUOTA.format(pool=pool.name)
        time.after(26 + 25 * rng.random(), partial(gke.set_status, pool, PoolStatus.ERROR, answer))
    elif gke.find_machines(pool, pool.begins) < pool.begins:
        tries = RESERVED_SECONDS if pool.listed.reservation else TRIES_SECONDS
        _try_again(gke, pool, until=time.now + tries + 14 * (rng.random() - 0.5))
    else:
        _take_machines(gke, pool)
        halves = kind in ("degraded", "half")
        time.after(STUCK_SECONDS if kind == "slow" else seconds, partial(_run, gke, pool, half=halves))
        if kind == "degraded":
            time.after(seconds + 200, partial(_run, gke, pool))


def _take_machines(gke: GkePools, pool: Pool) -> None:
    """Let the group make all machines; they start some seconds later."""
    time = gke.world.time
    pool.granted = pool.asked = pool.begins
    pool.note_machines(time.now, coming=pool.begins)
    time.after(20.0, lambda: pool.note_machines(time.now, made=pool.granted))


def _try_again(gke: GkePools, pool: Pool, *, until: float) -> None:
    """Let GKE look for machines until it gives up."""
    time, rng = gke.world.time, gke.world.rng
    if not gke.is_there(pool) or pool.status != PoolStatus.PROVISIONING:
        return
    if gke.find_machines(pool, pool.begins) >= pool.begins:
        gke.world.tell(f"GKE finds machines for {pool.name} after {time.now - pool.made_at:.0f} s")
        _take_machines(gke, pool)
        time.after(60 + rng.random() * 60, partial(_run, gke, pool))
    elif time.now >= until:
        _fail(gke, pool)
    else:
        if not pool.machines:
            pool.note_machines(time.now, coming=pool.size)
            time.after(10.0, lambda: pool.note_machines(time.now, error=EXHAUSTED.format(zone=pool.zone)))
        time.at(min(time.now + AGAIN_SECONDS, until), lambda: _try_again(gke, pool, until=until))


def _fail(gke: GkePools, pool: Pool) -> None:
    """Let a creation fail; a part of the machines of GPUs may be there, and stays."""
    some = gke.find_machines(pool, pool.size - 1) if pool.listed.gpus_per_node and pool.size > 1 else 0
    pool.granted = some
    answer = _FAILED.format(size=pool.size, made=some, short=pool.size - some, pool=pool.name, zone=pool.zone)
    pool.note_machines(gke.world.time.now, made=some, error=EXHAUSTED.format(zone=pool.zone))
    gke.set_status(pool, PoolStatus.ERROR, answer)
    if some:
        gke.fill(pool)


def _run(gke: GkePools, pool: Pool, *, half: bool = False) -> None:
    """Let a pool run with its nodes, or for now with half of them."""
    if gke.is_there(pool):
        error = "some nodes did not register" if half else ""
        gke.set_status(pool, PoolStatus.RUNNING_WITH_ERROR if half else PoolStatus.RUNNING, error)
        gke.fill(pool, pool.size // 2 if half else None)
