"""The command ``usage``: its options, and a table for people, the same as CSV, and all as data."""

from __future__ import annotations

import csv
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.access.deployment_choice import open_chosen
from cli.exit_codes import BadInput, say, told
from cli.moments import format_moment, parse_since
from cli.prices import READ_ON
from cli.printing import Column, Format, choose_format, count, open_console, print_data, print_line, print_table
from cli.shared_options import AsJson  # noqa: TC001 -- typer reads the annotations
from shared.model.errors import ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from cli.access.operator_access import Deployment
    from cli.usage.account import Account, PoolLife, Row, Span
    from shared.model.pools import NodePool

FEW_HOURS = 10.0
LEGEND = (
    "Chip-hours: of pools from create to delete, busy or not. Failed: of pools that GKE could not fill, or that "
    "helped nobody. Waited: from the oldest waiting pod to the create of its pool."
)


def write_hours(hours: float) -> str:
    """Return hours for people: with two digits if they are few."""
    return f"{hours:,.1f}" if hours >= FEW_HOURS else f"{hours:.2f}"


def write_price(row: Row) -> str:
    """Return the list price of a row for people; a part of it may be unknown."""
    if not row.dollars:
        return "unknown" if row.unpriced else "-"
    return f"${sum(row.dollars.values()):,.2f}" + (" and more" if row.unpriced else "")


def print_usage(console: Console, account: Account, by: str) -> None:
    """Print the groups of an account, their sum, and what is not known."""
    columns: list[Column[tuple[str, Row]]] = [
        Column("group", lambda named: named[0], by.upper()),
        Column("pools", lambda named: named[1].pools, "POOLS"),
        Column("chip_hours", heading="CHIP-HOURS", show=lambda named: write_hours(named[1].chip_hours)),
        Column("failed_chip_hours", heading="FAILED", show=lambda named: write_hours(named[1].failed_chip_hours)),
        Column("waited_hours", heading="WAITED", show=lambda named: write_hours(named[1].waited_hours)),
        Column("list_price", heading="LIST PRICE", show=lambda named: write_price(named[1])),
    ]
    print_table(console, columns, [*account.sum_groups().items(), ("(all)", account.sum_all())])
    print_line(console)
    for line in [LEGEND, *_list_lines(account)]:
        print_line(console, line)


def _list_lines(account: Account) -> Iterator[str]:
    """Yield the list price by tier, and what is not known, in sentences."""
    total = account.sum_all()
    prices = [f"{tier} ${total.dollars[tier]:,.2f}" for tier in sorted(total.dollars)]
    unpriced = f"; unknown for {write_hours(total.unpriced)} chip-hours" if total.unpriced else ""
    listed = ", ".join(prices) or "none is known"
    yield f"List price of the chip-hours (prices of {READ_ON}; not your bill): {listed}{unpriced}."
    if account.unknown_pools:
        pools = count(account.unknown_pools, "pool")
        why = "GKE sizes elastic ones, and of others no record tells the end"
        yield f"Not known: the chip-hours of {pools}: {why}."


def describe(account: Account, by: str, span: Span) -> dict[str, Any]:
    """Return an account for programs."""
    return {
        "since": format_moment(span.begin),
        "until": format_moment(span.end),
        "by": by,
        "groups": [{"group": name, **row.as_data()} for name, row in account.sum_groups().items()],
        "days": [{"day": day, **row.as_data()} for day, row in account.sum_days().items()],
        "total": account.sum_all().as_data(),
        "prices_of": READ_ON,
        "unknown_pools": account.unknown_pools,
    }


def print_csv(account: Account) -> None:
    """Print a line for each day and group. Hours have four digits, and dollars two."""
    lines = csv.writer(sys.stdout, lineterminator="\n")
    hours = ("chip_hours", "failed_chip_hours", "waited_hours")
    lines.writerow(["day", "group", "pools", *hours, "list_price_dollars", "unpriced_chip_hours"])
    for (day, group), row in sorted(account.rows.items()):
        numbers = [f"{getattr(row, name):.4f}" for name in hours]
        price = f"{sum(row.dollars.values()):.2f}"
        lines.writerow([day, group, row.pools, *numbers, price, f"{row.unpriced:.4f}"])


GROUPS: dict[str, Callable[[PoolLife], str]] = {
    "namespace": lambda life: str(life.claim.get("namespace", "")),
    "workload": lambda life: f"{life.claim.get('namespace', '')}/{life.claim.get('name', '')}",
    "accelerator": lambda life: life.accelerator,
    "tier": lambda life: life.tier,
}


class UsageForm(StrEnum):
    """How the answer is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"


def usage(
    since: Annotated[
        str, typer.Option(metavar="TIME", help="From this time on: RFC 3339, or 15m, 2h, 30d ago.")
    ] = "1d",
    by: Annotated[
        str, typer.Option(metavar="GROUP", help=f"What the rows are: {', '.join(GROUPS)}.")
    ] = "namespace",
    output: Annotated[UsageForm, typer.Option("--output", "-o", help="Format of the output.")] = UsageForm.TABLE,
    *,
    as_json: AsJson = False,
) -> None:
    """Show the chip-hours of pools, waits and list prices.

    The functions' records of creates and deletes are read, and the pools that GKE has now. Prices
    are list prices. Pools whose chip-hours nothing tells are counted apart.

    Example: tpu-provisioner usage --since 30d --by tier -o csv > usage.csv
    """
    from cli.usage.account import Account, Span, read_records  # noqa: PLC0415 -- see open_deployment

    with told():
        form = choose_format(output, as_json=as_json)
        if by not in GROUPS:
            raise BadInput(f"--by: is not a group (got {by[:80]!r}); valid: {', '.join(GROUPS)}")
        deployment = open_chosen()
        now = deployment.ports.clock.now()
        span = Span(begin=parse_since(since, now=now), end=now)
        typer.echo(f"reading the functions' records since {format_moment(span.begin)}", err=True)
        account = Account(span.begin, GROUPS[by], deployment.chosen)
        for at, record in read_records(deployment, span):
            account.see(at, record)
        total = account.total(now, _list_pools(deployment))
        if form in (UsageForm.JSON, UsageForm.YAML):
            print_data(describe(total, by, span), Format(form))
        elif form == UsageForm.CSV:
            print_csv(total)
        else:
            print_usage(open_console(), total, by)


def _list_pools(deployment: Deployment) -> list[tuple[str, NodePool]]:
    """Return the pools that GKE has now; none if they cannot be listed."""
    from cli.usage.account import list_pools  # noqa: PLC0415 -- see open_deployment

    try:
        return list_pools(deployment)
    except ProvisionerError as error:
        typer.echo(f"not read: node pools, so only those that ended count: {say(error)}", err=True)
        return []
