"""Adds up chip-hours, slice-hours of waiting and list prices, by day and group. Pure.

A day is one of UTC. Nothing is kept of a slice or pool: the size of the account follows the number
of days and groups.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from cli.prices import find_chip_price
from shared.model.decisions import Reason
from shared.needs.capacity import Tier

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

HOUR_SECONDS, DAY_SECONDS = 3600.0, 86_400.0
GAPS_MAX = 100


class Hours(StrEnum):
    """What became of chips while their pool existed."""

    USED = "used"
    """Accelerator pods ran on the pool."""
    IDLE = "idle"
    """The pool had its nodes, and no pods."""
    STARTING = "starting"
    """The pool did not have all of its nodes yet, or had lost some."""
    WASTED = "wasted"
    """The creation failed, or the pool was deleted before a pod ran on it."""
    UNKNOWN = "unknown"
    """The records do not tell."""


class Cause(StrEnum):
    """What a slice waited for."""

    CREATION = "creation"
    """GKE creates the nodes, or the scheduler places the pods."""
    STOCKOUT = "stockout"
    QUOTA = "quota"
    LIMIT = "limit"
    """A limit of the operator."""
    QUEUE = "queue"
    """GKE's operations, or other workloads that use the pool."""
    PAUSE = "pause"
    """The provisioner's pause after a failed creation."""
    REFUSED = "refused"
    """The demand or a setting must change."""
    UNKNOWN = "unknown"


_CAUSES = {
    Reason.STOCKOUT: Cause.STOCKOUT,
    Reason.RESERVATION_UNFIT: Cause.STOCKOUT,
    Reason.ZONE_UNFIT: Cause.STOCKOUT,
    Reason.QUOTA_EXCEEDED: Cause.QUOTA,
    Reason.LIMIT_REACHED: Cause.LIMIT,
    Reason.GKE_BUSY: Cause.QUEUE,
    Reason.THROTTLED: Cause.QUEUE,
    Reason.POOL_TAKEN: Cause.QUEUE,
    Reason.POOL_IN_USE: Cause.QUEUE,
}


def find_cause(record: Mapping[str, Any]) -> Cause:
    """Return what a slice waits for from the time of a record on."""
    if record.get("next_try"):
        return Cause.PAUSE
    refused = Cause.REFUSED if record.get("decision") == "refuse" else Cause.CREATION
    return _CAUSES.get(record.get("reason", ""), refused)


@dataclass(frozen=True, slots=True)
class Size:
    """The chips of a pool, and what groups and prices them."""

    node_chips: int
    """Of each node."""
    nodes: int
    accelerator: str
    tier: str
    zone: str
    labels: Mapping[str, str]
    elastic: bool = False
    """The pods on it come and go one by one."""

    @property
    def chips(self) -> int:
        """Return the chips of all nodes."""
        return self.node_chips * self.nodes


def read_size(record: Mapping[str, Any]) -> Size | None:
    """Return the size of the pool that a record is about; None if the record does not tell it."""
    chips, nodes = record.get("chips"), record.get("node_count")
    if not isinstance(chips, int) or not isinstance(nodes, int) or min(chips, nodes) <= 0:
        return None
    labels = record.get("labels")
    return Size(
        chips // nodes,
        nodes,
        str(record.get("accelerator") or ""),
        str(record.get("tier") or ""),
        str(record.get("zone") or ""),
        labels if isinstance(labels, dict) else {},
        elastic=bool(record.get("elastic")),
    )


