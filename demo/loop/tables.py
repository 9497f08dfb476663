"""The tables at the end of a run: time per step, pools, refusals, and the result."""

from collections.abc import Iterator
from textwrap import wrap

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from demo.loop.drawing import cut_front, describe_shape
from demo.loop.run_outcome import Outcome
from demo.loop.states import SliceTimeline
from demo.loop.steps import SHORT, STEPS

_KEPT_SPACE = "\N{NO-BREAK SPACE}"
_TABLES_WIDTH = 120
"""So many columns the table of the steps needs, with short names."""


def print_outcome(console: Console, outcome: Outcome) -> None:
    """Print the end of a run for a person."""
    for each in _build(outcome, console.width):
        console.print(each)


def _build(outcome: Outcome, width: int) -> Iterator[RenderableType]:
    timeline = outcome.timeline
    if timeline.slices and width < _TABLES_WIDTH:
        yield from _stack(outcome, width)
    elif timeline.slices:
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


def _stack(outcome: Outcome, width: int) -> Iterator[RenderableType]:
    """Yield what the two tables have, stacked: for a terminal that is too narrow for them."""
    yield Text("Each slice: seconds since the manifests were applied, node pool, decisions", style="italic")
    for one in outcome.timeline.slices.values():
        yield Text(cut_front(one.job, width), style="bold")
        moments = [(SHORT[step], _moment(outcome, one, index)) for index, step in enumerate(STEPS)]
        pairs = "  ".join(f"{name}{_KEPT_SPACE}{at}" for name, at in moments if at)
        yield Padding(Text("\n".join(wrap(pairs, width - 2)).replace(_KEPT_SPACE, " ")), (0, 0, 0, 2))
        if one.pool:
            yield Text("  " + cut_front(_name_pool(one), width - 2), style="dim")
        if one.creation:
            shape = f"{describe_shape(one)} {one.creation.reservation}".rstrip()
            yield Padding(f"{shape}; GKE calls: {outcome.timeline.calls_of(one).total()}", (0, 0, 0, 2))
        yield Padding(Text(_decisions(one)), (0, 0, 0, 2))


def _name_pool(one: SliceTimeline) -> str:
    return f"{one.pool} (shared)" if one.shares_pool else one.pool


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
        pool = _name_pool(one)
        table.add_row(
            Text.assemble(one.job, (f"\n  {pool}" if pool else "", "dim")),
            f"{made.node_count} x {made.machine_type}\n{made.topology}" if made else "",
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
    return Text.assemble(
        (f"Verified: {served} node pools were created and deleted, none is left{refused}.", "bold green"),
        "\nNext: make up starts the same local cloud for your own commands (docs/tutorial.md).",
    )
