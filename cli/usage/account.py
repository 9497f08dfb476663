"""Adds up the chip-hours of pools from the functions' records of creates and deletes.

A pool counts from the record of its create to that of its delete, with all of its nodes. A day is
one of UTC. What is kept follows the number of days, groups and pools that exist.
"""

from __future__ import annotations

import copy
import heapq
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from cli.access.cli_settings import find_log_project, name_services
from cli.access.log_search import read_moment, require_logs
from cli.moments import format_exact
from cli.prices import find_chip_price
from shared.edges.google import translate_errors
from shared.model.decisions import FAILURE_REASONS, Reason, Verdict
from shared.model.errors import Throttled
from shared.model.needs import Tier

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from cli.access.operator_access import Deployment

    Record = tuple[float, Mapping[str, Any]]

HOUR_SECONDS, DAY_SECONDS = 3600.0, 86_400.0
_FAILED = FAILURE_REASONS | {Reason.POOL_USELESS}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLife:
    """A pool from its create on."""

    began_at: float
    """Unix seconds."""
    claim: Mapping[str, str]
    """Cluster, kind, namespace and name of its workload."""
    chips: int
    accelerator: str
    tier: str
    zone: str


@dataclass(slots=True)
class Row:
    """The sums of one day and group, or of several."""

    pools: int = 0
    chip_hours: float = 0.0
    failed_chip_hours: float = 0.0
    """Those of pools that were deleted because they failed; they are not in `chip_hours`."""
    waited_hours: float = 0.0
    """From the creation of the oldest pod that waited to the create of its pool."""
    dollars: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """List price of `chip_hours`, by tier."""
    unpriced: float = 0.0
    """Chip-hours whose list price is unknown."""

    def add(self, other: Row) -> None:
        """Add another row."""
        self.pools += other.pools
        self.chip_hours += other.chip_hours
        self.failed_chip_hours += other.failed_chip_hours
        self.waited_hours += other.waited_hours
        self.unpriced += other.unpriced
        for tier, dollars in other.dollars.items():
            self.dollars[tier] += dollars

    def as_data(self) -> dict[str, Any]:
        """Return it for programs. Hours are rounded to seconds, and dollars to cents."""
        return {
            "pools": self.pools,
            "chip_hours": round(self.chip_hours, 4),
            "failed_chip_hours": round(self.failed_chip_hours, 4),
            "waited_hours": round(self.waited_hours, 4),
            "list_price_dollars": {tier: round(self.dollars[tier], 2) for tier in sorted(self.dollars)},
            "unpriced_chip_hours": round(self.unpriced, 4),
        }


