"""Operations: acceptance, queue, locks, end, forgetting; and why they fail, in GKE's words.

One operation per pool and one per cluster; at most `max_running_ops` of a cluster run, later ones
wait as PENDING
(https://cloud.google.com/kubernetes-engine/docs/troubleshooting/concurrent-operations). What an
operation does is in `lifecycle`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from standins.google.errors import ApiError, Code
from standins.google.gke import pools
from standins.google.gke.clock import Entry
from standins.google.gke.faults import Target
from standins.google.gke.names import ClusterName, is_zone, region_of
from standins.google.gke.nodes import OperationMoved
from standins.google.gke.pools import Message
from standins.google.gke.scenario import Timings
from standins.google.gke.state import InstanceError, PoolRecord, World

_KEPT_AT_MOST, _RUNNING_MAX = 20_000, 20
_GCE = "Google Compute Engine: "
_WORDS: dict[str, Any] = yaml.load(
    Path(__file__).with_name("words.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)


@dataclass(frozen=True)
class Failure:
    """Why an operation failed.

    `cause` is the short text of the error, `summary` the long one shown elsewhere.
    """

    code: Any
    cause: str
    summary: str
    condition: int = int(pools.ConditionCode.UNKNOWN)

    def conditions(self) -> list[Message]:
        """Return the conditions as recorded.

        A coded one where a code exists, and an uncoded summary.
        """
        condition = pools.raw_class("StatusCondition")
        summary = condition(message=self.summary, canonical_code=self.code.value[0])
        if self.condition == pools.ConditionCode.UNKNOWN:
            return [summary]
        return [condition(code=self.condition, message=self.cause, canonical_code=self.code.value[0]), summary]


def shortage_kind(pool: PoolRecord) -> str:
    """Return the kind of cause for a pool that lacks machines: a stockout, or its reservation."""
    return "reservation" if pools.reservation_of(pool.message) else "stockout"


def try_seconds(kind: str, pool: PoolRecord, timings: Timings, jitter: float) -> float:
    """Return how long GKE tries before an operation fails by this kind of cause."""
    if kind != "stockout":
        return timings.late_failure
    return jitter + (timings.stockout_atomic if pool.shape.atomic else timings.stockout)


def instance_error(kind: str, pool: PoolRecord, cluster: ClusterName) -> InstanceError:
    """Return what Compute Engine says of an instance that cannot be made."""
    return InstanceError(_WORDS[kind]["instance"], _cause_text(kind, pool, cluster))


def _cause_text(kind: str, pool: PoolRecord, cluster: ClusterName) -> str:
    zone = pool.zones[0]
    place = {"project": cluster.project, "zone": zone, "region": region_of(zone)}
    reservation = pools.reservation_of(pool.message) or "unknown"
    return str(_WORDS[kind]["text"].format(**place, reservation=reservation))


def failure_of(kind: str, pool: PoolRecord, cluster: ClusterName, waited: float) -> Failure:
    """Return GKE's words on a pool that lacks nodes after so many seconds."""
    row, text = _WORDS[kind], _cause_text(kind, pool, cluster)
    code, short = Code[row["code"]], row["short"]
    if not short:
        return Failure(code, text, f"{_GCE}{text}")
    cause = f"Instance 'gke-{cluster.cluster[:12]}-{pool.name[:12]}-0000' creation failed: {text}"
    running, planned = len(pool.nodes), pool.granted + pool.short or pool.planned_nodes
    summary = (
        f"{_GCE}Not all instances running in IGM after {_describe_duration(waited)}. Expected {planned}, "
        f"running {running}, transitioning {planned - running}. Current errors: [{short}]: {cause}"
    )
    if pool.shape.atomic and not running:
        summary = f"{_GCE}Atomic resize failed with [{short}]: {cause}"
    condition = (
        pools.ConditionCode[short] if short in pools.ConditionCode.__members__ else pools.ConditionCode.UNKNOWN
    )
    return Failure(code, cause, summary, int(condition))


def wrong_gang_size(pool: PoolRecord) -> Failure:
    """Return GKE's words on a slice whose node count does not fit its topology.

    They follow https://github.com/AI-Hypercomputer/xpk/issues/751.
    """
    text = (
        f"{_GCE}Invalid value for field 'resource.resizeBy': '{pool.planned_nodes}'. Requested invalid target "
        f"size '{pool.planned_nodes}' for a Managed Instance Group in the gang mode of size '{pool.shape.hosts}'. "
        "Should be equal to the gang size."
    )
    return Failure(Code.INVALID_ARGUMENT, text, text)


