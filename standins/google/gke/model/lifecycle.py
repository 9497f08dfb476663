"""What operations do to pools.

Create, delete, resize, upkeep, and what happens to a pool without any call.

The state machine: absent -> PROVISIONING -> RUNNING | RUNNING_WITH_ERROR | ERROR; resting ->
RECONCILING -> resting; resting -> STOPPING -> absent. Failed creates stay, their name stays taken.
Whether a call is let in at all is decided in `admission`.
"""

from collections.abc import Callable

from standins.google.gke.faults.fault_rules import Duration, Outcome, Target
from standins.google.gke.model.defaults import filled_pool
from standins.google.gke.model.node_objects import PoolState
from standins.google.gke.model.operations import Failure, OperationDesk, OperationRecord, Work
from standins.google.gke.model.outcomes import (
    NO_RESERVATION,
    CreateResult,
    failure_of,
    kind_of,
    result_of,
    shortage_kind,
    try_seconds,
    wrong_gang_size,
)
from standins.google.gke.model.proto_messages import (
    Message,
    OperationType,
    PoolStatus,
    is_autoscaled,
    reservation_of,
    tier_of,
)
from standins.google.gke.model.state import ClusterRecord, PoolRecord, World
from standins.google.gke.model.supply import Fleet, Growth, Supply, group_urls
from standins.google.gke.model.validation import Shape

_DRAIN_FROM, _DOWN_FROM = 0.1, 0.7


