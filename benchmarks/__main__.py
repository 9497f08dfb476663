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

from benchmarks import scarcity, staging, tick_cost
from benchmarks.exporter_load import ExporterBench, StagedExporter
from benchmarks.figures import Figure, Verdict, build_table, describe_run, row_of, write_json
from benchmarks.function import Site, measure_cold, measure_warm
from benchmarks.metering import Failed

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


class Bench:
    """Everything that the parts need, in one temporary folder."""

    def __init__(self, folder: Path, *, quick: bool, runs: int | None, say: Callable[[str], None]) -> None:
        self._folder, self._quick, self._given, self._say = folder, quick, runs, say

    def measure(self, part: Part) -> list[Figure]:
        """Return the figures of one part."""
        say = self._say
        parts: dict[Part, Callable[[], list[Figure]]] = {
            Part.COLD: lambda: measure_cold(self._site(), self._runs(3, 9), say),
            Part.WARM: lambda: measure_warm(self._site(), self._runs(1, 5), say),
            Part.EXPORTER: lambda: self._exporter().measure(self._runs(1, 3), 3.0 if self._quick else 10.0, say),
            Part.TICK: lambda: tick_cost.measure(self._runs(1, 3), say, sizes=self._sizes()),
            Part.SCARCITY: lambda: scarcity.measure(self._runs(5, 15), say),
        }
        return parts[part]()

    def _runs(self, quick: int, full: int) -> int:
        return self._given or (quick if self._quick else full)

    def _sizes(self) -> tuple[int, ...]:
        return tick_cost.QUICK_SIZES if self._quick else tick_cost.SIZES

    def _site(self) -> Site:
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        pinned = staging.read_distributions(staging.ROOT / "requirements.txt")
        return Site(staging.stage_bundle(folder / "bundle"), pinned, folder)

    def _exporter(self) -> ExporterBench:
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        pinned = staging.read_distributions(staging.ROOT / "exporter/requirements.txt")
        staged = StagedExporter(
            code=staging.stage_exporter(folder / "code"),
            python=staging.make_environment(pinned, folder / "environment"),
        )
        return ExporterBench(staged, folder)


def main(
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer runs, and smaller ticks; at most a minute.")
    ] = False,
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
    out = [figure for figure in figures if figure.verdict is Verdict.OUT_OF_BUDGET]
    _conclude(out, failed)
    if failed or (out and strict):
        raise typer.Exit(1)


def _measure_all(parts: Iterable[Part], *, quick: bool, runs: int | None) -> tuple[list[Figure], list[Part]]:
    """Return all figures, and the parts that could not be measured.

    Each of those is explained at once.
    """
    figures: list[Figure] = []
    failed = []
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder, progress.status("preparing") as status:
        bench = Bench(Path(folder), quick=quick, runs=runs, say=status.update)
        for part in parts:
            try:
                figures += bench.measure(part)
            except (Failed, staging.NotInstalled, OSError):
                failed.append(part)
                progress.print(f"[bold red]{part} could not be measured:[/bold red]")
                progress.print(traceback.format_exc(limit=-1), markup=False, highlight=False, soft_wrap=True)
    return figures, failed


def _conclude(out: list[Figure], failed: list[Part]) -> None:
    for figure in out:
        name, measured, _, ratio, limit, *_ = row_of(figure)
        found = ratio if figure.budget and figure.budget.of_ratio else measured
        console.print(f"[bold red]OUT OF BUDGET[/bold red] {figure.section}: {name}: {found}, not {limit}")
    if failed:
        console.print(f"[bold red]NOT MEASURED[/bold red] {', '.join(failed)}: see above")
    if not out and not failed:
        console.print("[green]Everything measured is in budget.[/green]")


if __name__ == "__main__":
    typer.run(main)
