"""What operations do to pools.

Create, delete, resize, upkeep, and what happens to a pool without any call.

The state machine: absent -> PROVISIONING -> RUNNING | RUNNING_WITH_ERROR | ERROR; resting ->
RECONCILING -> resting; resting -> STOPPING -> absent. Failed creates stay, their name stays taken.
Whether a call is let in at all is decided in `admission`.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from standins.fakegke.errors import Code
from standins.fakegke.faults.fault_rules import (
    DeleteFails,
    Duration,
    FlexStartArrives,
    HealAfter,
    Outcome,
    StuckProvisioning,
    StuckStopping,
    Target,
)
from standins.fakegke.model.defaults import filled_pool
from standins.fakegke.model.fleet import Fleet, group_urls
from standins.fakegke.model.node_events import PoolState
from standins.fakegke.model.operations import Failure, OperationDesk, OperationRecord, Work
from standins.fakegke.model.outcomes import (
    Ending,
    ending_of,
    reservation_ending,
    shortage,
    shortage_ending,
    shortage_seconds,
    wrong_gang_size,
)
from standins.fakegke.model.proto_messages import (
    Message,
    OperationType,
    PoolStatus,
    is_autoscaled,
    reservation_of,
    tier_of,
)
from standins.fakegke.model.state import ClusterRecord, PoolRecord, World
from standins.fakegke.model.supply import Supply

if TYPE_CHECKING:
    from collections.abc import Callable

    from standins.fakegke.model.validation import Shape

_DRAIN_FROM, _DOWN_FROM = 0.1, 0.7


class Lifecycle:
    """Carries out accepted calls on pools, by operations."""

    def __init__(self, world: World, desk: OperationDesk) -> None:
        self._world = world
        self._desk = desk
        self._fleet = Fleet(world)
        self._supply = Supply(world, self._fleet, self._recover)
        self.when_running: list[Callable[[ClusterRecord, PoolRecord], None]] = []

    def create(self, cluster: ClusterRecord, wanted: Message, shape: Shape, zones: list[str]) -> OperationRecord:
        """Accept a new pool: visible at once as PROVISIONING.

        How it ends is decided when the operation starts.
        """
        stored = filled_pool(wanted, cluster.name, shape.machine, zones)
        pool = PoolRecord(stored, shape, zones, self._world.now)
        pool.stock = self._supply.stock_of(cluster, pool)
        stored.instance_group_urls.extend(group_urls(cluster, pool))
        cluster.pools[pool.name] = pool
        self.set_status(cluster, pool, PoolStatus.PROVISIONING)
        self.renew_etag(cluster, pool)
        endings: list[Ending] = []

        def start() -> float:
            ending, seconds = self._choose_ending(cluster, pool)
            endings.append(ending)
            keeps = ending.failure is not None and ending.holds_capacity and reservation_of(pool.message)
            pool.held = pool.planned_nodes if keeps else 0
            self._fleet.bring_up(cluster, pool, ending.nodes, seconds)
            if ending.waits:
                self._supply.expect(pool, pool.planned_nodes)
            return seconds

        def end() -> Failure | None:
            ending = endings[0]
            if pool.short:
                ending = shortage_ending(pool, cluster.name, self._world.scenario.timings)
            elif ending.waits:
                ending = Ending(pool.planned_nodes)
            if pool.shape.atomic:
                self._fleet.stop_waiting(pool)
            return self._created(cluster, pool, ending)

        work = Work(start, end, stuck_by=StuckProvisioning, target=self._target(cluster, pool))
        return self._desk.submit(cluster.name, pool.name, OperationType.CREATE_NODE_POOL, work)

    def _choose_ending(self, cluster: ClusterRecord, pool: PoolRecord) -> tuple[Ending, float]:
        timings = self._world.scenario.timings
        target = self._target(cluster, pool)
        fault = self._world.faults.take(Outcome, target)
        if fault is not None:
            ending = ending_of(fault, pool, cluster.name, timings)
        else:
            ending = self._honest_ending(cluster, pool)
        exact = self._world.faults.take(Duration, target, lambda fault: fault.operation == "create")
        if exact is not None:
            return ending, exact.seconds
        if ending.seconds is not None:
            return ending, ending.seconds
        bounds = timings.create_empty
        if pool.planned_nodes:
            bounds = timings.create_slice if pool.shape.atomic else timings.create_single
        return ending, self._world.draw(f"create:{cluster.name.cluster}:{pool.name}", bounds)

    def _honest_ending(self, cluster: ClusterRecord, pool: PoolRecord) -> Ending:
        timings = self._world.scenario.timings
        if pool.shape.atomic and pool.planned_nodes not in (0, pool.shape.hosts):
            return wrong_gang_size(pool, timings)
        name = reservation_of(pool.message)
        held = self._world.scenario.reservation(name)
        if name and (held is None or not fnmatchcase(pool.zones[0], held.zone)):
            return reservation_ending(
                f"Specified reservations [{name}] do not exist.", Code.INVALID_ARGUMENT, timings
            )
        if not self._supply.fits(pool, pool.planned_nodes):
            return shortage_ending(pool, cluster.name, timings)
        return Ending(pool.planned_nodes)

    def _created(self, cluster: ClusterRecord, pool: PoolRecord, ending: Ending) -> Failure | None:
        pool.finished_at = self._world.now
        if ending.failure is not None:
            self._fail(cluster, pool, ending.failure, ending.status)
            self._heal_later(cluster, pool)
            return ending.failure
        pool.failed = False
        self.set_status(cluster, pool, ending.status)
        if is_autoscaled(pool.message):
            self._scale_up_later(cluster, pool)
        for told in self.when_running:
            told(cluster, pool)
        return None

    def _fail(self, cluster: ClusterRecord, pool: PoolRecord, failure: Failure, status: int) -> Failure:
        pool.failed = True
        pool.message.status_message = failure.summary
        pool.message.conditions.extend(failure.conditions())
        self.set_status(cluster, pool, status)
        return failure

    def _recover(self, cluster: ClusterRecord, pool: PoolRecord) -> None:
        broken = pool.failed and pool.status in (PoolStatus.ERROR, PoolStatus.RUNNING_WITH_ERROR)
        if not broken or pool.short or not self.exists(cluster, pool):
            return
        pool.failed, pool.held = False, 0
        pool.message.status_message = ""
        pool.message.ClearField("conditions")
        self.set_status(cluster, pool, PoolStatus.RUNNING)

    def _heal_later(self, cluster: ClusterRecord, pool: PoolRecord) -> None:
        fault = self._world.faults.take(HealAfter, self._target(cluster, pool))
        if fault is None:
            return

        def heal() -> None:
            if not self.exists(cluster, pool) or pool.status not in (
                PoolStatus.ERROR,
                PoolStatus.RUNNING_WITH_ERROR,
            ):
                return
            self._fleet.stop_waiting(pool)
            self._fleet.bring_up(cluster, pool, pool.planned_nodes - len(pool.nodes), 0.0)
            self._recover(cluster, pool)

        self._world.agenda.after(fault.seconds, heal)

    def _scale_up_later(self, cluster: ClusterRecord, pool: PoolRecord) -> None:
        fault = self._world.faults.take(FlexStartArrives, self._target(cluster, pool))
        scaling = pool.message.autoscaling
        most = scaling.max_node_count * len(pool.zones) or scaling.total_max_node_count
        if fault is not None:
            self._fleet.bring_up(cluster, pool, most - len(pool.nodes), fault.seconds)
        elif tier_of(pool.message) == "flex-start" and pool.stock is not None:
            self._supply.expect(pool, most - pool.target)

    def delete(self, cluster: ClusterRecord, pool: PoolRecord) -> OperationRecord:
        """Accept a delete: STOPPING at once; pods go, then nodes, then the pool."""
        timings = self._world.scenario.timings
        self._fleet.stop_arrivals(pool)
        self.renew_etag(cluster, pool)
        self.set_status(cluster, pool, PoolStatus.STOPPING)
        fails: list[bool] = []

        def start() -> float:
            target = self._target(cluster, pool)
            fails.append(self._world.faults.take(DeleteFails, target) is not None)
            bounds = timings.delete_nodes if pool.nodes else timings.delete_empty
            drawn = self._world.draw(f"delete:{cluster.name.cluster}:{pool.name}", bounds)
            exact = self._world.faults.take(Duration, target, lambda fault: fault.operation == "delete")
            seconds = exact.seconds if exact is not None else drawn
            if not fails[0]:
                names = list(pool.nodes)
                after = self._world.agenda.after
                after(seconds * _DRAIN_FROM, lambda: self._fleet.drain(cluster, pool, names))
                after(seconds * _DOWN_FROM, lambda: self._fleet.take_down(cluster, pool, names))
            return seconds

        def end() -> Failure | None:
            if fails[0]:
                return self._delete_failed(cluster, pool)
            self._gone(cluster, pool)
            return None

        work = Work(start, end, stuck_by=StuckStopping, target=self._target(cluster, pool))
        return self._desk.submit(cluster.name, pool.name, OperationType.DELETE_NODE_POOL, work)

    def _delete_failed(self, cluster: ClusterRecord, pool: PoolRecord) -> Failure:
        text = "Google Compute Engine: The instance group manager could not be deleted: Internal error."
        return self._fail(cluster, pool, Failure(Code.INTERNAL, text, text), PoolStatus.ERROR)

    def _gone(self, cluster: ClusterRecord, pool: PoolRecord) -> None:
        del cluster.pools[pool.name]
        self._world.remember(cluster, None, pool.name)
        self._world.tell(PoolState(cluster.name, pool.name, "GONE"))

    def resize(self, cluster: ClusterRecord, pool: PoolRecord, per_zone: int) -> OperationRecord:
        """Accept a new size for a pool whose hosts are independent."""
        before = pool.status
        self.renew_etag(cluster, pool)
        self.set_status(cluster, pool, PoolStatus.RECONCILING)

        def start() -> float:
            seconds = self._world.draw(
                f"resize:{cluster.name.cluster}:{pool.name}", self._world.scenario.timings.resize
            )
            self._fleet.stop_waiting(pool)
            more = per_zone * len(pool.zones) - pool.target
            if not self._supply.fits(pool, more):
                self._supply.expect(pool, more)
                return shortage_seconds(pool, self._world.scenario.timings)
            self._fleet.bring_up(cluster, pool, more, seconds)
            surplus = list(pool.nodes)[per_zone * len(pool.zones) :]
            self._fleet.drain(cluster, pool, surplus)
            self._fleet.take_down(cluster, pool, surplus)
            return seconds

        def end() -> Failure | None:
            if pool.short:
                pool.message.ClearField("conditions")
                return self._fail(cluster, pool, shortage(pool, cluster.name), PoolStatus.RUNNING_WITH_ERROR)
            self.set_status(cluster, pool, before)
            if pool.stock is not None:
                self._recover(cluster, pool)
            return None

        work = Work(start, end, target=self._target(cluster, pool))
        return self._desk.submit(cluster.name, pool.name, OperationType.SET_NODE_POOL_SIZE, work)

    def reconcile(
        self, cluster: ClusterRecord, pool: PoolRecord, kind: int, seconds: float, *, visible: bool = True
    ) -> OperationRecord:
        """Accept an operation that only keeps the pool busy.

        RECONCILING (when visible), then as before.

        The nodes' labels and taints follow the pool's description at the end.
        """
        before = pool.status
        if visible:
            self.set_status(cluster, pool, PoolStatus.RECONCILING)

        def end() -> None:
            if not self.exists(cluster, pool):
                return
            if pool.status == PoolStatus.RECONCILING:
                self.set_status(cluster, pool, before)
            self._fleet.relabel(cluster, pool)

        work = Work(lambda: seconds, end, cancelled=end, target=self._target(cluster, pool))
        return self._desk.submit(cluster.name, pool.name, kind, work)

    def occupy_cluster(self, cluster: ClusterRecord, kind: int, seconds: float) -> OperationRecord:
        """Accept a cluster-level operation, which excludes pool operations."""
        work = Work(lambda: seconds, lambda: None, target=self._world.target(cluster.name, None))
        return self._desk.submit(cluster.name, "", kind, work)

    def renew_etag(self, cluster: ClusterRecord, pool: PoolRecord) -> None:
        """Give the pool a new etag, as every accepted change does."""
        pool.message.etag = self._world.new_uuid("etag")
        self._world.remember(cluster, pool, pool.name)

    def set_status(self, cluster: ClusterRecord, pool: PoolRecord, status: int) -> None:
        """Change a pool's status and tell the listeners."""
        pool.message.status = status
        self._world.remember(cluster, pool, pool.name)
        self._world.tell(PoolState(cluster.name, pool.name, PoolStatus(status).name))

    def exists(self, cluster: ClusterRecord, pool: PoolRecord) -> bool:
        """Return whether this very pool is still in its cluster."""
        return cluster.pools.get(pool.name) is pool

    def _target(self, cluster: ClusterRecord, pool: PoolRecord) -> Target:
        return self._world.target(cluster.name, pool)

    def status_name(self, pool: PoolRecord) -> str:
        """Return the pool's status by name."""
        return str(PoolStatus(pool.status).name)
