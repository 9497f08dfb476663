"""The command ``usage``: its options, a table for people, and all as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.access.deployment_choice import open_chosen
from cli.exit_codes import BadInput, ExitCode, answering, say
from cli.moments import format_moment, parse_since
from cli.options import Output  # noqa: TC001 -- typer reads the annotations
from cli.prices import READ_ON
from cli.printing import Column, Format, count, open_console, print_data, print_line, print_table
from shared.model.errors import ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from cli.access.operator_access import Deployment
    from cli.usage.account import Account, PoolLife, Row
    from shared.model.pools import NodePool

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


def write_price(row: Row) -> str:
    """Return the list price of a row for people; a part of it may be unknown."""
    if not row.dollars:
        return "unknown" if row.unpriced else "-"
    return f"${sum(row.dollars.values()):,.2f}" + (" and more" if row.unpriced else "")


def print_usage(console: Console, account: Account, by: str) -> None:
    """Print the groups of an account, their sum, and what is not known."""
    columns: list[Column[Row]] = [
        Column("group", heading=by.upper()),
        Column("pools", heading="POOLS"),
        Column("chip_hours", heading="CHIP-HOURS", show=lambda row: write_hours(row.chip_hours)),
        Column("failed_chip_hours", heading="FAILED", show=lambda row: write_hours(row.failed_chip_hours)),
        Column("waited_hours", heading="WAITED", show=lambda row: write_hours(row.waited_hours)),
        Column("dollars", heading="LIST PRICE", show=write_price),
    ]
    print_table(console, columns, [*account.sum_groups(), account.sum_all()])
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


def describe_usage(account: Account, by: str, until: float) -> dict[str, Any]:
    """Return an account for programs, with a row for each day and group."""
    return {
        "since": format_moment(account.begin),
        "until": format_moment(until),
        "by": by,
        "rows": [account.rows[key].as_data() for key in sorted(account.rows)],
        "total": account.sum_all().as_data(),
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
    from cli.usage.account import Account, read_records  # noqa: PLC0415 -- half a second

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
    from cli.usage.account import list_pools  # noqa: PLC0415 -- half a second

    try:
        return list_pools(deployment)
    except ProvisionerError as error:
        typer.echo(f"not read: node pools, so only those that ended count: {say(error)}", err=True)
        return []
