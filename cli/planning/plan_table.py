"""Prints a plan for people: a line for each need, what its pools have, and the sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.planning.plan import summarize
from cli.planning.pool_details import describe_disk, list_labels, list_taints
from cli.prices import HOURS_PER_MONTH, READ_ON, SOURCE, write_price
from cli.printing import Column, count, print_line, print_table, styled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.text import Text

    from cli.planning.manifests import Found
    from cli.planning.plan import PlannedNeed


def _name(each: PlannedNeed) -> str:
    return f"{each.key.namespace}/{each.key.name}"


def _show_pools(each: PlannedNeed) -> str:
    more = f" (up to {each.later} more)" if each.later and each.creates else ""
    return f"{each.pools}{more}"


def _show_topology(each: PlannedNeed) -> str:
    shape = each.demand.shape if each.demand else None
    if shape is None:
        return "-"
    return f"{shape.machine.chips} {shape.family.accelerator}" if shape.gpus else shape.topology


def _show_decision(each: PlannedNeed) -> Text:
    look = "ok" if each.creates else "bad" if each.refused else "warn"
    reason = "" if each.creates else f": {each.decision.reason}"
    return styled(f"{each.decision.verdict}{reason}", look)


_COLUMNS: list[Column[PlannedNeed]] = [
    Column("JOB", _name),
    Column("POOLS", _show_pools),
    Column("NODES", lambda each: str(each.nodes) if each.creates else "-"),
    Column("CHIPS", lambda each: str(each.chips) if each.creates else "-"),
    Column("MACHINE", lambda each: each.demand.shape.machine.name if each.demand else "-"),
    Column("TOPOLOGY", _show_topology),
    Column("TIER", lambda each: str(each.demand.way.tier) if each.demand else "-"),
    Column("ZONE", lambda each: each.demand.way.zone if each.demand else "-"),
    Column("DECISION", _show_decision),
]


def print_plan(
    console: Console,
    planned: Sequence[PlannedNeed],
    found: Found,
    *,
    prices: bool = True,
    lines: Sequence[str] = (),
) -> None:
    """Print a plan: one line for each need, all refusals, what else is said, and the sum."""
    if planned:
        print_table(console, _COLUMNS, planned, wide=False)
        print_line(console)
    for each in planned:
        print_line(console, _describe(each, prices=prices) if each.creates else _tell_refusal(each))
    remarks = [f"{_name(each)}: {text}" for each in planned for text in _list_remarks(each)]
    left = [f"not planned: {', '.join(found.others)}"] * bool(found.others)
    price = [_sum_prices(planned)] * (prices and any(each.creates for each in planned))
    for line in (*dict.fromkeys(remarks), *left, *lines, *price, summarize(planned, unserved=found.unserved)):
        print_line(console, line)


def _tell_refusal(each: PlannedNeed) -> Text:
    text = f"{_name(each)}: {each.decision.message} [{each.decision.reason}]"
    return styled(text, "bad" if each.refused else "warn")


def _list_remarks(each: PlannedNeed) -> list[str]:
    return [*(f"needs {need}" for need in each.needs), *each.notes]


def _describe(each: PlannedNeed, *, prices: bool) -> str:
    """Return what the pools of a need have, and their list price."""
    pool = each.node_pool or {"config": {"labels": {}}}
    own = ", ".join(f"{key}={value}" for key, value in sorted(list_labels(pool).items()))
    parts = [
        f"disk {describe_disk(pool)}",
        f"taints {', '.join(list_taints(pool))}",
        f"labels {own}" if own else "no labels of its own",
    ]
    if prices:
        one = None if each.price is None else each.price / each.pools
        parts.append(f"price of each {write_price(one)}")
    return f"{_name(each)}: {'; '.join(parts)}"


def _sum_prices(planned: Sequence[PlannedNeed]) -> str:
    """Return the price of all pools that are created now, with the table's source."""
    made = [each for each in planned if each.creates]
    known = [each.price for each in made if each.price is not None]
    unknown = sum(each.pools for each in made if each.price is None)
    tail = f", and {count(unknown, 'pool')} whose price is unknown" if unknown else ""
    if not known:
        return "list price: unknown"
    total = sum(known)
    month = f"${total * HOURS_PER_MONTH:,.0f} a month of {HOURS_PER_MONTH} hours"
    return f"list price: ${total:,.2f} an hour, {month}{tail} (prices of {READ_ON}, {SOURCE})"
