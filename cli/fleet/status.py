"""The present state of a deployment: each pool of ours and each need that waits, by the plan."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cli.access.log_search import read_answers
from cli.exit_codes import say
from cli.fleet.looks import read_cluster
from cli.fleet.rows import UNLIMITED, list_decisions, list_pool_rows, list_waiting_rows, needs_a_person
from shared.model.decisions import Reason, Verdict
from shared.model.errors import ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cli.access.log_search import Answered, OpenLogs
    from cli.fleet.looks import Planned, Reading
    from cli.fleet.rows import PoolRow, Row, WaitingRow
    from shared.engine.outside import Ports


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

    about: str
    """A workload, or a part of the provisioner."""
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
    """What the owners of workloads without a waiting pod are told."""
    errors: list[str] = field(default_factory=list)
    """What could not be asked."""
    unread: list[str] = field(default_factory=list)
    """Sources of further facts that could not be read."""
    stops: dict[str, str] = field(default_factory=dict)
    """By cluster: why its emergency stop is on, in a sentence."""
    room: dict[str, dict[str, int]] = field(default_factory=dict)
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
        return {
            "pools": [asdict(row) for row in self.pools],
            "waiting": [asdict(row) for row in self.waiting],
            "left_alone": [asdict(row) for row in self.left_alone],
            "troubles": [asdict(each) for each in self.troubles],
            "errors": self.errors,
            "unread": self.unread,
            "stops": self.stops,
            "room_chips": self.room,
        }


def needs_records(status: Status) -> bool:
    """Return whether something waits that GKE may have refused at once: only records tell that."""
    return any(row.decision in _MAY_BE_REFUSED for row in status.waiting)


def add_refusals(status: Status, answers: Iterable[Answered]) -> None:
    """Show what GKE refused at once, where that is the last record, in place of what is planned."""
    told: dict[tuple[str, str], list[Answered]] = {}
    for each in sorted(answers, key=lambda each: each.at):
        owner = each.claim.get("cluster", ""), f"{each.claim.get('namespace')}/{each.claim.get('name')}"
        if each.decision == Verdict.CREATE or (each.decision in _REFUSALS and each.reason in _OF_GKE):
            told.setdefault(owner, []).append(each)
    for place, row in enumerate(status.waiting):
        records = told.get((row.cluster, row.owner), [])
        if row.decision in _MAY_BE_REFUSED and records and records[-1].decision != Verdict.CREATE:
            status.waiting[place] = _refuse(row, records)


def _refuse(row: WaitingRow, records: Sequence[Answered]) -> WaitingRow:
    last, accepted = records[-1], [at for at, each in enumerate(records) if each.decision == Verdict.CREATE]
    return replace(
        row,
        decision=str(Verdict.REFUSE),
        reason=last.reason,
        message=last.message,
        stuck=True,
        failures=len(records) - 1 - max(accepted, default=-1),
        failure=last.reason,
        error=last.message,
    )


def read_status(ports: Ports, *, namespace: str = "", open_logs: OpenLogs | None = None) -> Status:
    """Return the status of every cluster. What cannot be read of one is listed as an error."""
    status = Status()
    for cluster in ports.clusters:
        add_reading(status, read_cluster(cluster, ports, chooses=lambda key: namespace in ("", key.namespace)))
    if open_logs is not None and needs_records(status):
        try:
            now = ports.clock.now()
            for name in ports.clusters:
                add_refusals(status, read_answers(open_logs, name, now=now))
        except ProvisionerError as error:
            status.unread.append(f"the functions' logs: {say(error)}")
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
    told = [] if rows else [each for each in list_decisions(one) if needs_a_person(each)]
    status.notices += [Trouble(f"{namespace}/{name}", str(each.reason), each.message) for each in told]
    if room < UNLIMITED:
        status.room.setdefault(reading.cluster, {})[namespace] = max(0, room)
