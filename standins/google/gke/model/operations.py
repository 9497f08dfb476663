"""Operations: acceptance, queue, locks, end, forgetting.

What an operation does is in `lifecycle`.

One operation per pool and one per cluster; at most `max_running_ops` of a cluster run, later ones
wait as PENDING
(https://cloud.google.com/kubernetes-engine/docs/troubleshooting/concurrent-operations).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from standins.google.errors import ApiError, Code
from standins.google.gke.faults.fault_rules import MaxRunningOps, OpGc, Target
from standins.google.gke.model.clock import Entry
from standins.google.gke.model.node_objects import OperationMoved
from standins.google.gke.model.proto_messages import (
    ConditionCode,
    Message,
    Operation,
    OperationStatus,
    OperationType,
    StatusCondition,
)
from standins.google.gke.model.state import World
from standins.google.gke.resource_names import ClusterName, is_zone

_KEPT_AT_MOST = 20_000


@dataclass(frozen=True)
class Failure:
    """Why an operation failed.

    `cause` is the short text of the error, `summary` the long one shown elsewhere.
    """

    code: Code
    cause: str
    summary: str
    condition: int = int(ConditionCode.UNKNOWN)

    def conditions(self) -> list[Message]:
        """Return the conditions as recorded.

        A coded one where a code exists, and an uncoded summary.
        """
        summary = StatusCondition(message=self.summary, canonical_code=int(self.code))
        if self.condition == ConditionCode.UNKNOWN:
            return [summary]
        return [StatusCondition(code=self.condition, message=self.cause, canonical_code=int(self.code)), summary]


@dataclass
class Work:
    """What an operation does.

    `start` returns how long it takes, `end` what went wrong (None: nothing) after so many seconds.
    """

    start: Callable[[], float]
    end: Callable[[float], Failure | None]
    target: Target = field(default_factory=Target)


@dataclass
class OperationRecord:
    """One operation: the message that callers see, its work, and its next step."""

    message: Message
    cluster: ClusterName
    pool: str
    work: Work
    started_at: float | None = None
    ended_at: float | None = None
    entry: Entry | None = None

    @property
    def name(self) -> str:
        """Return the operation's id."""
        return str(self.message.name)

    @property
    def started(self) -> bool:
        """Return whether it has left the queue."""
        return self.started_at is not None


class OperationDesk:
    """Accepts operations, runs them in order as the queue allows, and keeps the finished ones."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._records: dict[str, OperationRecord] = {}
        self._open: dict[str, OperationRecord] = {}

    def submit(self, cluster: ClusterName, pool: str, kind: int, work: Work) -> OperationRecord:
        """Accept an operation: it is PENDING, and RUNNING a moment later if the queue allows."""
        world = self._world
        milliseconds = int(world.clock.wall(world.now) * 1000)
        name = f"operation-{milliseconds}-{world.new_uuid('operation')}"
        message = Operation(
            name=name,
            zone=cluster.location,
            location="" if is_zone(cluster.location) else cluster.location,
            operation_type=kind,
            status=OperationStatus.PENDING,
            self_link=cluster.operation_link(name),
            target_link=cluster.target_link(pool),
            start_time=world.timestamp(),
        )
        record = OperationRecord(message, cluster, pool, work)
        self._records[name] = record
        self._open[name] = record
        self._forget_surplus()
        wait = world.draw("pending", cluster, pool, world.scenario.timings.pending)
        record.entry = world.agenda.after(wait, lambda: self._try_start(record))
        self._tell(record)
        return record

    def blocking(self, cluster: ClusterName, pool: str) -> OperationRecord | None:
        """Return the operation that forbids another one on this pool.

        An empty `pool` means the whole cluster.
        """
        for record in self._open.values():
            if record.cluster == cluster and (not pool or record.pool in ("", pool)):
                return record
        return None

    def end_in(self, record: OperationRecord, seconds: float) -> None:
        """Let an operation that runs end so many seconds from now."""
        if record.entry is not None and record.started:
            record.entry.cancelled = True
            record.entry = self._world.agenda.after(seconds, lambda: self._end(record))

    def in_flight(self, cluster: ClusterName) -> int:
        """Return how many operations of a cluster have not ended."""
        return sum(record.cluster == cluster for record in self._open.values())

    def find(self, name: str, project: str, location: str) -> OperationRecord:
        """Return an operation.

        Raises ApiError (NOT_FOUND) for one that never was or is forgotten.
        """
        record = self._records.get(name)
        if (
            record is None
            or self._is_forgotten(record)
            or record.cluster.project != project
            or location not in ("-", record.cluster.location)
        ):
            raise ApiError(
                Code.NOT_FOUND, f"Not found: projects/{project}/locations/{location}/operations/{name}."
            )
        return record

    def listed(self, project: str, location: str) -> list[OperationRecord]:
        """Return a location's operations (`-`: all), oldest first, without the forgotten ones."""
        return [
            record
            for record in self._records.values()
            if record.cluster.project == project
            and location in ("-", record.cluster.location)
            and not self._is_forgotten(record)
        ]

    def _try_start(self, record: OperationRecord) -> None:
        most = self._world.faults.in_force(MaxRunningOps(), record.work.target).value
        running = sum(other.started and other.cluster == record.cluster for other in self._open.values())
        record.entry = None
        if running >= most:
            return
        record.started_at = self._world.now
        record.message.status = OperationStatus.RUNNING
        seconds = record.work.start()
        record.entry = self._world.agenda.after(seconds, lambda: self._end(record))

    def _end(self, record: OperationRecord) -> None:
        waited = self._world.now - (record.started_at or 0.0)
        failure, message = record.work.end(waited), record.message
        message.status = OperationStatus.DONE
        message.end_time = self._world.timestamp()
        record.ended_at = self._world.now
        record.entry = None
        if failure is not None:
            message.error.code = int(failure.code)
            message.error.message = failure.cause
            message.status_message = failure.summary
            message.detail = failure.summary
            message.cluster_conditions.extend(failure.conditions())
        del self._open[record.name]
        self._tell(record, failure)
        for waiting in list(self._open.values()):
            if waiting.entry is None and not waiting.started and waiting.cluster == record.cluster:
                self._try_start(waiting)

    def _tell(self, record: OperationRecord, failure: Failure | None = None) -> None:
        if record.pool:
            moved = OperationMoved(
                record.cluster,
                record.pool,
                record.name,
                OperationType(record.message.operation_type).name,
                self._world.timestamp(),
                ended=record.ended_at is not None,
                code=int(failure.code) if failure else 0,
                text=failure.summary if failure else "",
            )
            self._world.tell(moved)

    def _is_forgotten(self, record: OperationRecord) -> bool:
        if record.ended_at is None:
            return False
        usual = OpGc(seconds=self._world.scenario.timings.keep_operations)
        gone = self._world.faults.in_force(usual, record.work.target)
        return self._world.now - record.ended_at >= gone.seconds

    def _forget_surplus(self) -> None:
        if len(self._records) <= _KEPT_AT_MOST:
            return
        oldest = next((name for name, record in self._records.items() if record.ended_at is not None), None)
        if oldest is not None:
            del self._records[oldest]
