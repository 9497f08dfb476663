"""``python -m benchmarks``: runs what is asked for, prints one table, says what is out of budget.

Which figures there are, and how each is taken, stands in the modules that this one calls.
"""

import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import exporter_load, fan_out, field, function, scarcity, tick
from benchmarks.figures import OF_RATIO, Figure, build_table, describe_run, write_json
from benchmarks.processes import Failed, stage_exporter, stage_functions

# Where there is no terminal (a file, a pipe), the table gets the width that it needs.
console = Console() if sys.stdout.isatty() else Console(width=160)
progress = Console(stderr=True)


class Part(StrEnum):
    """What can be measured on its own."""

    COLD = "cold"
    WARM = "warm"
    EXPORTER = "exporter"
    TICK = "tick"
    SCARCITY = "scarcity"
    FAN_OUT = "fan-out"
    FIELD = "field"


def list_parts(
    folder: Path, runs: int | None, say: Callable[[str], None], *, quick: bool
) -> dict[Part, Callable[[], list[Figure]]]:
    """Return how each part is measured; a quick run has fewer rounds and smaller sizes."""

    def count(few: int, many: int) -> int:
        return runs or (few if quick else many)

    return {
        Part.COLD: lambda: function.measure_cold(stage_functions(folder), count(3, 9), say),
        Part.WARM: lambda: function.measure_warm(stage_functions(folder), count(1, 5), say),
        Part.EXPORTER: lambda: exporter_load.measure(
            stage_exporter(folder), folder, count(1, 3), say, quick=quick
        ),
        Part.TICK: lambda: tick.measure(count(1, 3), say, quick=quick),
        Part.SCARCITY: lambda: scarcity.measure(count(5, 15), say),
        Part.FAN_OUT: lambda: fan_out.measure(folder, say, quick=quick),
        Part.FIELD: lambda: field.measure(folder, say, quick=quick),
    }


def main(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs, and smaller sizes; about a minute.")] = False,
    runs: Annotated[int | None, typer.Option(help="So many runs of each part.", min=1)] = None,
    only: Annotated[list[Part] | None, typer.Option(help="Measure this part; may be repeated.")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every figure with its samples.", dir_okay=False)
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 when a figure is out of budget.")] = False,
) -> None:
    """Measure against the budgets, side by side with baselines.

    Linux only.
    """
    if not sys.platform.startswith("linux"):
        progress.print("The benchmarks read CPU clocks and memory from /proc and so need Linux; use a container.")
        raise typer.Exit(2)
    figures, failed = _measure_all(only or list(Part), quick=quick, runs=runs)
    title = describe_run(quick=quick or runs is not None)
    console.print(build_table(figures, title))
    if json_file:
        write_json(figures, title, json_file)
    over = [figure for figure in figures if figure.is_over]
    _print_verdict(over, failed)
    if failed or (over and strict):
        raise typer.Exit(1)


def _print_verdict(over: list[Figure], failed: list[Part]) -> None:
    for figure in over:
        name, measured, _, ratio, limit = figure.cells
        value = ratio if figure.budget_key in OF_RATIO else measured
        console.print(f"[bold red]OUT OF BUDGET[/bold red] {figure.section}: {name}: {value}, not {limit}")
    if failed:
        console.print(f"[bold red]NOT MEASURED[/bold red] {', '.join(failed)}: see above")
    if not over and not failed:
        console.print("[green]Everything measured is in budget.[/green]")


def _measure_all(parts: Iterable[Part], *, quick: bool, runs: int | None) -> tuple[list[Figure], list[Part]]:
    """Return all figures, and the parts that could not be measured.

    Each of those is explained at once.
    """
    figures: list[Figure] = []
    failed = []
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder, progress.status("preparing") as status:
        for part in parts:
            try:
                own = Path(folder) / part
                own.mkdir()
                figures += list_parts(own, runs, status.update, quick=quick)[part]()
            except (Failed, OSError):
                failed.append(part)
                progress.print(f"[bold red]{part} could not be measured:[/bold red]")
                progress.print(traceback.format_exc(limit=-1), markup=False, highlight=False, soft_wrap=True)
    return figures, failed


if __name__ == "__main__":
    typer.run(main)
