"""One reading of a deployment for the board, by the readers of the other commands."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from cli.access.log_search import read_answers
from cli.board.acts import list_dead_letters
from cli.board.lanes import Lanes, list_creations
from cli.diagnosis.cluster_checks import check_exporter, check_lease
from cli.diagnosis.findings import Result
from cli.exit_codes import say
from cli.fleet.status import Status, Trouble, add_reading, add_refusals, read_all
from cli.fleet.status_table import tell_left_alone
from cli.usage.account import DAY_SECONDS, Account, Row
from cli.usage.record_stream import Span, read_records
from cli.usage.usage_command import GROUPS
from shared.model.decisions import Verdict
from shared.model.errors import ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cli.access.log_search import Answered
    from cli.access.operator_access import Deployment
    from cli.board.lanes import Created, Key
    from shared.engine.outside import Ports

SLOW_FACTOR = 6
"""Logs and dead letters are read once in so many readings: Cloud Logging answers 60 questions a
minute, and a dead letter that is read is held for a moment."""
DECISIONS_MAX = 200
LAG_SECONDS = 20.0
"""Cloud Logging may show a record some seconds after it was written."""

_MEANWHILE = "Until it reports, only the ticks notice workloads."


def look(ports: Ports, namespace: str) -> tuple[Status, dict[Key, Created]]:
    """Return the status, and what GKE created for each slot."""
    status, readings = Status(), read_all(ports, namespace=namespace)
    for reading in readings:
        add_reading(status, reading)
    return status, list_creations(readings)


@dataclass(slots=True)
class Readings:
    """Reads a deployment again and again, and remembers what one reading alone does not show."""

    deployment: Deployment
    namespace: str = ""
    status: Status = field(default_factory=Status)
    """That of the last reading."""
    _lanes: Lanes = field(default_factory=Lanes)
    _count: int = 0
    _answers: list[Answered] = field(default_factory=list)
    """What the functions created or refused in the last day, the newest first."""
    _decisions: list[dict[str, Any]] = field(default_factory=list)
    _dead_letters: list[dict[str, Any]] = field(default_factory=list)
    _silent: list[Trouble] = field(default_factory=list)
    _slow_unread: list[str] = field(default_factory=list)
    _account: Account | None = None
    """The records of today, by workload, up to `_read_until`."""
    _read_until: float = 0.0
    _usage: dict[str, Any] = field(default_factory=dict)
    _listed: set[str] | None = None
    """The names of the pools that are there; None if some cluster did not answer."""

    def forget_dead_letters(self) -> None:
        """Read the dead letters and the logs anew next time, because an act changed them."""
        self._count = 0

    def read(self) -> dict[str, Any]:
        """Return everything that the page shows. A source that fails is named in ``unread``."""
        ports = self.deployment.ports
        status, creations = look(ports, self.namespace)
        now = ports.clock.now()
        if self._count % SLOW_FACTOR == 0:
            self._read_slowly(now)
        self._count += 1
        add_refusals(status, self._answers)
        self.status = status
        self._listed = None if status.errors else {row.pool for row in status.pools}
        lanes = self._lanes.observe(status, creations, now)
        return {
            "now": now,
            "clusters": list(ports.clusters),
            "status": status.as_data()
            | {"troubles": [asdict(each) for each in (*self._silent, *status.troubles)]},
            "left_alone": tell_left_alone(status.left_alone),
            "lanes": [lane.as_data() for lane in lanes],
            "decisions": self._decisions,
            "letters": self._dead_letters,
            "usage": self._usage,
            "unread": [*status.errors, *self._slow_unread],
        }

    def _read_slowly(self, now: float) -> None:
        self._slow_unread = []
        open_logs = self.deployment.open_logs
        if open_logs is None:
            self._slow_unread.append("decisions: the settings name no logs")
        else:
            clusters = self.deployment.ports.clusters
            reads = [partial(read_answers, open_logs, cluster, now=now) for cluster in clusters]
            found = [each for read in reads for each in self._try("decisions", read)]
            self._answers = sorted(found, key=lambda each: -each.at)
            self._decisions = [_describe(each) for each in self._answers[:DECISIONS_MAX]]
            self._try("usage", lambda: self._read_usage(now))
        self._dead_letters = [
            asdict(each) for each in self._try("dead letters", lambda: list_dead_letters(self.deployment))
        ]
        self._silent = list(self._find_silent())

    def _read_usage(self, now: float) -> list[Any]:
        """Add the new records to those of today (UTC), and return nothing."""
        midnight, end = now - now % DAY_SECONDS, now - LAG_SECONDS
        begin = max(midnight, self._read_until)
        if self._account is None or self._read_until < midnight:
            self._account, begin = Account(midnight, GROUPS["workload"], self.deployment.chosen), midnight
        account, self._account = self._account, None  # a read that fails begins anew
        for at, record in read_records(self.deployment, Span(begin=begin, end=end), earlier=begin == midnight):
            account.see(at, record)
        self._account, self._read_until = account, end
        shown = {
            name: row
            for name, row in account.total(now, self._listed).sum_groups().items()
            if self._is_shown(name)
        }
        total = Row()
        for row in shown.values():
            total.add(row)
        workloads = {name: row.as_data() for name, row in shown.items()}
        self._usage = {"total": total.as_data(), "workloads": workloads}
        return []

    def _is_shown(self, workload: str) -> bool:
        return not self.namespace or workload.startswith(f"{self.namespace}/")

    def _find_silent(self) -> Iterator[Trouble]:
        """Yield the exporters that do not report: what they leave undone is nowhere else."""
        deployment = self.deployment
        checks = {f"the Lease of {each}": partial(check_lease, deployment, each) for each in deployment.apis}
        if deployment.own.exporter_url:
            checks["exporter"] = partial(check_exporter, deployment)
        for what, check in checks.items():
            for found in self._try(what, lambda look=check: list(look())):  # type: ignore[misc]
                if found.result is Result.BAD:
                    mend = found.mend
                    yield Trouble(found.check, "silent", f"{found.text}. {_MEANWHILE} Next: {mend}")

    def _try(self, what: str, read: Callable[[], list[Any]]) -> list[Any]:
        try:
            return read()
        except ProvisionerError as error:
            self._slow_unread.append(f"{what}: {say(error)}")
            return []


def _describe(answered: Answered) -> dict[str, Any]:
    claim = answered.claim
    return {
        "at": answered.at,
        "about": f"{claim.get('namespace', '')}/{claim.get('name', '')}",
        "text": f"{answered.decision}: {answered.message} [{answered.reason}]",
        "bad": answered.decision in (Verdict.REFUSE, "none"),
    }
