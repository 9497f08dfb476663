"""The present state of a deployment: each pool of ours and each need that waits, by the plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from cli.access.log_search import read_answers
from cli.exit_codes import ExitCode, noting
from cli.fleet.rows import (
    UNLIMITED,
    list_decisions,
    list_pool_rows,
    list_waiting_rows,
    needs_a_person,
    read_cluster,
)
from cli.printing import (
    Column,
    Format,
    count,
    format_age,
    format_minute,
    open_console,
    print_data,
    print_line,
    print_table,
    short_cluster,
    styled,
    warn,
)
from shared.model.decisions import Reason, Verdict
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rich.console import Console
    from rich.text import Text

    from cli.access.connections import Deployment
    from cli.access.log_search import OpenLogs, Record
    from cli.fleet.rows import Planned, PoolRow, Reading, Row, WaitingRow
    from shared.engine.outside import Ports


def _mark(row: Row, text: str) -> Text:
    """Return a text in the style of what needs a person, if the row does."""
    return styled(text, "bad" if row.stuck else "")


def _show_state(row: PoolRow) -> Text:
    return styled(row.state, "bad" if row.failure else "ok" if row.state == "RUNNING" else "warn")


def _show_plan(row: PoolRow) -> Text:
    idle = "" if row.idle_seconds is None else f", idle for {format_age(row.idle_seconds)}"
    return _mark(row, row.decision + idle)


def _show_next(row: WaitingRow) -> str:
    at = parse_time(row.next_try)
    return "" if at is None else format_minute(at)


_REASON: Column[Any] = Column("reason", heading="REASON", show=lambda row: _mark(row, row.reason))
_WAITS: Column[WaitingRow] = Column(
    "waiting_seconds", heading="FOR", show=lambda row: format_age(row.waiting_seconds)
)
_WIDE: list[Column[Any]] = [
    Column("cluster", heading="CLUSTER", show=lambda row: short_cluster(row.cluster), wide=True),
    Column("kind", heading="KIND", wide=True),
    Column("message", heading="MESSAGE", wide=True),
]
POOLS: list[Column[PoolRow]] = [
    Column("pool", heading="POOL"),
    Column("owner", heading="WORKLOAD"),
    Column("state", heading="STATE", show=_show_state),
    Column("chips", heading="CHIPS"),
    Column("hosts_busy", heading="BUSY", show=lambda row: f"{row.hosts_busy}/{row.nodes}"),
    Column("age_seconds", heading="AGE", show=lambda row: format_age(row.age_seconds)),
    Column("decision", heading="PLAN", show=_show_plan),
    _REASON,
    Column("slot", heading="SLOT", wide=True),
    Column("attempt", heading="ATTEMPT", wide=True),
    Column("failure", heading="FAILURE", wide=True),
    Column("machine_type", heading="MACHINE", wide=True),
    Column("topology", heading="TOPOLOGY", wide=True),
    *_WIDE,
]
WAITING: list[Column[WaitingRow]] = [
    Column("owner", heading="WAITING"),
    Column("shape", heading="NEEDS"),
    Column("slices", heading="SLICES"),
    _WAITS,
    Column("decision", heading="DECISION", show=lambda row: _mark(row, row.decision)),
    _REASON,
    Column(
        "attempt",
        heading="ATTEMPT",
        show=lambda row: f"{row.attempt} ({row.candidate})" if row.candidate else row.attempt,
    ),
    Column(
        "failures", heading="FAILED", show=lambda row: f"{row.failures} x {row.failure}" if row.failures else ""
    ),
    Column("next_try", heading="NEXT TRY", show=_show_next),
    *_WIDE,
]
LEFT_ALONE: list[Column[WaitingRow]] = [Column("owner", heading="LEFT ALONE"), _WAITS, _REASON, *_WIDE]


def show_status(deployment: Deployment, namespace: str, form: Format) -> ExitCode:
    """Print the present status and return the exit code that it means."""
    status = read_status(deployment.ports, namespace=namespace, open_logs=deployment.open_logs)
    if form.for_programs:
        print_data(status.as_data(), form)
    else:
        print_status(open_console(), status, wide=form is Format.WIDE)
    for text in (*(f"not read: {each}" for each in status.unread), *(f"error: {each}" for each in status.errors)):
        warn(text)
    if status.errors:
        return ExitCode.UNREACHABLE
    return ExitCode.FINDINGS if status.troubles else ExitCode.FINE


def print_status(console: Console, status: Status, *, wide: bool) -> None:
    """Print the status for people: pools, then what waits, then what sums it up."""
    tables: list[tuple[list[Column[Any]], Sequence[Row]]] = [
        (POOLS, status.pools),
        (WAITING, status.waiting),
        (LEFT_ALONE, status.left_alone if wide else []),
    ]
    for columns, rows in tables:
        if rows:
            print_table(console, columns, rows, wide=wide)
            print_line(console)
    _print_sums(console, status)
    for trouble in status.troubles:
        print_line(console, styled(str(trouble), "warn"))


def _print_sums(console: Console, status: Status) -> None:
    chips, idle = (sum(getattr(row, name) for row in status.pools) for name in ("chips", "chips_idle"))
    stuck, slices = len(status.troubles), sum(row.slices for row in status.waiting)
    if not (status.errors and status.is_empty):
        pools = f"{count(len(status.pools), 'pool')} with {count(chips, 'chip')}" + f" ({idle} idle)" * bool(idle)
        tail = f"; {stuck} need{'s' * (stuck == 1)} a person" * bool(stuck)
        print_line(console, f"{pools}, {count(slices, 'slice')} waiting{tail}")
    for cluster, rooms in status.room_chips.items():
        left = ", ".join(f"{count(room, 'chip')} in namespace {name}" for name, room in sorted(rooms.items()))
        print_line(console, f"{short_cluster(cluster)}: the limits leave room for {left}")
    if status.left_alone:
        print_line(console, tell_left_alone(status.left_alone))
    for cluster, why in status.stops.items():
        print_line(console, styled(f"{short_cluster(cluster)}: {why}", "bad"))


def tell_left_alone(rows: Sequence[WaitingRow]) -> str:
    """Return how many workloads wait for something else, with the reasons; empty if none does."""
    if not rows:
        return ""
    reasons = ", ".join(f"{times} {reason}" for reason, times in Counter(row.reason for row in rows).most_common())
    waiting = f"{count(len(rows), 'workload')} waiting ({reasons})"
    return f"not for this provisioner: {waiting}; tpu-provisioner status -o wide shows each with its message"


_REFUSALS = (Verdict.REFUSE, "none")
"""Of a create that GKE refused, and of an answer that failed with an error."""
_MAY_BE_REFUSED = (Verdict.CREATE, Verdict.WAIT)
_OF_GKE = frozenset(
    {
        Reason.QUOTA_EXCEEDED,
        Reason.RESERVATION_UNFIT,
        Reason.PERMISSION_DENIED,
        Reason.REQUEST_INVALID,
        Reason.CLUSTER_NOT_FOUND,
        Reason.THROTTLED,
        Reason.UNAVAILABLE,
        Reason.INTERNAL_ERROR,
    }
)
"""Reasons that a plan made here cannot know: GKE answered so, and no pool or operation tells it."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What needs a person."""

    about: str  # a workload, or a part of the provisioner
    reason: str
    text: str

    def __str__(self) -> str:
        return f"{self.about}: {self.text} [{self.reason}]"


