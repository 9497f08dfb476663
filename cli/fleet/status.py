"""The present state of a deployment: each pool of ours and each need that waits, by the plan."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from cli.fleet.looks import read_cluster
from cli.fleet.rows import UNLIMITED, list_decisions, list_pool_rows, list_waiting_rows, needs_a_person
from shared.model.decisions import Verdict

if TYPE_CHECKING:
    from cli.fleet.looks import Planned, Reading
    from cli.fleet.rows import PoolRow, Row, WaitingRow
    from shared.engine.outside import Ports


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
            "stops": self.stops,
            "room_chips": self.room,
        }


def read_all(ports: Ports, *, namespace: str = "") -> list[Reading]:
    """Return a reading of every cluster, of the workloads of one namespace or of all."""
    return [
        read_cluster(cluster, ports, chooses=lambda key: namespace in ("", key.namespace))
        for cluster in ports.clusters
    ]


def read_status(ports: Ports, *, namespace: str = "") -> Status:
    """Return the status of every cluster. What cannot be read of one is listed as an error.

    Args:
        ports: the deployment; nothing is changed.
        namespace: only what belongs to workloads of this namespace; empty: all.
    """
    status = Status()
    for reading in read_all(ports, namespace=namespace):
        add_reading(status, reading)
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
