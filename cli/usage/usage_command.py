"""The command ``usage``: its options, a table for people, and all as data."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.access.cli_settings import find_log_project, name_services
from cli.access.deployment_choice import open_chosen
from cli.access.log_search import read_moment, require_logs
from cli.exit_codes import BadInput, ExitCode, answering, say
from cli.options import Output  # noqa: TC001 -- typer reads the annotations
from cli.prices import ACCELERATORS, READ_ON, find_chip_price, find_tier
from cli.printing import (
    Column,
    Format,
    count,
    format_exact,
    format_moment,
    open_console,
    parse_since,
    print_data,
    print_line,
    print_table,
)
from shared.model.decisions import FAILURE_REASONS, Reason, Verdict
from shared.model.errors import ProvisionerError, Throttled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from cli.access.operator_access import Deployment
    from shared.model.names import Owner
    from shared.model.pools import NodePool

    Record = tuple[float, Mapping[str, Any]]

    from rich.console import Console


HOUR_SECONDS, DAY_SECONDS = 3600.0, 86_400.0
_FAILED = FAILURE_REASONS | {Reason.POOL_USELESS}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLife:
    """A pool from its create to its end, or until now."""

    began_at: float  # unix seconds, as the following
    ended_at: float
    claim: Mapping[str, str]  # cluster, kind, namespace and name of its workload
    chips: int = 0  # 0: unknown
    accelerator: str = ""
    tier: str = ""
    zone: str = ""
    failed: bool = False


Sums = dict[str, float]
"""By name: `pools`, `chip_hours`, `failed_chip_hours` (of pools that were deleted because they
failed; not in `chip_hours`), `waited_hours` (from the creation of the oldest pod that waited to the
create of its pool), `unpriced_chip_hours`, and ``dollars TIER``, the list price of `chip_hours`."""
NAMES = ("pools", "chip_hours", "failed_chip_hours", "waited_hours", "unpriced_chip_hours")


def add(rows: Iterable[Sums]) -> Sums:
    """Return the sums of some sums."""
    total: Sums = dict.fromkeys(NAMES, 0.0)
    for row in rows:
        for name, number in row.items():
            total[name] = total.get(name, 0.0) + number
    return total


def list_dollars(row: Sums) -> dict[str, float]:
    """Return the list price of sums by tier."""
    prices = {name.removeprefix("dollars "): price for name, price in row.items() if name.startswith("dollars ")}
    return {tier: round(prices[tier], 2) for tier in sorted(prices)}


def describe_sums(row: Sums) -> dict[str, Any]:
    """Return sums for programs. Hours are rounded to seconds, and dollars to cents."""
    return {name: round(row[name], 4) for name in NAMES} | {"list_price_dollars": list_dollars(row)}


@dataclass(slots=True)
class Account:
    """The sums of a time."""

    begin: float  # unix seconds. What was before does not count.
    group_of: Callable[[PoolLife], str]  # returns the group of a pool
    clusters: Collection[str]  # only their pools count: others may write to the same logs
    rows: dict[tuple[str, str], Sums] = field(default_factory=dict)  # by day and group
    created: set[str] = field(default_factory=set)
    """The pools of which only the create is on record."""
    unknown_pools: int = 0  # pools whose chip-hours nothing tells

    def see(self, at: float, record: Mapping[str, Any]) -> None:
        """Read one record, which was written at a time in unix seconds."""
        name, claim = str(record.get("pool") or ""), record.get("claim")
        if not name or not isinstance(claim, dict) or claim.get("cluster") not in self.clusters:
            return
        life = _read_life(at, claim, record)
        if record.get("decision") == Verdict.CREATE:
            self.created.add(name)
            waited = record.get("waited_seconds")
            hours = waited / HOUR_SECONDS if isinstance(waited, int | float) else 0.0
            self._count(at, life, pools=1, waited_hours=hours)
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
        for at, hours in self._split(life.began_at, life.ended_at):
            spent = hours * life.chips
            if life.failed:
                self._count(at, life, failed_chip_hours=spent)
            elif price is None:
                self._count(at, life, chip_hours=spent, unpriced_chip_hours=spent)
            else:
                self._count(at, life, chip_hours=spent, **{f"dollars {life.tier}": spent * price})

    def _count(self, at: float, life: PoolLife, **sums: float) -> None:
        key = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d"), self.group_of(life)
        self.rows[key] = add([self.rows.get(key, {}), sums])

    def _split(self, start: float, end: float) -> Iterator[tuple[float, float]]:
        """Yield a moment of each day of a time, with the hours of that day."""
        at = max(start, self.begin)
        while at < end:
            until = min(end, (at // DAY_SECONDS + 1) * DAY_SECONDS)
            yield at, (until - at) / HOUR_SECONDS
            at = until

    def sum_groups(self) -> dict[str, Sums]:
        """Return the sums of each group over all days, in the order of their names."""
        groups = sorted({group for _, group in self.rows})
        return {each: add(row for (_, group), row in self.rows.items() if group == each) for each in groups}


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


PAGE_SIZE = 1000  # the most that Cloud Logging gives at a time
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
    from shared.edges.google import translate_errors  # noqa: PLC0415 -- half a second

    at, read_before = begin, set[str]()
    while True:
        try:
            with translate_errors(f"ListLogEntries projects/{project}"):
                filter_text = f'timestamp>="{format_exact(at)}" AND {wanted}'
                for entry in client.list_entries(
                    filter_=filter_text, order_by="timestamp asc", page_size=PAGE_SIZE
                ):
                    moment = read_moment(entry) or at
                    if moment > at:
                        at = moment
                        read_before.clear()
                    key = entry.insert_id or str(entry.payload)
                    if key not in read_before and isinstance(entry.payload, dict):
                        read_before.add(key)
                        yield moment, entry.payload
        except Throttled:
            wait(QUOTA_SECONDS)
        else:
            return


FEW_HOURS = 10.0
LEGEND = (
    "Chip-hours: of pools from create to delete, busy or not. Failed: of pools that GKE could not fill, or that "
    "helped nobody. Waited: from the oldest waiting pod to the create of its pool."
)
GROUPS: dict[str, Callable[[PoolLife], str]] = {
    "namespace": lambda life: str(life.claim.get("namespace", "")),
    "workload": lambda life: f"{life.claim.get('namespace', '')}/{life.claim.get('name', '')}",
    "accelerator": lambda life: life.accelerator,
    "tier": lambda life: life.tier,
}


def write_hours(hours: float) -> str:
    """Return hours for people: with two digits if they are few."""
    return f"{hours:,.1f}" if hours >= FEW_HOURS else f"{hours:.2f}"


def write_price(row: Sums) -> str:
    """Return the list price of sums for people; a part of it may be unknown."""
    prices, unpriced = list_dollars(row), row["unpriced_chip_hours"]
    if not prices:
        return "unknown" if unpriced else "-"
    return f"${sum(prices.values()):,.2f}" + (" and more" if unpriced else "")


def _of_hours(name: str, heading: str) -> Column[tuple[str, Sums]]:
    return Column(name, heading=heading, show=lambda row: write_hours(row[1][name]))


def print_usage(console: Console, account: Account, by: str) -> None:
    """Print the groups of an account, their sum, and what is not known."""
    columns: list[Column[tuple[str, Sums]]] = [
        Column("group", lambda row: row[0], by.upper()),
        Column("pools", lambda row: int(row[1]["pools"]), "POOLS"),
        _of_hours("chip_hours", "CHIP-HOURS"),
        _of_hours("failed_chip_hours", "FAILED"),
        _of_hours("waited_hours", "WAITED"),
        Column("list_price_dollars", heading="LIST PRICE", show=lambda row: write_price(row[1])),
    ]
    print_table(console, columns, [*account.sum_groups().items(), ("(all)", add(account.rows.values()))])
    print_line(console)
    for line in [LEGEND, *_list_lines(account)]:
        print_line(console, line)


def _list_lines(account: Account) -> Iterator[str]:
    """Yield the list price by tier, and what is not known, in sentences."""
    total = add(account.rows.values())
    listed = ", ".join(f"{tier} ${price:,.2f}" for tier, price in list_dollars(total).items()) or "none is known"
    hours = total["unpriced_chip_hours"]
    unpriced = f"; unknown for {write_hours(hours)} chip-hours" if hours else ""
    yield f"List price of the chip-hours (prices of {READ_ON}; not your bill): {listed}{unpriced}."
    if account.unknown_pools:
        pools = count(account.unknown_pools, "pool")
        why = "GKE sizes elastic ones, and of others no record tells the end"
        yield f"Not known: the chip-hours of {pools}: {why}."


def describe_usage(account: Account, by: str, until: float) -> dict[str, Any]:
    """Return an account for programs, with a row for each day and group."""
    return {
        "since": format_moment(account.begin),
        "until": format_moment(until),
        "by": by,
        "rows": [
            {"day": day, "group": group, **describe_sums(account.rows[day, group])}
            for day, group in sorted(account.rows)
        ],
        "total": describe_sums(add(account.rows.values())),
        "prices_of": READ_ON,
        "unknown_pools": account.unknown_pools,
    }


@answering
def usage(
    since: Annotated[
        str, typer.Option(metavar="TIME", help="From this time on: RFC 3339, or 15m, 2h, 30d ago.")
    ] = "1d",
    by: Annotated[
        str, typer.Option(metavar="GROUP", help=f"What the rows are: {', '.join(GROUPS)}.")
    ] = "namespace",
    output: Output = Format.TABLE,
) -> ExitCode:
    """Show the chip-hours of pools, waits and list prices.

    The functions' records of creates and deletes are read, and the pools that GKE has now. Prices
    are list prices. Pools whose chip-hours nothing tells are counted apart.

    Example: tpu-provisioner usage --since 30d --by tier
    """
    if by not in GROUPS:
        raise BadInput(f"--by: is not a group (got {by[:80]!r}); valid: {', '.join(GROUPS)}")
    deployment = open_chosen()
    now = deployment.ports.clock.now()
    account = Account(parse_since(since, now=now), GROUPS[by], deployment.ports.clusters)
    typer.echo(f"reading the functions' records since {format_moment(account.begin)}", err=True)
    for at, record in read_records(deployment, account.begin, now):
        account.see(at, record)
    account.close(now, _list_pools(deployment))
    if output.for_programs:
        print_data(describe_usage(account, by, now), output)
    else:
        print_usage(open_console(), account, by)
    return ExitCode.FINE


def _list_pools(deployment: Deployment) -> list[tuple[str, NodePool]]:
    """Return the pools that GKE has now; none if they cannot be listed."""
    try:
        return list_pools(deployment)
    except ProvisionerError as error:
        typer.echo(f"not read: node pools, so only those that ended count: {say(error)}", err=True)
        return []