class Lifecycle:
    """Carries out accepted calls on pools, by operations."""

    def __init__(self, world: World, desk: OperationDesk) -> None:
        self._world = world
        self._desk = desk
        self._fleet = Fleet(world)
        self._supply = Supply(world, self._fleet, self)
        self.growth = Growth(world, self._fleet, self._supply)
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
        results: list[CreateResult] = []

        def start() -> float:
            result, seconds = self._choose_result(cluster, pool)
            results.append(result)
            keeps = result.failure is not None and result.holds_capacity and reservation_of(pool.message)
            pool.held = pool.planned_nodes if keeps else 0
            usual = seconds if result.failure is None else min(seconds, self._draw_creation(cluster, pool))
            self._fleet.bring_up(cluster, pool, result.nodes, usual)
            if result.kind:
                missing = pool.planned_nodes - result.nodes
                self._miss(cluster, pool, missing, result)
            return seconds

        def end(waited: float) -> Failure | None:
            result = self._final_result(cluster, pool, results[0], waited)
            if pool.all_or_none or result.fault is not None:
                self._fleet.stop_waiting(pool)
            return self._created(cluster, pool, result)

        work = Work(start, end, target=self._target(cluster, pool))
        return self._desk.submit(cluster.name, pool.name, OperationType.CREATE_NODE_POOL, work)

    def _miss(self, cluster: ClusterRecord, pool: PoolRecord, count: int, result: CreateResult) -> None:
        """Let the pool's groups try in vain to make `count` instances."""
        if result.fault is not None or result.kind == NO_RESERVATION:
            self._supply.block(cluster, pool, result.kind, fault=result.fault, count=count)
        else:
            self._supply.expect(cluster, pool, count)

    def _final_result(
        self, cluster: ClusterRecord, pool: PoolRecord, chosen: CreateResult, waited: float
    ) -> CreateResult:
        """Return how a create ends, which machines that came or went meanwhile may have changed."""
        if pool.short and chosen.fault is None:
            kind = chosen.kind or shortage_kind(pool)
            failure = failure_of(kind, pool, cluster.name, (len(pool.nodes), waited))
            return CreateResult(len(pool.nodes), int(PoolStatus.ERROR), failure)
        if chosen.kind and not pool.short and chosen.nodes < pool.planned_nodes:
            return CreateResult(pool.planned_nodes)
        return chosen

    def _choose_result(self, cluster: ClusterRecord, pool: PoolRecord) -> tuple[CreateResult, float]:
        target = self._target(cluster, pool)
        # A pool without nodes has no instances that could fail: its groups meet the fault later.
        fault = self._world.faults.take(Outcome, target, lambda it: pool.planned_nodes > 0 or it.kind == "invalid")
        if fault is not None:
            result = result_of(fault, pool, cluster.name, self._try_seconds(cluster, pool, kind_of(fault)))
        else:
            result = self._honest_result(cluster, pool)
        exact = self._world.faults.take(Duration, target, lambda fault: fault.operation == "create")
        if exact is not None:
            return result, exact.seconds
        if result.seconds is not None:
            return result, result.seconds
        return result, self._draw_creation(cluster, pool)

    def _draw_creation(self, cluster: ClusterRecord, pool: PoolRecord) -> float:
        timings = self._world.scenario.timings
        bounds = timings.create_empty
        if pool.planned_nodes:
            bounds = timings.create_slice if pool.shape.atomic else timings.create_single
        return self._world.draw("create", cluster.name, pool.name, bounds)

    def _try_seconds(self, cluster: ClusterRecord, pool: PoolRecord, kind: str) -> float:
        timings = self._world.scenario.timings
        jitter = self._world.draw("jitter", cluster.name, pool.name, timings.stockout_jitter)
        return try_seconds(kind, pool, timings, jitter)

    def _honest_result(self, cluster: ClusterRecord, pool: PoolRecord) -> CreateResult:
        if not pool.planned_nodes:
            return CreateResult(0)
        if pool.shape.atomic and pool.planned_nodes != pool.shape.hosts:
            return wrong_gang_size(pool, self._world.scenario.timings)
        if self.growth.lacks_reservation(pool):
            return self._failed(cluster, pool, NO_RESERVATION)
        if not self._supply.fits(pool, pool.planned_nodes):
            return self._failed(cluster, pool, shortage_kind(pool))
        return CreateResult(pool.planned_nodes)

    def _failed(self, cluster: ClusterRecord, pool: PoolRecord, kind: str) -> CreateResult:
        seconds = self._try_seconds(cluster, pool, kind)
        failure = failure_of(kind, pool, cluster.name, (0, seconds))
        return CreateResult(0, int(PoolStatus.ERROR), failure, seconds, holds_capacity=False, kind=kind)

    def _created(self, cluster: ClusterRecord, pool: PoolRecord, result: CreateResult) -> Failure | None:
        pool.finished_at = self._world.now
        if result.failure is not None:
            self._fail(cluster, pool, result.failure, result.status)
            return result.failure
        pool.failed = False
        self.set_status(cluster, pool, result.status)
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

    def granted(self, cluster: ClusterRecord, pool: PoolRecord, seconds: float) -> None:
        """Let the operation that waits for these machines end when the nodes are up."""
        operation = self._find_growing(cluster, pool)
        if operation is not None:
            self._desk.end_in(operation, seconds)

    def lost(self, cluster: ClusterRecord, pool: PoolRecord) -> None:
        """Let an operation whose machines are taken back try as long as GKE tries."""
        operation = self._find_growing(cluster, pool)
        if operation is not None and operation.started_at is not None:
            seconds = self._try_seconds(cluster, pool, shortage_kind(pool))
            self._desk.end_in(operation, operation.started_at + seconds - self._world.now)

    def _find_growing(self, cluster: ClusterRecord, pool: PoolRecord) -> OperationRecord | None:
        record = self._desk.blocking(cluster.name, pool.name)
        kinds = (OperationType.CREATE_NODE_POOL, OperationType.SET_NODE_POOL_SIZE)
        return record if record is not None and record.message.operation_type in kinds else None

    def complete(self, cluster: ClusterRecord, pool: PoolRecord) -> None:
        """Turn a pool that failed to RUNNING, now that it has all nodes."""
        broken = pool.failed and pool.status in (PoolStatus.ERROR, PoolStatus.RUNNING_WITH_ERROR)
        if not broken or pool.short or not self.exists(cluster, pool):
            return
        pool.failed, pool.held = False, 0
        pool.message.status_message = ""
        pool.message.ClearField("conditions")
        self.set_status(cluster, pool, PoolStatus.RUNNING)

    def _scale_up_later(self, cluster: ClusterRecord, pool: PoolRecord) -> None:
        scaling = pool.message.autoscaling
        most = scaling.max_node_count * len(pool.zones) or scaling.total_max_node_count
        if tier_of(pool.message) == "flex-start" and pool.stock is not None:
            self.growth.grow(cluster, pool, most - pool.target)

    def delete(self, cluster: ClusterRecord, pool: PoolRecord) -> OperationRecord:
        """Accept a delete: STOPPING at once; pods go, then nodes, then the pool."""
        timings = self._world.scenario.timings
        self._fleet.stop_arrivals(pool)
        self.renew_etag(cluster, pool)
        self.set_status(cluster, pool, PoolStatus.STOPPING)

        def start() -> float:
            target = self._target(cluster, pool)
            bounds = timings.delete_nodes if pool.nodes else timings.delete_empty
            drawn = self._world.draw("delete", cluster.name, pool.name, bounds)
            exact = self._world.faults.take(Duration, target, lambda fault: fault.operation == "delete")
            seconds = exact.seconds if exact is not None else drawn
            names = list(pool.nodes)
            after = self._world.agenda.after
            after(seconds * _DRAIN_FROM, lambda: self._fleet.drain(cluster, pool, names))
            after(seconds * _DOWN_FROM, lambda: self._fleet.take_down(cluster, pool, names))
            return seconds

        def end(_: float) -> None:
            self._gone(cluster, pool)

        work = Work(start, end, target=self._target(cluster, pool))
        return self._desk.submit(cluster.name, pool.name, OperationType.DELETE_NODE_POOL, work)

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
            seconds = self._world.draw("resize", cluster.name, pool.name, self._world.scenario.timings.resize)
            self._fleet.stop_waiting(pool)
            more = per_zone * len(pool.zones) - pool.target
            if not self._supply.fits(pool, more):
                self._supply.expect(cluster, pool, more)
                return self._try_seconds(cluster, pool, shortage_kind(pool))
            self._fleet.bring_up(cluster, pool, more, seconds)
            surplus = list(pool.nodes)[per_zone * len(pool.zones) :]
            self._fleet.drain(cluster, pool, surplus)
            self._fleet.take_down(cluster, pool, surplus)
            return seconds

        def end(waited: float) -> Failure | None:
            if pool.short:
                pool.message.ClearField("conditions")
                failure = failure_of(shortage_kind(pool), pool, cluster.name, (len(pool.nodes), waited))
                return self._fail(cluster, pool, failure, PoolStatus.RUNNING_WITH_ERROR)
            self.set_status(cluster, pool, before)
            if pool.stock is not None:
                self.complete(cluster, pool)
            return None

        work = Work(start, end, target=self._target(cluster, pool))
        return self._desk.submit(cluster.name, pool.name, OperationType.SET_NODE_POOL_SIZE, work)

    def reconcile(self, cluster: ClusterRecord, pool: PoolRecord, kind: int, seconds: float) -> OperationRecord:
        """Accept an operation that only keeps the pool busy: RECONCILING, then as before.

        The nodes' labels and taints follow the pool's description at the end.
        """
        before = pool.status
        self.set_status(cluster, pool, PoolStatus.RECONCILING)

        def end(_: float) -> None:
            if not self.exists(cluster, pool):
                return
            if pool.status == PoolStatus.RECONCILING:
                self.set_status(cluster, pool, before)
            self._fleet.relabel(cluster, pool)

        work = Work(lambda: seconds, end, target=self._target(cluster, pool))
        return self._desk.submit(cluster.name, pool.name, kind, work)

    def occupy_cluster(self, cluster: ClusterRecord, kind: int, seconds: float) -> OperationRecord:
        """Accept a cluster-level operation, which excludes pool operations."""
        work = Work(lambda: seconds, lambda _: None, target=self._world.target(cluster.name, None))
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
