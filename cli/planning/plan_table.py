"""Prints a plan for people: a line for each kind of slice, what its pools have, and the sum."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from cli.planning.plan import summarize
from cli.planning.pool_details import describe_disk, list_labels, list_taints
from cli.prices import HOURS_PER_MONTH, READ_ON, SOURCE, write_price
from cli.printing import count, print_columns, print_line, styled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from cli.planning.plan import PlannedSlice
    from shared.shapes.shape import Shape


def _identity(each: PlannedSlice) -> tuple[str, ...]:
    shape = each.demand.shape if each.demand else None
    decision = each.decision
    names = (each.kind, each.namespace, each.workload, each.group, str(each.later))
    return (*names, decision.verdict, decision.reason, str(shape))


def print_plan(
    console: Console,
    planned: Sequence[PlannedSlice],
    others: Sequence[str],
    *,
    prices: bool = True,
    lines: Sequence[str] = (),
) -> None:
    """Print a plan: one line for each kind of slice, all refusals, what else is said, and the sum.

    Args:
        console: where to.
        planned: from `cli.planning.plan`.
        others: objects for which nothing is planned.
        prices: show list prices.
        lines: what else is said before the sum.
    """
    groups = [list(alike) for _, alike in groupby(planned, _identity)]
    headings = ["JOB", "POOLS", "NODES", "CHIPS", "MACHINE", "TOPOLOGY", "TIER", "ZONE", "DECISION"]
    if groups:
        print_columns(console, headings, [_cells(group) for group in groups])
        print_line(console)
    for group in groups:
        each = group[0]
        if each.creates:
            print_line(console, _describe(each, prices=prices))
        else:
            look = "bad" if each.refused else "warn"
            where = f"{each.namespace}/{each.slice}"
            print_line(console, styled(f"{where}: {each.decision.message} [{each.decision.reason}]", look))
    remarks = [(each, f"needs {need}") for each in planned for need in each.needs]
    remarks += [(each, note) for each in planned for note in each.notes]
    for line in dict.fromkeys(f"{each.namespace}/{each.workload}: {text}" for each, text in remarks):
        print_line(console, line)
    if others:
        print_line(console, f"not planned: {', '.join(others)}")
    for line in lines:
        print_line(console, line)
    if prices and any(each.creates for each in planned):
        print_line(console, _sum_prices(planned))
    print_line(console, summarize(planned))


def _describe(each: PlannedSlice, *, prices: bool) -> str:
    """Return what the pool of a slice has, and its list price."""
    pool = each.node_pool or {}
    own = list_labels(pool)
    parts = [
        f"disk {describe_disk(pool)}",
        f"taints {', '.join(list_taints(pool))}",
        f"labels {', '.join(f'{key}={value}' for key, value in sorted(own.items()))}"
        if own
        else "no labels of its own",
    ]
    if prices:
        parts.append(f"price of each {write_price(each.price)}")
    return f"{_name(each)}: {'; '.join(parts)}"


def _sum_prices(planned: Sequence[PlannedSlice]) -> str:
    """Return the price of all pools that are created now, with the table's source."""
    now = [each for each in planned if each.creates and not each.later]
    known = [each.price for each in now if each.price is not None]
    unknown = len(now) - len(known)
    total = sum(known)
    tail = f", and {count(unknown, 'pool')} whose price is unknown" if unknown else ""
    if not known:
        return "list price: unknown"
    month = f"${total * HOURS_PER_MONTH:,.0f} a month of {HOURS_PER_MONTH} hours"
    return f"list price: ${total:,.2f} an hour, {month}{tail} (prices of {READ_ON}, {SOURCE})"


def _name(each: PlannedSlice) -> str:
    return "/".join(part for part in (each.namespace, each.workload, each.group) if part)


def _name_topology(shape: Shape) -> str:
    return f"{shape.chips_per_host} {shape.accelerator}" if shape.gpus else shape.topology


def _cells(alike: Sequence[PlannedSlice]) -> list[Any]:
    """Return the line of equal slices of one group."""
    each, demand = alike[0], alike[0].demand
    pools = f"up to {each.later} more" if each.later else str(len(alike))
    shown = [
        _name(each),
        pools if each.creates else "0",
        str(demand.shape.node_count) if demand else "-",
        str(demand.shape.chips) if demand else "-",
        demand.shape.machine_type if demand else "-",
        _name_topology(demand.shape) if demand else "-",
        str(demand.capacity.tier) if demand else "-",
        demand.zone if demand else "-",
    ]
    look = "ok" if each.creates else "bad" if each.refused else "warn"
    decided = str(each.decision.verdict) if each.creates else f"{each.decision.verdict}: {each.decision.reason}"
    return [*shown, styled(decided, look)]
