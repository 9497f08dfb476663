"""The command ``usage``: its options, and what it prints."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cli.access.deployment_choice import open_chosen
from cli.exit_codes import BadInput, ExitCode, end_with, say, told
from cli.moments import format_moment, parse_since
from cli.printing import Format, choose_format, open_console, print_data
from cli.shared_options import AsJson  # noqa: TC001 -- typer reads the annotations
from cli.usage.account import Account
from cli.usage.record_stream import Span, read_records
from cli.usage.usage_table import describe, print_csv, print_usage
from shared.model.errors import ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.access.operator_access import Deployment
    from cli.usage.account import PoolLife

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

    The functions' records of creates and deletes are read, and which pools GKE has now. Prices are
    list prices. The exit code is 1 if a create or an end has no record.

    Example: tpu-provisioner usage --since 30d --by tier -o csv > usage.csv
    """
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
        total = account.total(now, _list_names(deployment))
        if form in (UsageForm.JSON, UsageForm.YAML):
            print_data(describe(total, by, span), Format(form))
        elif form == UsageForm.CSV:
            print_csv(total)
        else:
            print_usage(open_console(), total, by)
    end_with(ExitCode.FINDINGS if total.unknown_pools else ExitCode.FINE)


def _list_names(deployment: Deployment) -> set[str] | None:
    """Return the names of the pools that GKE has now; None if they cannot be listed."""
    ports = deployment.ports
    try:
        return {pool.name for cluster in ports.clusters for pool in ports.pools.list(cluster)}
    except ProvisionerError as error:
        typer.echo(
            f"not read: node pools, so those without a record of their end count too: {say(error)}", err=True
        )
        return None
