"""Figures beside baselines and budgets, and how they are shown: a table, or JSON.

A figure is the median of its samples. A budget belongs to a figure by its key.
"""

import json
import math
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from rich.markup import escape
from rich.table import Table

T = TypeVar("T")
COLUMNS = ("what", "measured", "baseline", "ratio", "budget")


BUDGETS = {
    "cold_start": 3.9,
    "warm_event": 6.5,  # REST of our own took 4.2 times the CloudEvent (docs/decisions/clients.md)
    "function_memory": 90,
    "exporter_memory": 85,
    "exporter_sync": 5,
    "exporter_latency_p50": 10,
    "exporter_latency_p99": 7,
    "tick_seconds": 55,
    "fan_out": 1.1,
    "field_last_create": 6,
    "field_first_delete": 1.1,
    "field_last_delete": 4,
    "field_calls": 4,  # a create, a delete, and a part of the lists after ends and in ticks
}
"""The most that a figure may be; less is always better."""
OF_RATIO = ("cold_start", "warm_event", "fan_out")
"""Whose budget is one of the ratio to the baseline instead of the figure itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the report."""

    section: str
    what: str
    unit: str
    samples: tuple[float, ...]  # the figure is their median
    baseline: tuple[float, ...] = ()  # samples of what it is compared with, if it is
    budget_key: str = ""

    @property
    def measured(self) -> float:
        """Return the median of the samples."""
        return statistics.median(self.samples)

    @property
    def ratio(self) -> float | None:
        """Return the figure over its baseline: the median of the rounds' ratios.

        A busy neighbour slows both runs of a round alike, so a round's ratio varies less than its
        times.

        Raises ValueError: figure and baseline come from different numbers of rounds.
        """
        if not self.baseline:
            return None
        pairs = zip(self.samples, self.baseline, strict=True)
        return statistics.median(sample / floor for sample, floor in pairs)

    @property
    def is_over(self) -> bool:
        """Return whether the figure is out of its budget; so is one that cannot be compared."""
        value = self.ratio if self.budget_key in OF_RATIO else self.measured
        return bool(self.budget_key) and (value is None or value > BUDGETS[self.budget_key])

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the cells of its line, in the order of `COLUMNS`."""
        baseline = f"{_show(statistics.median(self.baseline))} {self.unit}" if self.baseline else ""
        ratio = f"{self.ratio:.2f}x" if self.ratio else ""
        unit = "x" if self.budget_key in OF_RATIO else f" {self.unit}"
        limit = f"≤ {BUDGETS[self.budget_key]:g}{unit}" if self.budget_key else ""
        return self.what, f"{_show(self.measured)} {self.unit}", baseline, ratio, limit


def compare(
    section: str,
    what: str,
    unit: str,
    read: Callable[[T], float],
    runs: Iterable[T],
    *,
    floor: Iterable[T] = (),
    budget: str = "",
) -> Figure:
    """Return what is read of some runs, beside the same of those that they are compared with."""
    samples, baseline = (tuple(float(read(run)) for run in each) for each in (runs, floor))
    return Figure(section=section, what=what, unit=unit, samples=samples, baseline=baseline, budget_key=budget)


def percentile(samples: Sequence[float], percent: float) -> float:
    """Return the smallest sample that `percent` of all samples do not exceed (nearest rank)."""
    return sorted(samples)[math.ceil(len(samples) * percent / 100) - 1]


def describe_run(*, quick: bool) -> str:
    """Return when and on what the run took place; a busy machine makes times longer."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    machine = f"{cores} shared cores (load {load:.1f}), {platform.system()} {platform.machine()}"
    return f"{day}, {machine}, Python {platform.python_version()}, {'quick' if quick else 'full'} run"


def build_table(figures: Sequence[Figure], title: str) -> Table:
    """Return the table, one section per subject; what is out of its budget is red."""
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column(COLUMNS[0], min_width=40)
    for column in COLUMNS[1:]:
        table.add_column(column, justify="right", no_wrap=True)
    for section, rows in groupby(figures, attrgetter("section")):
        table.add_section()
        table.add_row(f"[bold]{escape(section)}[/bold]")
        for figure in rows:
            table.add_row(*(escape(cell) for cell in figure.cells), style="bold red" if figure.is_over else "")
    return table


def write_json(figures: Sequence[Figure], title: str, path: Path) -> None:
    """Write every figure with its samples."""
    rows = [asdict(each) | {"measured": each.measured, "ratio": each.ratio} for each in figures]
    path.write_text(json.dumps({"run": title, "figures": rows}, indent=2) + "\n")


def _show(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
