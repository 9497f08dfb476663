"""One run of ``plan``: reads the manifests and what is asked of a cluster, and prints the plan."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cli.access import open_deployment
from cli.access.deployment import CHOICE, Choice, choose_environment, read_plan_settings
from cli.exit_codes import ExitCode
from cli.planning.manifests import read_manifests
from cli.planning.plan import Facts, PlannedNeed, plan, summarize
from cli.prices import HOURS_PER_MONTH, READ_ON, SOURCE
from cli.printing import (
    Column,
    Format,
    as_data,
    count,
    open_console,
    print_data,
    print_line,
    print_table,
    styled,
    warn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console
    from rich.text import Text

    from cli.planning.manifests import Found
    from cli.planning.plan import PlannedNeed
    from shared.needs.ways import Demand


def _name(each: PlannedNeed) -> str:
    return f"{each.key.namespace}/{each.key.name}"


def _show_topology(demand: Demand) -> str:
    shape = demand.shape
    return f"{shape.machine.chips} {shape.family.accelerator}" if shape.gpus else shape.topology


def _show_decision(each: PlannedNeed) -> Text:
    look = "ok" if each.creates else "bad" if each.refused else "warn"
    reason = "" if each.creates else f": {each.decision.reason}"
    return styled(f"{each.decision.verdict}{reason}", look)


def _show_price(each: PlannedNeed) -> str:
    return "" if each.price is None else f"{each.price:,.2f}"


def _of_demand(read: Callable[[Demand], Any]) -> Callable[[PlannedNeed], Any]:
    return lambda each: read(each.demand) if each.demand else None


COLUMNS: list[Column[PlannedNeed]] = [
    Column("namespace", lambda each: each.key.namespace),
    Column("workload", lambda each: each.key.name, "JOB", _name),
    Column("kind", lambda each: each.key.kind),
    Column("pools", lambda each: each.pools, "POOLS"),
    Column("node_count", lambda each: each.nodes, "NODES"),
    Column("chips", lambda each: each.chips, "CHIPS"),
    Column("machine_type", _of_demand(lambda demand: demand.shape.machine.name), "MACHINE"),
    Column("topology", _of_demand(lambda demand: demand.shape.topology), "TOPOLOGY", _of_demand(_show_topology)),
    Column("tier", _of_demand(lambda demand: str(demand.way.tier)), "TIER"),
    Column("zone", _of_demand(lambda demand: demand.way.zone), "ZONE"),
    Column("candidates", _of_demand(lambda demand: [str(each) for each in demand.need.ways])),
    Column("decision", lambda each: str(each.decision.verdict), "DECISION", _show_decision),
    Column("reason", lambda each: str(each.decision.reason)),
    Column("message", lambda each: each.decision.message),
    Column("requires", lambda each: list(each.requires)),
    Column("notes", lambda each: list(each.notes)),
    Column("node_pool", lambda each: each.node_pool),
]
"""What is said of a need, for people and for programs."""
PRICES: list[Column[PlannedNeed]] = [
    Column("dollars_per_hour", lambda each: each.price, "$ AN HOUR", _show_price, wide=True),
    Column(
        "dollars_per_month", lambda each: None if each.price is None else round(each.price * HOURS_PER_MONTH, 2)
    ),
]


def describe_plan(planned: Planned) -> dict[str, Any]:
    """Return a plan for programs."""
    return {
        "needs": [as_data(planned.columns, each) for each in planned.needs],
        "summary": summarize(planned.needs, unserved=planned.contents.unserved),
        "not_planned": planned.contents.others,
        "unreadable": planned.contents.problems,
        "assumed": planned.assumed,
    }


def print_plan(console: Console, planned: Planned, *, wide: bool = False) -> None:
    """Print a plan: one line for each need, all refusals, what else is said, and the sum."""
    needs = planned.needs
    if needs:
        print_table(console, planned.columns, needs, wide=wide)
        print_line(console)
    for each in needs:
        if not each.creates:
            text = f"{_name(each)}: {each.decision.message} [{each.decision.reason}]"
            print_line(console, styled(text, "bad" if each.refused else "warn"))
    for line in (*_list_remarks(needs), *_list_sums(planned)):
        print_line(console, line)


def _list_remarks(needs: Sequence[PlannedNeed]) -> list[str]:
    """Return what the needs of each workload require, and their notes, each once."""
    remarks = [f"{_name(each)}: needs {text}" for each in needs for text in each.requires]
    remarks += [f"{_name(each)}: {text}" for each in needs for text in each.notes]
    return list(dict.fromkeys(remarks))


def _list_sums(planned: Planned) -> Iterator[str]:
    needs, contents = planned.needs, planned.contents
    if contents.others:
        yield f"not planned: {', '.join(contents.others)}"
    yield from planned.assumed
    if planned.prices and any(each.creates for each in needs):
        yield _sum_prices(needs)
    yield summarize(needs, unserved=contents.unserved)


def _sum_prices(needs: Sequence[PlannedNeed]) -> str:
    """Return the price of all pools that are created now, with the table's source."""
    created = [each for each in needs if each.creates]
    prices = [each.price for each in created if each.price is not None]
    unknown = sum(each.pools for each in created if each.price is None)
    if not prices:
        return "list price: unknown"
    total, tail = sum(prices), f", and {count(unknown, 'pool')} whose price is unknown" if unknown else ""
    month = f"${total * HOURS_PER_MONTH:,.0f} a month of {HOURS_PER_MONTH} hours"
    return f"list price: ${total:,.2f} an hour, {month}{tail} (prices of {READ_ON}, {SOURCE})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan of some manifests."""

    contents: Found
    needs: list[PlannedNeed]
    assumed: list[str]  # what was not read of a cluster
    prices: bool = True

    @property
    def columns(self) -> list[Column[PlannedNeed]]:
        """Return what is said of each need."""
        return [*COLUMNS, *(PRICES if self.prices else ())]

    @property
    def code(self) -> ExitCode:
        """Return the exit code that it means."""
        if self.contents.problems:
            return ExitCode.BAD_INPUT
        return ExitCode.FINDINGS if any(each.refused for each in self.needs) else ExitCode.FINE


def run_plan(files: Sequence[str], *, zone: str, prices: bool) -> Planned:
    """Return the plan for some files; a cluster is asked if the command line chooses one."""
    contents = read_manifests(files)
    asks = CHOICE.get() != Choice()
    environ = choose_environment() if asks else os.environ
    settings = read_plan_settings(environ, zone)
    name = next(iter(settings.clusters))
    facts = Facts(contents.defined, open_deployment(environ).ports.clusters[name] if asks else None)
    needs = plan(contents, name, settings, facts)
    return Planned(contents=contents, needs=needs, assumed=facts.assumptions, prices=prices)


def show_plan(planned: Planned, form: Format) -> None:
    """Print a plan, and what is wrong with documents on standard error."""
    if form.for_programs:
        print_data(describe_plan(planned), form)
    elif planned.needs or planned.contents.others or not planned.contents.problems:
        print_plan(open_console(), planned, wide=form is Format.WIDE)
    for each in planned.contents.problems:
        warn(f"error: {each}")
