"""The command ``usage``: the chip-hours of pools, from the records of their creates and deletes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.access import open_chosen
from cli.access.deployment import find_log_project, name_services
from cli.access.log_search import read_all, require_logs
from cli.exit_codes import BadInput, ExitCode, answering, noting
from cli.prices import ACCELERATORS, READ_ON, find_chip_price, find_tier
from cli.printing import (
    Column,
    Format,
    as_data,
    count,
    format_exact,
    format_moment,
    open_console,
    parse_since,
    print_data,
    print_line,
    print_table,
    warn,
)
from cli.usage.chart import draw_svg, write_html
from shared.model.decisions import FAILURE_REASONS, Reason, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from cli.access.connections import Deployment
    from cli.access.log_search import Record
    from shared.model.names import Owner
    from shared.model.pools import NodePool

    Fields = Mapping[str, Any]

HOUR_SECONDS = 3600.0
_FAILED = FAILURE_REASONS | {Reason.POOL_USELESS}
_CHANGES = 'severity>=NOTICE AND jsonPayload.decision=("create" OR "delete")'
LEGEND = (
    "Chip-hours: of pools from create to delete, busy or not. Failed: of pools that GKE could not fill, or that "
    "helped nobody. Waited: from the oldest waiting pod to the create of its pool."
)


def find_accelerator(record: Fields) -> str:
    """Return the accelerator of a record's pool; a TPU's follows from its machine type."""
    return str(record.get("accelerator") or ACCELERATORS.get(str(record.get("machine_type")), ""))


def find_record_tier(record: Fields) -> str:
    """Return how a record's pool got its machines."""
    return str(record.get("tier") or find_tier(*map(record.get, ("spot", "flex_start", "reservation"))))


GROUPS: dict[str, Callable[[Fields], str]] = {
    "namespace": lambda record: str(record["claim"].get("namespace", "")),
    "workload": lambda record: f"{record['claim'].get('namespace', '')}/{record['claim'].get('name', '')}",
    "accelerator": find_accelerator,
    "tier": find_record_tier,
}


@dataclass(slots=True)
class Account:
    """The sums of a time, by group."""

    begin: float  # unix seconds. What was before does not count.
    group_of: Callable[[Fields], str]  # returns the group of a record
    clusters: Collection[str]  # only their pools count: others may write to the same logs
    rows: dict[str, Counter[str]] = field(default_factory=dict)
    created: set[str] = field(default_factory=set)
    """The pools of which only the create is on record."""
    unknown_pools: int = 0  # pools whose chip-hours nothing tells

    def see(self, at: float, record: Fields) -> None:
        """Read one record, which was written at a time in unix seconds."""
        name, claim = str(record.get("pool") or ""), record.get("claim")
        if not name or not isinstance(claim, dict) or claim.get("cluster") not in self.clusters:
            return
        if record.get("decision") == Verdict.CREATE:
            self.created.add(name)
            waited = record.get("waited_seconds")
            hours = waited / HOUR_SECONDS if isinstance(waited, int | float) else 0.0
            self._count(record, pools=1, waited_hours=hours)
        elif record.get("decision") == Verdict.DELETE:
            self.created.discard(name)
            self._add_life(at, record)

    def close(self, now: float, pools: Iterable[tuple[str, NodePool]]) -> None:
        """Add the pools that clusters have now, as if each was deleted now."""
        for cluster, pool in pools:
            if pool.owner is not None:
                self.see(now, describe_pool(cluster, pool, pool.owner, now))
        self.unknown_pools += len(self.created)

    def _add_life(self, ended_at: float, record: Fields) -> None:
        chips, seconds = record.get("chips"), record.get("pool_seconds")
        if not isinstance(chips, int) or not isinstance(seconds, int | float):
            self.unknown_pools += 1
            return
        spent = chips * max(0.0, min(seconds, ended_at - self.begin)) / HOUR_SECONDS
        price = find_chip_price(find_accelerator(record), str(record.get("zone")), find_record_tier(record))
        if record.get("reason") in _FAILED:
            self._count(record, failed_chip_hours=spent)
        elif price is None:
            self._count(record, chip_hours=spent, unpriced_chip_hours=spent)
        else:
            self._count(record, chip_hours=spent, list_price_dollars=spent * price)

    def _count(self, record: Fields, **sums: float) -> None:
        row: Any = self.rows.setdefault(self.group_of(record), Counter())
        row.update(sums)

    @property
    def total(self) -> Counter[str]:
        """The sums of all groups."""
        return sum(self.rows.values(), Counter())


def describe_pool(cluster: str, pool: NodePool, owner: Owner, now: float) -> dict[str, Any]:
    """Return the record that a delete of a pool would write now."""
    life = {"chips": pool.units * pool.hosts, "pool_seconds": now - owner.created_at}
    return {
        "decision": Verdict.DELETE,
        "pool": pool.name,
        "claim": {"cluster": cluster, "namespace": owner.namespace, "name": owner.name},
        "machine_type": pool.machine_type,
        "tier": find_tier(pool.spot, pool.flex_start, pool.reservation),
        "accelerator": pool.accelerator,
        "zone": ",".join(pool.zones),
        **(life if owner.created_at and not pool.elastic else {}),  # GKE sizes an elastic one
    }


def list_pools(deployment: Deployment) -> list[tuple[str, NodePool]]:
    """Return the pools that GKE has now, each with its cluster."""
    ports = deployment.ports
    return [(cluster, pool) for cluster in ports.clusters for pool in ports.pools.list(cluster)]


