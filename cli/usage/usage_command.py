"""The command ``usage``: its options, its progress, and what it prints."""

from __future__ import annotations

import re
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cli.access.deployment_choice import open_chosen
from cli.exit_codes import BadInput, ExitCode, end_with, told
from cli.moments import format_moment, parse_since
from cli.printing import Format, choose_format, count, open_console, print_data
from cli.shared_options import AsJson  # noqa: TC001 -- typer reads the annotations
from cli.usage.folding import UsageFold
from cli.usage.record_stream import Span, count_records, read_records
from cli.usage.usage_table import describe, is_complete, print_csv, print_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from cli.usage.hours import Account, Size
    from cli.usage.record_stream import Record

PROGRESS_SECONDS = 5.0
KEPT_SHARE = 0.98
"""With fewer of the counted records, the log is said to be incomplete."""
_LABEL = re.compile(r"label:([A-Za-z0-9][-A-Za-z0-9_./]{0,315})")
_GROUPS = ("namespace", "workload", "accelerator", "tier")


class UsageForm(StrEnum):
    """How the answer is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"


def usage(
    since: Annotated[
        str, typer.Option(metavar="TIME", help="From this time on: RFC 3339, or 15m, 2h, 30d ago.")
    ] = "1d",
    by: Annotated[
        str, typer.Option(metavar="GROUP", help=f"What the rows are: {', '.join(_GROUPS)}, or label:KEY.")
    ] = "namespace",
    output: Annotated[UsageForm, typer.Option("--output", "-o", help="Format of the output.")] = UsageForm.TABLE,
    *,
    as_json: AsJson = False,
) -> None:
    """Show used, idle and wasted chip-hours, and causes of waits.

    The functions' log records are read, and nothing else. Prices are list prices. Hours that no
    record tells are unknown. The exit code is 1 if there are such hours of a pool, or if records
    are missing.

    Example: tpu-provisioner usage --since 30d --by tier -o csv > usage.csv
    """
    with told():
        form = choose_format(output, as_json=as_json)
        group_of = choose_group(by)
        deployment = open_chosen()
        now = deployment.ports.clock.now()
        span = Span(begin=parse_since(since, now=now), end=now)
        written = count_records(deployment, span)
        _announce(span, written)
        fold, read = UsageFold(span.begin, group_of, deployment.chosen), 0
        for at, record in follow(read_records(deployment, span), written):
            fold.see(at, record)
            read += at >= span.begin
        account = fold.total(now)
        lost = written is not None and read < written * KEPT_SHARE
        if lost:
            typer.echo(
                f"missing: {read:,} of {written:,} records are in the logs, so hours are missing too", err=True
            )
        _print(account, by, form, data=lambda: describe(account, by, span, read=read, written=written))
    end_with(ExitCode.FINE if is_complete(account) and not lost else ExitCode.FINDINGS)


def choose_group(by: str) -> Callable[[Mapping[str, str], Size | None], str]:
    """Return the function that finds the group of a claim and a size.

    Raises:
        BadInput: there are no such groups.
    """
    if label := _LABEL.fullmatch(by):
        return lambda _claim, size: size.labels.get(label[1], "") if size else ""
    groups: dict[str, Callable[[Mapping[str, str], Size | None], str]] = {
        "namespace": lambda claim, _size: claim["namespace"],
        "workload": lambda claim, _size: f"{claim['namespace']}/{claim['name']}",
        "accelerator": lambda _claim, size: size.accelerator if size else "",
        "tier": lambda _claim, size: size.tier if size else "",
    }
    if by not in groups:
        raise BadInput(f"--by: is not a group (got {by[:80]!r}); valid: {', '.join(_GROUPS)}, or label:KEY")
    return groups[by]


def _announce(span: Span, written: int | None) -> None:
    known = "the number is not known, because Cloud Monitoring was not read"
    many = known if written is None else f"about {count(written, 'record')}"
    typer.echo(f"reading the functions' log records since {format_moment(span.begin)}: {many}", err=True)


def follow(records: Iterable[Record], written: int | None) -> Iterator[Record]:
    """Yield records, and say on standard error every few seconds how many were read."""
    reported_at = time.monotonic()
    of = f" of about {written:,}" if written else ""
    for number, record in enumerate(records, 1):
        if number % 1000 == 0 and time.monotonic() - reported_at >= PROGRESS_SECONDS:
            reported_at = time.monotonic()
            typer.echo(f"read {number:,}{of} records, up to {format_moment(record[0])}", err=True)
        yield record


def _print(account: Account, by: str, form: UsageForm, *, data: Callable[[], object]) -> None:
    if form in (UsageForm.JSON, UsageForm.YAML):
        print_data(data(), Format(form))
    elif form == UsageForm.CSV:
        print_csv(account)
    else:
        print_usage(open_console(), account, by, wide=form == UsageForm.WIDE)
