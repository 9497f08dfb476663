"""Adds up the chip-hours of pools from the functions' records of creates and deletes.

The record of a delete says how long a pool was there, and with how many chips; labels say it of the
pools that exist. A day is one of UTC.
"""

from __future__ import annotations

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
from cli.prices import ACCELERATORS, find_chip_price, find_tier
from shared.edges.google import translate_errors
from shared.model.decisions import FAILURE_REASONS, Reason, Verdict
from shared.model.errors import Throttled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from cli.access.operator_access import Deployment
    from shared.model.names import Owner
    from shared.model.pools import NodePool

    Record = tuple[float, Mapping[str, Any]]

HOUR_SECONDS, DAY_SECONDS = 3600.0, 86_400.0
_FAILED = FAILURE_REASONS | {Reason.POOL_USELESS}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLife:
    """A pool from its create to its end, or until now."""

    began_at: float
    """Unix seconds, as the following."""
    ended_at: float
    claim: Mapping[str, str]
    """Cluster, kind, namespace and name of its workload."""
    chips: int = 0
    """0: unknown."""
    accelerator: str = ""
    tier: str = ""
    zone: str = ""
    failed: bool = False


@dataclass(slots=True)
class Row:
    """The sums of one day and group, or of several."""

    day: str = ""
    """Empty for all."""
    group: str = "(all)"
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
            "day": self.day,
            "group": self.group,
            "pools": self.pools,
            "chip_hours": round(self.chip_hours, 4),
            "failed_chip_hours": round(self.failed_chip_hours, 4),
            "waited_hours": round(self.waited_hours, 4),
            "list_price_dollars": {tier: round(self.dollars[tier], 2) for tier in sorted(self.dollars)},
            "unpriced_chip_hours": round(self.unpriced, 4),
        }


