"""The tables at the end of a run: time per step, pools, refusals, and the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from demo.loop.steps import SHORT, STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from demo.loop.run_outcome import Outcome
    from demo.loop.states import SliceTimeline


def print_outcome(console: Console, outcome: Outcome) -> None:
    """Print the end of a run for a person."""
    for each in _build(outcome):
        console.print(each)


def _build(outcome: Outcome) -> Iterator[RenderableType]:
    timeline = outcome.timeline
    if timeline.slices:
        yield _steps_table(outcome)
        yield _pools_table(outcome)
    if outcome.refusals:
        yield _refusals_table(outcome)
    for note in outcome.notes:
        yield Text(note, style="dim")
    shared = ", ".join(f"{name} {count}" for name, count in outcome.shared_calls.items()) or "none"
    yield Text(
        f"{outcome.elapsed_seconds:.1f} real seconds at speed {outcome.speed:g};"
        f" {outcome.facts.get('messages', 0)} messages; GKE calls that name no pool: {shared}",
        style="dim",
    )
    yield _verdict(outcome)


def _steps_table(outcome: Outcome) -> Table:
    table = Table(title="Seconds since the manifests were applied", title_justify="left", expand=False)
    table.add_column("slice", no_wrap=True)
    for step in STEPS:
        table.add_column(SHORT[step], justify="right", no_wrap=True)
    for one in outcome.timeline.slices.values():
        cells = [_moment(outcome, one, index) for index in range(len(STEPS))]
        table.add_row(one.job, *cells)
    return table


def _moment(outcome: Outcome, one: SliceTimeline, index: int) -> str:
    at = one.steps.get(STEPS[index])
    return "" if at is None else f"{max(0.0, at - outcome.timeline.started_at):.1f}"


def _pools_table(outcome: Outcome) -> Table:
    table = Table(title="Node pools and decisions", title_justify="left", expand=False)
    table.add_column("slice, and its pool", no_wrap=True)
    for name in ("nodes", "tier", "decisions"):
        table.add_column(name, overflow="fold")
    table.add_column("GKE calls", justify="right", max_width=5)
    for one in outcome.timeline.slices.values():
        made = one.creation
        pool = f"{one.pool} (shared)" if one.shares_pool else one.pool
        table.add_row(
            Text.assemble(one.job, (f"\n  {pool}" if pool else "", "dim")),
            f"{made.node_count} x {made.machine_type}\nplacement: {made.placement}" if made else "",
            f"{made.tier} {made.reservation}".strip() if made else "",
            _decisions(one),
            str(outcome.timeline.calls_of(one).total()) if one.pools else "",
        )
    return table


def _decisions(one: SliceTimeline) -> str:
    """Return the decisions in their order, one line each, without repetitions."""
    return "\n".join(dict.fromkeys(f"{each.function}: {each.decision} ({each.reason})" for each in one.decisions))


def _refusals_table(outcome: Outcome) -> Table:
    table = Table(title="Refused", title_justify="left", title_style="red", expand=False)
    for name in ("workload", "slice", "by", "reason", "message"):
        table.add_column(name, overflow="fold")
    for each in outcome.refusals:
        table.add_row(f"{each.namespace}/{each.workload}", each.slice, each.by, each.reason, each.message)
    return table


def _verdict(outcome: Outcome) -> Text:
    if outcome.problems:
        lines = "\n".join(f"  - {each}" for each in outcome.problems)
        return Text(f"NOT VERIFIED:\n{lines}", style="bold red")
    served = sum(bool(one.pools) for one in outcome.timeline.slices.values())
    refused = f"; {len(outcome.refusals)} refused, with reasons above" if outcome.refusals else ""
    return Text(
        f"Verified: {served} node pools were created and deleted, none is left{refused}.", style="bold green"
    )
