"""Shows an account: a table for people, the same as CSV, and everything for programs."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING, Any

from cli.moments import format_moment
from cli.prices import READ_ON
from cli.printing import Column, count, print_line, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from cli.usage.account import Account, Row
    from cli.usage.record_stream import Span

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
        Column(by.upper(), lambda named: named[0] or "-"),
        Column("POOLS", lambda named: str(named[1].pools)),
        Column("CHIP-HOURS", lambda named: write_hours(named[1].chip_hours)),
        Column("FAILED", lambda named: write_hours(named[1].failed_chip_hours)),
        Column("WAITED", lambda named: write_hours(named[1].waited_hours)),
        Column("LIST PRICE", lambda named: write_price(named[1])),
    ]
    print_table(console, columns, [*account.sum_groups().items(), ("(all)", account.sum_all())], wide=False)
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
        yield f"Not known: {count(account.unknown_pools, 'pool')}, because no record tells of their create or end."


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
