"""Shows an account: a table for people, the same as CSV, and everything for programs."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING, Any

from cli.moments import format_moment
from cli.prices import READ_ON
from cli.printing import count, print_columns, print_line
from cli.usage.hours import Cause, Hours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from cli.usage.hours import Account, Row
    from cli.usage.record_stream import Span

_WAIT_WORDS = {
    Cause.CREATION: "for GKE to create nodes",
    Cause.STOCKOUT: "because of a stockout",
    Cause.QUOTA: "because of a quota",
    Cause.LIMIT: "because of a limit",
    Cause.QUEUE: "in a queue",
    Cause.PAUSE: "in pauses of the provisioner",
    Cause.REFUSED: "refused",
    Cause.UNKNOWN: "unknown",
}
HEADINGS = ("slices", *(f"{each} chip-hours" for each in Hours), "hours waited", "list price")
FEW_HOURS, SHOWN_HOURS = 10.0, 0.005
"""Less than the second one is shown as 0.00."""
LEGEND = (
    "Chip-hours: used (pods ran), idle (no pods), starting (nodes are made), wasted (no pod ever ran), "
    "unknown (no record)."
)


def write_hours(hours: float) -> str:
    """Return hours for people: with two digits if they are few."""
    return f"{hours:,.1f}" if hours >= FEW_HOURS else f"{hours:.2f}"


def list_cells(row: Row) -> list[str]:
    """Return the cells of a row, in the order of `HEADINGS`."""
    hours = [*(row.chip_hours[each] for each in Hours), sum(row.waited.values())]
    return [str(row.slices), *map(write_hours, hours), write_price(row)]


def write_price(row: Row) -> str:
    """Return the list price of a row for people; a part of it may be unknown."""
    if not row.dollars:
        return "unknown" if row.unpriced else "-"
    return f"${sum(row.dollars.values()):,.2f}" + (" and more" if row.unpriced else "")


def print_usage(console: Console, account: Account, by: str, *, wide: bool) -> None:
    """Print the groups of an account, their sum, and what is not known."""
    causes = list(Cause) if wide else []
    short = ["SLICES", *(each.upper() for each in Hours), "WAITED", "LIST PRICE"]
    headings = [by.upper(), *short, *(f"WAITED: {each.upper()}" for each in causes)]
    rows = [*account.sum_groups().items(), ("(all)", account.sum_all())]
    table = [
        [name or "-", *list_cells(row), *(write_hours(row.waited[each]) for each in causes)] for name, row in rows
    ]
    print_columns(console, headings, table)
    print_line(console)
    for line in [LEGEND, *list_lines(account)]:
        print_line(console, line)


def list_lines(account: Account) -> Iterator[str]:
    """Yield the waits by cause, the list price by tier, and what is not known, in sentences."""
    total = account.sum_all()
    waits = [
        f"{write_hours(total.waited[each])} h {_WAIT_WORDS[each]}"
        for each in Cause
        if total.waited[each] >= SHOWN_HOURS
    ]
    yield f"Slices waited: {', '.join(waits) or 'never'}."
    prices = [f"{tier} ${total.dollars[tier]:,.2f}" for tier in sorted(total.dollars)]
    unpriced = f"; unknown for {write_hours(total.unpriced)} chip-hours" if total.unpriced else ""
    yield (
        f"List price of used and idle chip-hours (prices of {READ_ON}; not your bill): "
        f"{', '.join(prices) or 'none is known'}{unpriced}."
    )
    yield from list_unknown(account)


def is_complete(account: Account) -> bool:
    """Return whether the records tell what became of every pool that they name."""
    told = account.nameless_hours + account.endless_hours + account.sum_all().chip_hours[Hours.UNKNOWN]
    return told < SHOWN_HOURS and not account.sizeless_pools


def list_unknown(account: Account) -> Iterator[str]:
    """Yield what the records do not tell, a sentence each."""
    for start, end in account.gaps:
        yield f"Not known: no sweep is in the logs from {format_moment(start)} to {format_moment(end)}."
    if account.sizeless_pools:
        pools, hours = count(account.sizeless_pools, "pool"), f"{write_hours(account.sizeless_hours)} h"
        yield f"Not known: the size of {pools} ({hours}), because the logs have no record of their creates."
    nameless, endless = write_hours(account.nameless_hours), write_hours(account.endless_hours)
    if account.nameless_hours >= SHOWN_HOURS:
        yield f"Not known: {nameless} h of pools that sweeps counted and no record names."
    if account.endless_hours >= SHOWN_HOURS:
        yield (
            f"Too much: {endless} h of pools count as before, because the record of their end is missing. "
            "The sweeps counted fewer pools."
        )


def describe(account: Account, by: str, span: Span, *, read: int, written: int | None) -> dict[str, Any]:
    """Return an account for programs.

    Args:
        account: the sums.
        by: what the groups are.
        span: the time.
        read: how many records were read.
        written: how many there were, by the metrics; None if that is not known.
    """
    return {
        "since": format_moment(span.begin),
        "until": format_moment(span.end),
        "by": by,
        "groups": [{"group": name, **row.as_data()} for name, row in account.sum_groups().items()],
        "days": [{"day": day, **row.as_data()} for day, row in account.sum_days().items()],
        "total": account.sum_all().as_data(),
        "prices_of": READ_ON,
        "not_known": {
            "pools_without_size": account.sizeless_pools,
            "hours_of_pools_without_size": round(account.sizeless_hours, 4),
            "hours_of_pools_without_name": round(account.nameless_hours, 4),
            "hours_of_pools_without_end": round(account.endless_hours, 4),
            "without_sweeps": [{"from": format_moment(a), "to": format_moment(b)} for a, b in account.gaps],
            "records_read": read,
            "records_written": written,
        },
    }


def print_csv(account: Account) -> None:
    """Print a line for each day and group. Hours have four digits, and dollars two."""
    lines = csv.writer(sys.stdout, lineterminator="\n")
    hours, waits = [f"{each}_chip_hours" for each in Hours], [f"waited_{each}_hours" for each in Cause]
    lines.writerow(["day", "group", "slices", *hours, *waits, "list_price_dollars", "unpriced_chip_hours"])
    for (day, group), row in sorted(account.rows.items()):
        chips, waited = [row.chip_hours[each] for each in Hours], [row.waited[each] for each in Cause]
        numbers = [f"{each:.4f}" for each in (*chips, *waited)]
        price = f"{sum(row.dollars.values()):.2f}"
        lines.writerow([day, group, row.slices, *numbers, price, f"{row.unpriced:.4f}"])