@dataclass(slots=True)
class Row:
    """The sums of one day and group, or of several."""

    slices: int = 0
    chip_hours: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By `Hours`."""
    waited: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Hours of slices, by `Cause`."""
    dollars: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """List price of the used and idle chip-hours, by tier."""
    unpriced: float = 0.0
    """Used and idle chip-hours whose list price is unknown."""

    def add(self, other: Row) -> None:
        """Add another row."""
        self.slices += other.slices
        pairs = ((self.chip_hours, other.chip_hours), (self.waited, other.waited), (self.dollars, other.dollars))
        for mine, theirs in pairs:
            for key, value in theirs.items():
                mine[key] += value
        self.unpriced += other.unpriced

    def as_data(self) -> dict[str, Any]:
        """Return it for programs. Hours are rounded to seconds, and dollars to cents."""
        return {
            "slices": self.slices,
            "chip_hours": {str(each): round(self.chip_hours[each], 4) for each in Hours},
            "waited_hours": {str(each): round(self.waited[each], 4) for each in Cause},
            "list_price_dollars": {str(tier): round(self.dollars[tier], 2) for tier in sorted(self.dollars)},
            "unpriced_chip_hours": round(self.unpriced, 4),
        }


@dataclass(slots=True)
class Account:
    """The sums of a time, and what the records could not tell."""

    begin: float
    """Unix seconds. What was before does not count."""
    group_of: Callable[[Mapping[str, str], Size | None], str]
    """Returns the group of a claim and a size."""
    clusters: Collection[str] = ()
    """Only their hours have rows; empty: those of all. What is not known is of all in any case."""
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    """By day and group."""
    sizeless_pools: int = 0
    """Pools whose size no record tells."""
    sizeless_hours: float = 0.0
    """For so long these are known to have existed."""
    endless_hours: float = 0.0
    """Hours of pools that ended without a record. They count as before, because it is not known
    which pools these are."""
    nameless_hours: float = 0.0
    """Hours of pools that sweeps counted and no record names."""
    gaps: list[tuple[float, float]] = field(default_factory=list)
    """Unix seconds between which no sweep ended, at most `GAPS_MAX`."""

    def add_chips(
        self, claim: Mapping[str, str], size: Size | None, hours: Hours, start: float, end: float
    ) -> None:
        """Add the chip-hours of a pool, and their list price if pods used the nodes, or could."""
        if size is None:
            self.sizeless_hours += max(0.0, end - max(start, self.begin)) / HOUR_SECONDS
            return
        price = find_chip_price(size.accelerator, size.zone, size.tier)
        for day, spent in self._split(start, end):
            row = self.get_row(day, claim, size)
            row.chip_hours[hours] += spent * size.chips
            if hours not in (Hours.USED, Hours.IDLE):
                continue
            if price is None:
                row.unpriced += spent * size.chips
            else:
                row.dollars[size.tier or Tier.ON_DEMAND] += spent * size.chips * price

    def add_wait(
        self, claim: Mapping[str, str], size: Size | None, cause: Cause, start: float, end: float
    ) -> None:
        """Add the time for which one slice waited."""
        for day, spent in self._split(start, end):
            self.get_row(day, claim, size).waited[cause] += spent

    def note_slice(self, claim: Mapping[str, str], size: Size | None, at: float) -> None:
        """Count a slice that got a pool; one that gets a pool again counts again."""
        if at >= self.begin:
            self.get_row(name_day(at), claim, size).slices += 1

    def add_gap(self, start: float, end: float) -> None:
        """Note a time without the record of a sweep."""
        start = max(start, self.begin)
        if start < end and len(self.gaps) < GAPS_MAX:
            self.gaps.append((start, end))

    def get_row(self, day: str, claim: Mapping[str, str], size: Size | None) -> Row:
        """Return the row of a day and group, which may be a new one; an unkept one if left out."""
        if self.clusters and claim["cluster"] not in self.clusters:
            return Row()
        return self.rows.setdefault((day, self.group_of(claim, size)), Row())

    def _split(self, start: float, end: float) -> Iterator[tuple[str, float]]:
        """Yield the days of a time with their hours."""
        at = max(start, self.begin)
        while at < end:
            until = min(end, (at // DAY_SECONDS + 1) * DAY_SECONDS)
            yield name_day(at), (until - at) / HOUR_SECONDS
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
