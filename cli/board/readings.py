"""One reading of a deployment for the board, by the readers of `status`, `usage` and `doctor`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from cli.access.log_search import read_answers
from cli.diagnosis.cluster_checks import check_lease
from cli.diagnosis.findings import Result
from cli.exit_codes import say
from cli.fleet.status import Status, Trouble, add_refusals, read_status
from cli.fleet.status_table import tell_left_alone
from cli.printing import short_cluster
from cli.usage.account import DAY_SECONDS, Account, Row, list_pools, read_records
from cli.usage.usage_command import GROUPS
from shared.model.errors import ProvisionerError
from shared.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cli.access.log_search import Answered
    from cli.access.operator_access import Deployment
    from cli.diagnosis.findings import Finding

SLOW_FACTOR = 12
"""Logs and Leases are read once in so many: Cloud Logging answers 60 questions a minute."""


@dataclass(slots=True)
class Readings:
    """Reads a deployment again and again; what is slow to read is kept for some readings."""

    deployment: Deployment
    namespace: str = ""
    status: Status = field(default_factory=Status)
    """That of the last reading."""
    _count: int = 0
    _answers: list[Answered] = field(default_factory=list)
    """What the functions created or refused in the last day."""
    _silent: list[Trouble] = field(default_factory=list)
    _unread: list[str] = field(default_factory=list)
    _usage: dict[str, Any] = field(default_factory=dict)
    """Of today (UTC)."""

    def read(self) -> dict[str, Any]:
        """Return everything that the page shows. A source that fails is named in ``unread``."""
        ports = self.deployment.ports
        now = ports.clock.now()
        status = self.status = read_status(ports, namespace=self.namespace)
        if self._count % SLOW_FACTOR == 0:
            self._read_slowly(now)
        self._count += 1
        add_refusals(status, self._answers)
        troubles = [asdict(each) for each in (*self._silent, *status.troubles)]
        return {
            "now": now,
            "version": VERSION,
            "clusters": list(ports.clusters),
            "status": status.as_data() | {"troubles": troubles},
            "left_alone": tell_left_alone(status.left_alone),
            "usage": self._usage,
            "unread": [*status.errors, *self._unread],
        }

    def _read_slowly(self, now: float) -> None:
        self._unread = []
        open_logs = self.deployment.open_logs
        if open_logs is None:
            self._unread.append("logs: the settings name none")
        else:
            reads = [partial(read_answers, open_logs, each, now=now) for each in self.deployment.ports.clusters]
            self._answers = [each for read in reads for each in self._try("logs", read)]
            self._try("usage", lambda: self._read_usage(now))
        self._silent = list(self._find_silent())

    def _read_usage(self, now: float) -> list[Any]:
        """Sum the records of today, and return nothing."""
        midnight, deployment = now - now % DAY_SECONDS, self.deployment
        account = Account(midnight, GROUPS["workload"], deployment.ports.clusters)
        for at, record in read_records(deployment, midnight, now):
            account.see(at, record)
        account.close(now, list_pools(deployment))
        total = Row()
        for row in account.rows.values():
            if not self.namespace or row.group.startswith(f"{self.namespace}/"):
                total.add(row)
        self._usage = total.as_data()
        return []

    def _find_silent(self) -> Iterator[Trouble]:
        """Yield the exporters that do not report: what they leave undone is nowhere else."""
        for cluster in self.deployment.apis:
            for finding in self._try(f"the Lease of {cluster}", partial(self._check_lease, cluster)):
                if finding.result is Result.BAD:
                    text = f"{finding.text}. Until it reports, only the ticks notice workloads."
                    yield Trouble(f"{short_cluster(cluster)} exporter", "silent", f"{text} Next: {finding.fix}")

    def _check_lease(self, cluster: str) -> list[Finding]:
        return [check_lease(self.deployment, cluster)]

    def _try(self, what: str, read: Callable[[], list[Any]]) -> list[Any]:
        try:
            return read()
        except ProvisionerError as error:
            self._unread.append(f"{what}: {say(error)}")
            return []