@dataclass(slots=True)
class Status:
    """All of it."""

    pools: list[PoolRow] = field(default_factory=list)
    waiting: list[WaitingRow] = field(default_factory=list)
    left_alone: list[WaitingRow] = field(default_factory=list)
    """What waits and gets no pools from this provisioner."""
    notices: list[Trouble] = field(default_factory=list)
    """What the owners of workloads without a waiting pod read."""
    errors: list[str] = field(default_factory=list)  # what could not be asked
    unread: list[str] = field(default_factory=list)
    """Sources of further facts that could not be read."""
    stops: dict[str, str] = field(default_factory=dict)
    """By cluster: why its emergency stop is on, in a sentence."""
    room_chips: dict[str, dict[str, int]] = field(default_factory=dict)
    """By cluster and namespace: for how many chips the limits leave room."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is no pool, and nothing that waits for one."""
        return not (self.pools or self.waiting or self.left_alone)

    @property
    def troubles(self) -> list[Trouble]:
        """Return what needs a person: of a workload that waits, not also its failed pools."""
        stuck = [row for row in self.waiting if row.stuck]
        owners = {(row.cluster, row.owner) for row in self.waiting}
        rows: list[Row] = [
            *stuck,
            *(row for row in self.pools if row.stuck and (row.cluster, row.owner) not in owners),
        ]
        return [*(Trouble(row.owner, row.reason, row.message) for row in rows), *self.notices]

    def as_data(self) -> dict[str, Any]:
        """Return it for programs."""
        data = asdict(self) | {"troubles": [asdict(each) for each in self.troubles]}
        del data["notices"]  # the troubles have them
        return data