@dataclass(slots=True)
class Account:
    """The sums of a time."""

    begin: float
    """Unix seconds. What was before does not count."""
    group_of: Callable[[PoolLife], str]
    """Returns the group of a pool."""
    clusters: Collection[str]
    """Only their pools count: others may write to the same logs."""
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    """By day and group."""
    created: set[str] = field(default_factory=set)
    """The pools of which only the create is on record."""
    unknown_pools: int = 0
    """Pools whose chip-hours nothing tells."""

    def see(self, at: float, record: Mapping[str, Any]) -> None:
        """Read one record, which was written at a time in unix seconds."""
        name, claim = str(record.get("pool") or ""), record.get("claim")
        if not name or not isinstance(claim, dict) or claim.get("cluster") not in self.clusters:
            return
        life = _read_life(at, claim, record)
        if record.get("decision") == Verdict.CREATE:
            self.created.add(name)
            row, waited = self._get_row(at, life), record.get("waited_seconds")
            row.pools += 1
            row.waited_hours += waited / HOUR_SECONDS if isinstance(waited, int | float) else 0.0
        elif record.get("decision") == Verdict.DELETE:
            self.created.discard(name)
            self._add(life)

    def close(self, now: float, pools: Iterable[tuple[str, NodePool]]) -> None:
        """Add the pools that clusters have now."""
        for cluster, pool in pools:
            if pool.owner is not None and cluster in self.clusters:
                self.created.discard(pool.name)
                self._add(_view_life(cluster, pool, pool.owner, now))
        self.unknown_pools += len(self.created)

    def _add(self, life: PoolLife) -> None:
        if not life.chips:
            self.unknown_pools += 1
            return
        price = find_chip_price(life.accelerator, life.zone, life.tier)
        for day, hours in self._split(life.began_at, life.ended_at):
            row, spent = self._get_row(day, life), hours * life.chips
            if life.failed:
                row.failed_chip_hours += spent
                continue
            row.chip_hours += spent
            if price is None:
                row.unpriced += spent
            else:
                row.dollars[life.tier] += spent * price

    def _get_row(self, at: float, life: PoolLife) -> Row:
        day, group = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d"), self.group_of(life)
        return self.rows.setdefault((day, group), Row(day, group))

    def _split(self, start: float, end: float) -> Iterator[tuple[float, float]]:
        """Yield a moment of each day of a time, with the hours of that day."""
        at = max(start, self.begin)
        while at < end:
            until = min(end, (at // DAY_SECONDS + 1) * DAY_SECONDS)
            yield at, (until - at) / HOUR_SECONDS
            at = until

    def sum_groups(self) -> list[Row]:
        """Return the sums of each group over all days, in the order of their names."""
        sums: dict[str, Row] = {}
        for row in self.rows.values():
            sums.setdefault(row.group, Row("", row.group)).add(row)
        return [sums[group] for group in sorted(sums)]

    def sum_all(self) -> Row:
        """Return the sums of everything."""
        total = Row()
        for row in self.rows.values():
            total.add(row)
        return total


def _read_life(at: float, claim: Mapping[str, str], record: Mapping[str, Any]) -> PoolLife:
    """Return what the record of a create or delete says of a pool that ended then, or began."""
    chips, seconds = record.get("chips"), record.get("pool_seconds")
    if not isinstance(chips, int) or not isinstance(seconds, int | float):
        chips, seconds = 0, 0.0
    machine = str(record.get("machine_type") or "")
    return PoolLife(
        began_at=at - seconds,
        ended_at=at,
        claim=claim,
        chips=chips,
        accelerator=str(record.get("accelerator") or ACCELERATORS.get(machine, "")),
        tier=str(record.get("tier") or find_tier(*map(record.get, ("spot", "flex_start", "reservation")))),
        zone=str(record.get("zone") or ""),
        failed=record.get("reason") in _FAILED,
    )


def _view_life(cluster: str, pool: NodePool, owner: Owner, now: float) -> PoolLife:
    """Return a pool that exists until now."""
    dated = owner.created_at is not None and not pool.elastic
    return PoolLife(
        began_at=owner.created_at or now,
        ended_at=now,
        claim={"cluster": cluster, "kind": owner.kind, "namespace": owner.namespace, "name": owner.name},
        chips=pool.units * pool.hosts if dated else 0,
        accelerator=pool.accelerator or ACCELERATORS.get(pool.machine_type, ""),
        tier=str(find_tier(pool.spot, pool.flex_start, pool.reservation)),
        zone=pool.zones[0] if pool.zones else "",
    )


def list_pools(deployment: Deployment) -> list[tuple[str, NodePool]]:
    """Return the pools that GKE has now, each with its cluster."""
    ports = deployment.ports
    return [(cluster, pool) for cluster in ports.clusters for pool in ports.pools.list(cluster)]


PAGE_SIZE = 1000
"""The most that Cloud Logging gives at a time."""
QUOTA_SECONDS = 10.0
"""The pause after Cloud Logging refused a page: a project has 60 reads in a minute
(https://cloud.google.com/logging/quotas#api-limits)."""
_CHANGES = 'severity>=NOTICE AND jsonPayload.decision=("create" OR "delete")'


def read_records(
    deployment: Deployment, begin: float, end: float, *, wait: Callable[[float], object] = time.sleep
) -> Iterator[Record]:
    """Yield the creates and deletes of a time in order."""
    open_logs, clusters = require_logs(deployment.open_logs), deployment.ports.clusters
    projects = dict.fromkeys(find_log_project(deployment.own, each) for each in clusters)
    wanted = f'timestamp<"{format_exact(end)}" AND {_CHANGES}{name_services(deployment.own)}'
    streams = [_read(open_logs(project), project, wanted, begin, wait) for project in projects]
    return heapq.merge(*streams, key=itemgetter(0))


def _read(
    client: Any, project: str, wanted: str, begin: float, wait: Callable[[float], object]
) -> Iterator[Record]:
    """Yield the records that fit. After a refused page it goes on where it was."""
    at, seen = begin, set[str]()
    while True:
        try:
            with translate_errors(f"ListLogEntries projects/{project}"):
                asked = f'timestamp>="{format_exact(at)}" AND {wanted}'
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