@dataclass(slots=True)
class Account:
    """The sums of a time. Records are read in the order of time."""

    begin: float
    """Unix seconds. What was before does not count, but tells which pools exist."""
    group_of: Callable[[PoolLife], str]
    """Returns the group of a pool."""
    clusters: Collection[str] = ()
    """Only their pools count; empty: those of all."""
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    """By day and group, without the pools that still exist."""
    lives: dict[str, PoolLife] = field(default_factory=dict)
    """The pools that exist, by their names."""
    unknown_pools: int = 0
    """Pools whose create or end no record tells."""

    def see(self, at: float, record: Mapping[str, Any]) -> None:
        """Read one record, which was written at a time in unix seconds."""
        name, decision = str(record.get("pool") or ""), record.get("decision")
        claim = record.get("claim")
        if not name or not isinstance(claim, dict) or not self._counts(claim):
            return
        if decision == Verdict.CREATE and name not in self.lives:
            self._open(name, at, claim, record)
        elif decision == Verdict.DELETE:
            life = self.lives.pop(name, None)
            if life is not None:
                self._close(life, at, failed=record.get("reason") in _FAILED)
            elif at >= self.begin:
                self.unknown_pools += 1

    def total(self, now: float, listed: Collection[str] | None = None) -> Account:
        """Return the account as if the pools that exist ended now; this one goes on."""
        ended = copy.deepcopy(self)
        ended.end_all(now, listed)
        return ended

    def end_all(self, now: float, listed: Collection[str] | None) -> None:
        """End the pools that exist; of the others it is not known for how long they did."""
        for name, life in self.lives.items():
            if listed is None or name in listed:
                self._close(life, now, failed=False)
            else:
                self.unknown_pools += 1
        self.lives.clear()

    def _counts(self, claim: Mapping[str, Any]) -> bool:
        return not self.clusters or claim.get("cluster") in self.clusters

    def _open(self, name: str, at: float, claim: Mapping[str, str], record: Mapping[str, Any]) -> None:
        chips = record.get("chips")
        if not isinstance(chips, int) or chips <= 0:
            self.unknown_pools += at >= self.begin
            return
        texts = {key: str(record.get(key) or "") for key in ("accelerator", "tier", "zone")}
        life = PoolLife(began_at=at, claim=claim, chips=chips, **texts)
        self.lives[name] = life
        if at >= self.begin:
            row, waited = self._get_row(at, life), record.get("waited_seconds")
            row.pools += 1
            row.waited_hours += waited / HOUR_SECONDS if isinstance(waited, int | float) else 0.0

    def _close(self, life: PoolLife, until: float, *, failed: bool) -> None:
        price = find_chip_price(life.accelerator, life.zone, life.tier)
        for day, hours in self._split(life.began_at, until):
            row, spent = self._get_row(day, life), hours * life.chips
            if failed:
                row.failed_chip_hours += spent
                continue
            row.chip_hours += spent
            if price is None:
                row.unpriced += spent
            else:
                row.dollars[life.tier or str(Tier.ON_DEMAND)] += spent * price

    def _get_row(self, at: float, life: PoolLife) -> Row:
        return self.rows.setdefault((name_day(at), self.group_of(life)), Row())

    def _split(self, start: float, end: float) -> Iterator[tuple[float, float]]:
        """Yield a moment of each day of a time, with the hours of that day."""
        at = max(start, self.begin)
        while at < end:
            until = min(end, (at // DAY_SECONDS + 1) * DAY_SECONDS)
            yield at, (until - at) / HOUR_SECONDS
            at = until

    def sum_groups(self) -> dict[str, Row]:
        """Return the sums of each group over all days, in the order of their names."""
        return _sum((group, row) for (_, group), row in self.rows.items())

    def sum_days(self) -> dict[str, Row]:
        """Return the sums of each day over all groups."""
        return _sum((day, row) for (day, _), row in self.rows.items())

    def sum_all(self) -> Row:
        """Return the sums of everything."""
        return _sum(("", row) for row in self.rows.values()).get("", Row())


def name_day(at: float) -> str:
    """Return the day of a time in UTC, as ``2026-11-26``."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def _sum(rows: Iterable[tuple[str, Row]]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for key, row in rows:
        found.setdefault(key, Row()).add(row)
    return dict(sorted(found.items()))


PAGE_SIZE = 1000
"""The most that Cloud Logging gives at a time."""
EARLIER_SECONDS = 30 * 86_400.0
"""So far before the begin the creates and deletes of pools are read too. A log bucket keeps records
for 30 days if nobody sets another time: https://cloud.google.com/logging/quotas#logs_retention_periods."""
QUOTA_SECONDS = 10.0
"""The pause after Cloud Logging refused a page: a project has 60 reads in a minute
(https://cloud.google.com/logging/quotas#api-limits)."""
_CHANGES = 'severity>=NOTICE AND jsonPayload.decision=("create" OR "delete")'


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The time whose records are read, in unix seconds."""

    begin: float
    end: float


def read_records(
    deployment: Deployment, span: Span, *, earlier: bool = True, wait: Callable[[float], object] = time.sleep
) -> Iterator[Record]:
    """Yield the creates and deletes of a time in order."""
    require_logs(deployment.open_logs)
    begin = span.begin - EARLIER_SECONDS * earlier
    streams = [
        _read(deployment, project, Span(begin=begin, end=span.end), wait) for project in list_projects(deployment)
    ]
    return heapq.merge(*streams, key=itemgetter(0))


def list_projects(deployment: Deployment) -> list[str]:
    """Return the projects that have the logs of a deployment."""
    return list(dict.fromkeys(find_log_project(deployment.own, each) for each in deployment.ports.clusters))


def _read(deployment: Deployment, project: str, span: Span, wait: Callable[[float], object]) -> Iterator[Record]:
    """Yield the records that fit. After a refused page it goes on where it was."""
    at, seen, until = span.begin, set[str](), format_exact(span.end)
    ours = name_services(deployment.own)
    client: Any = require_logs(deployment.open_logs)(project)
    while True:
        try:
            with translate_errors(f"ListLogEntries projects/{project}"):
                asked = f'timestamp>="{format_exact(at)}" AND timestamp<"{until}" AND {_CHANGES}{ours}'
                for entry in client.list_entries(filter_=asked, order_by="timestamp asc", page_size=PAGE_SIZE):
                    moment = read_moment(entry) or at
                    if moment > at:
                        at = moment
                        seen.clear()
                    key = entry.insert_id or str(entry.payload)
                    if key not in seen and isinstance(entry.payload, dict):
                        seen.add(key)
                        yield moment, entry.payload
        except Throttled:
            wait(QUOTA_SECONDS)
        else:
            return