def needs_records(status: Status) -> bool:
    """Return whether GKE may have refused something at once: only records have that."""
    waits = any(row.decision in _MAY_BE_REFUSED for row in status.waiting)
    return waits or any(row.decision == Verdict.DELETE for row in status.pools)


def add_refusals(status: Status, records: Collection[Record]) -> None:
    """Show what GKE refused at once, where that is the last record, in place of what is planned."""
    since_create: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    by_pool: dict[str, Mapping[str, Any]] = {}
    for record in (each.fields for each in sorted(records, key=attrgetter("at"))):
        claim = record["claim"]
        owner = str(claim.get("cluster")), f"{claim.get('namespace')}/{claim.get('name')}"
        by_pool[str(record.get("pool"))] = record
        if record.get("decision") == Verdict.CREATE:
            since_create[owner] = []
        elif _is_refusal(record) or record.get("reason") == Reason.PAUSED:
            since_create.setdefault(owner, []).append(record)
    status.waiting = [_refuse(row, since_create.get((row.cluster, row.owner), [])) for row in status.waiting]
    status.pools = [_refuse_delete(row, by_pool.get(row.pool, {})) for row in status.pools]


def _is_refusal(record: Mapping[str, Any]) -> bool:
    return record.get("decision") in _REFUSALS and record.get("reason") in _OF_GKE


def _refuse(row: WaitingRow, records: Sequence[Mapping[str, Any]]) -> WaitingRow:
    """Return a row with what was refused; without a refusal it pauses with another workload's."""
    if row.decision not in _MAY_BE_REFUSED or not records:
        return row
    refusals = list(filter(_is_refusal, records))
    reason, message = (str((refusals or records)[-1].get(key) or "") for key in ("reason", "message"))
    if not refusals:
        return replace(row, decision=str(Verdict.WAIT), reason=reason, message=message)
    shown = replace(row, decision=str(Verdict.REFUSE), reason=reason, message=message, stuck=True)
    return replace(shown, failures=len(refusals), failure=reason, error=message)


def _refuse_delete(row: PoolRow, record: Mapping[str, Any]) -> PoolRow:
    if row.decision != Verdict.DELETE or not _is_refusal(record):
        return row
    return replace(row, stuck=True, reason=str(record["reason"]), message=str(record.get("message") or ""))


def read_status(ports: Ports, *, namespace: str = "", open_logs: OpenLogs | None = None) -> Status:
    """Return the status of every cluster. What cannot be read of one is listed as an error."""
    status = Status()
    for cluster in ports.clusters:
        add_reading(status, read_cluster(cluster, ports, chooses=lambda key: namespace in ("", key.namespace)))
    if open_logs is not None and needs_records(status):
        for name in ports.clusters:
            with noting(status.unread, "the functions' logs"):
                add_refusals(status, read_answers(open_logs, name, now=ports.clock.now()))
    return status


def add_reading(status: Status, reading: Reading) -> None:
    """Add what one cluster has to a status."""
    status.errors += [f"{reading.cluster}: {error}" for error in reading.errors]
    if reading.stop:
        status.stops[reading.cluster] = reading.stop
    for one in reading.planned:
        _add_workload(status, one, reading)
    status.pools.sort(key=lambda row: (row.cluster, row.owner, row.slot, row.attempt))
    status.waiting.sort(key=lambda row: (row.cluster, row.owner, row.shape))


def _add_workload(status: Status, one: Planned, reading: Reading) -> None:
    namespace, name, room = one.look.key.namespace, one.look.key.name, one.look.scene.room
    rows = list(list_waiting_rows(one, reading))
    status.pools += list_pool_rows(one, reading)
    status.left_alone += [row for row in rows if row.decision == Verdict.NOTHING]
    status.waiting += [row for row in rows if row.decision != Verdict.NOTHING]
    alone = [] if rows else [each for each in list_decisions(one) if needs_a_person(each)]
    status.notices += [Trouble(f"{namespace}/{name}", str(each.reason), each.message) for each in alone]
    if room < UNLIMITED:
        status.room_chips.setdefault(reading.cluster, {})[namespace] = max(0, room)