def _describe_duration(seconds: float) -> str:
    """Return a duration as Go writes it: 35m4.123s."""
    minutes, rest = divmod(round(seconds, 3), 60)
    return f"{minutes:.0f}m{rest:.6g}s" if minutes else f"{rest:.6g}s"


@dataclass
class Work:
    """What an operation does.

    `start` returns how long it takes, `end` what went wrong (None: nothing) after so many seconds.
    """

    start: Callable[[], float]
    end: Callable[[float], Failure | None]
    target: Target


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
        message = pools.raw_class("Operation")(
            name=name,
            zone=cluster.location,
            location="" if is_zone(cluster.location) else cluster.location,
            operation_type=kind,
            status=pools.OperationStatus.PENDING,
            self_link=cluster.operation_link(name),
            target_link=cluster.target_link(pool),
            start_time=world.timestamp(),
        )
        record = OperationRecord(message, cluster, pool, work)
        self._records[name] = self._open[name] = record
        if len(self._records) > _KEPT_AT_MOST:
            del self._records[next(iter(self._records))]
        wait = world.draw("pending", cluster, pool, world.scenario.timings.pending)
        record.entry = world.agenda.after(wait, lambda: self._try_start(record))
        self._tell(record)
        return record

    def blocking(self, cluster: ClusterName, pool: str) -> OperationRecord | None:
        """Return the operation that forbids another one on this pool.

        An empty `pool` means the whole cluster.
        """
        of_cluster = (record for record in self._open.values() if record.cluster == cluster)
        return next((record for record in of_cluster if not pool or record.pool in ("", pool)), None)

    def end_in(self, record: OperationRecord, seconds: float) -> None:
        """Let an operation that runs end so many seconds from now."""
        if record.entry is not None and record.started_at is not None:
            record.entry.cancelled = True
            record.entry = self._world.agenda.after(seconds, lambda: self._end(record))

    def in_flight(self, cluster: ClusterName) -> int:
        """Return how many operations of a cluster have not ended."""
        return sum(record.cluster == cluster for record in self._open.values())

    def find(self, name: str, project: str, location: str) -> Message:
        """Return an operation.

        Raises ApiError (NOT_FOUND) for one that never was or is forgotten.
        """
        listed = {message.name: message for message in self.listed(project, location)}
        if name not in listed:
            text = f"Not found: projects/{project}/locations/{location}/operations/{name}."
            raise ApiError(Code.NOT_FOUND, text)
        return listed[name]

    def listed(self, project: str, location: str) -> list[Message]:
        """Return a location's operations (`-`: all), oldest first, without the forgotten ones."""
        return [
            record.message
            for record in self._records.values()
            if record.cluster.project == project
            and location in ("-", record.cluster.location)
            and not self._is_forgotten(record)
        ]

    def _try_start(self, record: OperationRecord) -> None:
        fault = self._world.faults.find("max_running_ops", record.work.target)
        most = fault.value if fault else _RUNNING_MAX
        others = (other for other in self._open.values() if other.cluster == record.cluster)
        record.entry = None
        if sum(other.started_at is not None for other in others) >= most:
            return
        record.started_at = self._world.now
        record.message.status = pools.OperationStatus.RUNNING
        record.entry = self._world.agenda.after(record.work.start(), lambda: self._end(record))

    def _end(self, record: OperationRecord) -> None:
        waited = self._world.now - (record.started_at or 0.0)
        failure, message = record.work.end(waited), record.message
        message.status = pools.OperationStatus.DONE
        message.end_time = self._world.timestamp()
        record.ended_at = self._world.now
        record.entry = None
        if failure is not None:
            message.error.code = failure.code.value[0]
            message.error.message = failure.cause
            message.status_message = message.detail = failure.summary
            message.cluster_conditions.extend(failure.conditions())
        del self._open[message.name]
        self._tell(record, failure)
        for waiting in list(self._open.values()):
            if waiting.entry is None and waiting.started_at is None and waiting.cluster == record.cluster:
                self._try_start(waiting)

    def _tell(self, record: OperationRecord, failure: Failure | None = None) -> None:
        if record.pool:
            moved = OperationMoved(
                record.cluster,
                record.pool,
                record.message.name,
                pools.OperationType(record.message.operation_type).name,
                self._world.timestamp(),
                ended=record.ended_at is not None,
                code=failure.code.value[0] if failure else 0,
                text=failure.summary if failure else "",
            )
            self._world.tell(moved)

    def _is_forgotten(self, record: OperationRecord) -> bool:
        fault = self._world.faults.find("op_gc", record.work.target)
        seconds = self._world.scenario.timings.keep_operations if fault is None else fault.seconds or 0.0
        return record.ended_at is not None and self._world.now - record.ended_at >= seconds
