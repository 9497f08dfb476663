"""What operations do to pools: create, delete, upkeep, and what happens without any call.

The state machine: absent -> PROVISIONING -> RUNNING | ERROR; resting -> RECONCILING -> resting;
resting -> STOPPING -> absent. Failed creates stay, their name stays taken. Whether a call is let in
at all is decided in `fake_gke`.
"""

from standins.google.gke import operations
from standins.google.gke.faults import Fault, Target
from standins.google.gke.nodes import PoolState
from standins.google.gke.operations import Failure, OperationDesk, OperationRecord, Work
from standins.google.gke.pools import Message, OperationType, PoolStatus, complete_pool, reservation_of
from standins.google.gke.state import ClusterRecord, PoolRecord, World, find_target
from standins.google.gke.supply import Fleet, Supply, group_url
from standins.google.gke.validation import Shape

_DRAIN_FROM, _DOWN_FROM = 0.1, 0.7


class Lifecycle:
    """Carries out accepted calls on pools, by operations."""

    def __init__(self, world: World, desk: OperationDesk) -> None:
        self._world, self._desk = world, desk
        self._fleet = Fleet(world)
        self.supply = Supply(world, self._fleet)
        self.supply.granted, self.supply.lost, self.supply.completed = self._granted, self._lost, self._complete

    def create(self, cluster: ClusterRecord, wanted: Message, shape: Shape, zones: list[str]) -> OperationRecord:
        """Accept a new pool: visible at once as PROVISIONING.

        How it ends is decided when the operation starts, and by machines that come or go meanwhile.
        """
        stored = complete_pool(wanted, cluster.name, shape.machine, zones)
        pool = PoolRecord(stored, shape, zones, self._world.now)
        pool.stock = self.supply.find_stock(cluster, pool, reservation_of(stored))
        stored.instance_group_urls.extend(group_url(cluster, pool, zone) for zone in zones)
        cluster.pools[pool.name] = pool
        self._set_status(cluster, pool, PoolStatus.PROVISIONING)
        unfit = shape.atomic and pool.planned_nodes not in (0, shape.hosts)
        faults: list[Fault] = []

        def start() -> float:
            # A pool without nodes has no instances that could fail: its groups meet the fault.
            target = self._target(cluster, pool)
            fault = self._world.faults.take("outcome", target, lambda _: pool.planned_nodes > 0)
            exact = self._world.faults.take("duration", target, lambda it: it.operation == "create")
            if fault is not None:
                faults.append(fault)
                typical = self._try_seconds(cluster, pool, fault.kind)
                seconds = typical if fault.seconds is None else fault.seconds
                self.supply.block(cluster, pool, fault, pool.planned_nodes)
            elif unfit:
                seconds = self._world.scenario.timings.late_failure
            elif pool.planned_nodes <= self.supply.room(pool):
                seconds = exact.seconds or 0.0 if exact else self._draw_creation(cluster, pool)
                self._fleet.expect(cluster, pool, pool.planned_nodes)
                self._fleet.grant(cluster, pool, list(pool.waiting), seconds)
            else:
                seconds = self._try_seconds(cluster, pool, operations.shortage_kind(pool))
                self.supply.expect(cluster, pool, pool.planned_nodes)
            return exact.seconds or 0.0 if exact else seconds

        def end(waited: float) -> Failure | None:
            failure = operations.wrong_gang_size(pool) if unfit else None
            if faults or pool.short:
                kind = faults[0].kind if faults else operations.shortage_kind(pool)
                failure = operations.failure_of(kind, pool, cluster.name, waited)
            if pool.all_or_none or faults:
                self._fleet.forget(pool, list(pool.waiting))
            self._end_creation(cluster, pool, failure)
            return failure

        work = Work(start, end, self._target(cluster, pool))
        return self._desk.submit(cluster.name, pool.name, OperationType.CREATE_NODE_POOL, work)

    def _draw_creation(self, cluster: ClusterRecord, pool: PoolRecord) -> float:
        timings = self._world.scenario.timings
        bounds = timings.create_empty
        if pool.planned_nodes:
            bounds = timings.create_slice if pool.shape.atomic else timings.create_single
        return self._world.draw("create", cluster.name, pool.name, bounds)

    def _try_seconds(self, cluster: ClusterRecord, pool: PoolRecord, kind: str) -> float:
        timings = self._world.scenario.timings
        jitter = self._world.draw("jitter", cluster.name, pool.name, timings.stockout_jitter)
        return operations.try_seconds(kind, pool, timings, jitter)

    def _end_creation(self, cluster: ClusterRecord, pool: PoolRecord, failure: Failure | None) -> None:
        pool.finished_at, pool.failed = self._world.now, failure is not None
        if failure is not None:
            pool.message.status_message = failure.summary
            pool.message.conditions.extend(failure.conditions())
        self._set_status(cluster, pool, PoolStatus.ERROR if failure else PoolStatus.RUNNING)

    def _granted(self, cluster: ClusterRecord, pool: PoolRecord, seconds: float) -> None:
        """Let the operation that waits for these machines end when the nodes are up."""
        operation = self._find_creation(cluster, pool)
        if operation is not None:
            self._desk.end_in(operation, seconds)

    def _lost(self, cluster: ClusterRecord, pool: PoolRecord) -> None:
        """Let an operation whose machines are taken back try as long as GKE tries."""
        operation = self._find_creation(cluster, pool)
        if operation is not None and operation.started_at is not None:
            seconds = self._try_seconds(cluster, pool, operations.shortage_kind(pool))
            self._desk.end_in(operation, operation.started_at + seconds - self._world.now)

    def _find_creation(self, cluster: ClusterRecord, pool: PoolRecord) -> OperationRecord | None:
        record = self._desk.blocking(cluster.name, pool.name)
        created = record is not None and record.message.operation_type == OperationType.CREATE_NODE_POOL
        return record if created else None

    def _complete(self, cluster: ClusterRecord, pool: PoolRecord) -> None:
        """Turn a pool that failed to RUNNING, now that it has all nodes."""
        if pool.short or not pool.failed or pool.status != PoolStatus.ERROR or not self._exists(cluster, pool):
            return
        pool.failed = False
        pool.message.status_message = ""
        pool.message.ClearField("conditions")
        self._set_status(cluster, pool, PoolStatus.RUNNING)

    def delete(self, cluster: ClusterRecord, pool: PoolRecord) -> OperationRecord:
        """Accept a delete: STOPPING at once; pods go, then nodes, then the pool."""
        timings = self._world.scenario.timings
        self._fleet.forget(pool, [*pool.coming, *pool.waiting])
        self._set_status(cluster, pool, PoolStatus.STOPPING)

        def start() -> float:
            bounds = timings.delete_nodes if pool.nodes else timings.delete_empty
            seconds = self._world.draw("delete", cluster.name, pool.name, bounds)
            target = self._target(cluster, pool)
            exact = self._world.faults.take("duration", target, lambda it: it.operation == "delete")
            seconds = exact.seconds or 0.0 if exact is not None else seconds
            names, after = list(pool.nodes), self._world.agenda.after
            after(seconds * _DRAIN_FROM, lambda: self._fleet.announce(cluster, pool, names, gone=False))
            after(seconds * _DOWN_FROM, lambda: self._fleet.take_down(cluster, pool, names))
            return seconds

        def end(_: float) -> None:
            del cluster.pools[pool.name]
            self._world.tell(PoolState(cluster.name, pool.name, "GONE"))

        work = Work(start, end, self._target(cluster, pool))
        return self._desk.submit(cluster.name, pool.name, OperationType.DELETE_NODE_POOL, work)

    def reconcile(self, cluster: ClusterRecord, pool: PoolRecord) -> OperationRecord:
        """Accept an operation that only keeps the pool busy: RECONCILING, then as before."""
        before = pool.status
        self._set_status(cluster, pool, PoolStatus.RECONCILING)

        def end(_: float) -> None:
            if self._exists(cluster, pool) and pool.status == PoolStatus.RECONCILING:
                self._set_status(cluster, pool, before)

        seconds = self._world.draw("update", cluster.name, pool.name, self._world.scenario.timings.update)
        work = Work(lambda: seconds, end, self._target(cluster, pool))
        return self._desk.submit(cluster.name, pool.name, OperationType.UPDATE_CLUSTER, work)

    def occupy_cluster(self, cluster: ClusterRecord, kind: int, seconds: float) -> None:
        """Begin a cluster-level operation, which excludes pool operations."""
        work = Work(lambda: seconds, lambda _: None, Target(cluster.name.cluster))
        self._desk.submit(cluster.name, "", kind, work)

    def _set_status(self, cluster: ClusterRecord, pool: PoolRecord, status: int) -> None:
        """Change a pool's status, and with it its etag, and tell the listeners."""
        pool.message.status, pool.message.etag = status, self._world.new_uuid("etag")
        self._world.tell(PoolState(cluster.name, pool.name, PoolStatus(status).name))

    def _exists(self, cluster: ClusterRecord, pool: PoolRecord) -> bool:
        """Return whether this very pool is still in its cluster."""
        return cluster.pools.get(pool.name) is pool

    def _target(self, cluster: ClusterRecord, pool: PoolRecord) -> Target:
        return find_target(cluster.name, pool.message, pool.zones)