def read_records(deployment: Deployment, begin: float, end: float) -> Iterator[Record]:
    """Yield the creates and deletes of a time, those of a project in order."""
    open_logs, clusters = require_logs(deployment.open_logs), deployment.ports.clusters
    wanted = f'timestamp<"{format_exact(end)}" AND {_CHANGES}{name_services(deployment.own)}'
    for project in dict.fromkeys(find_log_project(deployment.own, each) for each in clusters):
        yield from read_all(open_logs, project, wanted, since=begin)


def sum_up(
    deployment: Deployment, begin: float, by: str, now: float, pools: Iterable[tuple[str, NodePool]]
) -> Account:
    """Return the sums from a time to now, with the pools that there are."""
    account = Account(begin, GROUPS[by], deployment.ports.clusters)
    for each in read_records(deployment, begin, now):
        account.see(each.at, each.fields)
    account.close(now, pools)
    return account


def write_hours(hours: float) -> str:
    """Return hours for people."""
    return f"{hours:,.2f}"


def write_price(row: Counter[str]) -> str:
    """Return the list price of sums for people; a part of it may be unknown."""
    dollars, unpriced = row["list_price_dollars"], row["unpriced_chip_hours"]
    if not dollars:
        return "unknown" if unpriced else "-"
    return f"${dollars:,.2f}" + (" and more" if unpriced else "")


Group = tuple[str, Counter[str]]
"""A group and its sums."""


def _sum(name: str, heading: str = "", show: Callable[[float], str] = write_hours) -> Column[Group]:
    """Return the column of a sum. Hours are rounded to seconds, and dollars to cents."""
    digits = 2 if name.endswith("dollars") else 4
    return Column(name, lambda row: round(row[1][name], digits), heading, lambda row: show(row[1][name]))


SUMS = [
    _sum("pools", "POOLS", str),
    _sum("chip_hours", "CHIP-HOURS"),
    _sum("failed_chip_hours", "FAILED"),
    _sum("waited_hours", "WAITED"),
    _sum("unpriced_chip_hours"),
    replace(_sum("list_price_dollars", "LIST PRICE"), show=lambda row: write_price(row[1])),
]
"""What is summed. Chip-hours of pools that were deleted because they failed are counted apart, and
have no price. `waited_hours` is from the oldest pod that waited to the create of its pool."""


def describe_sums(sums: Counter[str]) -> dict[str, Any]:
    """Return sums for programs."""
    return as_data(SUMS, ("", sums))


def list_columns(by: str) -> list[Column[Group]]:
    """Return the columns of a group and its sums."""
    return [Column("group", itemgetter(0), by.upper()), *SUMS]


def list_remarks(account: Account) -> list[str]:
    """Return what the numbers mean, and what is not known, in sentences."""
    hours, pools = account.total["unpriced_chip_hours"], count(account.unknown_pools, "pool")
    unpriced = f"; unknown for {write_hours(hours)} chip-hours" if hours else ""
    why = "GKE sizes elastic ones, and of others no record tells the end"
    unknown = [f"Not known: the chip-hours of {pools}: {why}."] * bool(account.unknown_pools)
    return [LEGEND, f"List prices of {READ_ON}; not your bill{unpriced}.", *unknown]


class Picture(StrEnum):
    """How usage is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    SVG = "svg"
    HTML = "html"


def show_usage(account: Account, by: str, until: float, form: Picture) -> None:
    """Print an account."""
    columns, rows = list_columns(by), [*sorted(account.rows.items()), ("(all)", account.total)]
    if form in (Picture.JSON, Picture.YAML):
        data = {
            "since": format_moment(account.begin),
            "until": format_moment(until),
            "by": by,
            "rows": [as_data(columns, row) for row in rows[:-1]],
            "total": describe_sums(account.total),
            "prices_of": READ_ON,
            "unknown_pools": account.unknown_pools,
        }
        print_data(data, Format(form))
        return
    title = f"Chip-hours by {by} from {format_moment(account.begin)} to {format_moment(until)}"
    bars = [(group, sums["chip_hours"], write_hours(sums["chip_hours"])) for group, sums in rows[:-1]]
    if form is Picture.SVG:
        typer.echo(draw_svg(title, bars))
    elif form is Picture.HTML:
        typer.echo(write_html(title, bars, columns, rows, list_remarks(account)))
    else:
        print_table(open_console(), columns, rows)
        for line in ("", *list_remarks(account)):
            print_line(open_console(), line)


@answering
def usage(
    since: Annotated[
        str, typer.Option(metavar="TIME", help="From this time on: RFC 3339, or 15m, 2h, 30d ago.")
    ] = "1d",
    by: Annotated[
        str, typer.Option(metavar="GROUP", help=f"What the rows are: {', '.join(GROUPS)}.")
    ] = "namespace",
    output: Annotated[Picture, typer.Option("--output", "-o", help="Format of the output.")] = Picture.TABLE,
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
    begin = parse_since(since, now=now)
    pools: list[tuple[str, NodePool]] = []
    unread: list[str] = []
    with noting(unread, "not read: node pools, so only those that ended count"):
        pools = list_pools(deployment)
    for each in unread:
        warn(each)
    show_usage(sum_up(deployment, begin, by, now, pools), by, now, output)
    return ExitCode.FINE
