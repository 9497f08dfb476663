"""Figures beside baselines and budgets, and how they are shown: a table, or JSON.

A figure is the median of its samples. A budget belongs to a figure by its key.
"""

import json
import math
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from rich.console import JustifyMethod
from rich.markup import escape
from rich.table import Table


class Verdict(StrEnum):
    """How a figure stands against its budget."""

    IN_STRETCH = "in stretch"
    IN_BUDGET = "in budget"
    OUT_OF_BUDGET = "OUT OF BUDGET"
    COMPARISON = "-"
    """Measured for comparison only; it has no budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that a figure may be; less is always better."""

    limit: float
    stretch: float | None = None
    of_ratio: bool = False
    """Whether the limit holds for the ratio to the baseline instead of the figure itself."""

    def judge(self, value: float) -> Verdict:
        """Return the verdict on a figure (or on its ratio, if the limit is one)."""
        if self.stretch is not None and value <= self.stretch:
            return Verdict.IN_STRETCH
        return Verdict.IN_BUDGET if value <= self.limit else Verdict.OUT_OF_BUDGET


BUDGETS: dict[str, Budget] = {
    "cold_start": Budget(limit=3.9, stretch=2.5, of_ratio=True),
    "function_memory": Budget(limit=90, stretch=80),
    # REST of our own took 4.2 times the CloudEvent (docs/decisions/clients.md).
    "warm_event": Budget(limit=7.5, stretch=6.5, of_ratio=True),
    "exporter_memory": Budget(limit=90, stretch=80),
    "exporter_growth": Budget(limit=10),
    "exporter_sync": Budget(limit=5),
    "exporter_latency_p50": Budget(limit=10),
    "exporter_latency_p99": Budget(limit=20),
    "tick_seconds": Budget(limit=55),
}


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the report."""

    section: str
    what: str
    unit: str
    samples: tuple[float, ...]
    """The figure is their median."""
    baseline: tuple[float, ...] = ()
    """Samples of what it is compared with, from the same run; empty if it is not compared."""
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
    def baseline_median(self) -> float | None:
        """Return the median of the baseline, if there is one."""
        return statistics.median(self.baseline) if self.baseline else None

    @property
    def budget(self) -> Budget | None:
        """Return the budget, if the figure has one."""
        return BUDGETS[self.budget_key] if self.budget_key else None

    @property
    def verdict(self) -> Verdict:
        """Return how the figure stands against its budget.

        Raises ValueError: the budget is one of a ratio and the figure has no baseline.
        """
        if self.budget is None:
            return Verdict.COMPARISON
        value = self.ratio if self.budget.of_ratio else self.measured
        if value is None:
            raise ValueError(f"{self.what}: its budget is a ratio, so it needs a baseline")
        return self.budget.judge(value)


def compare(
    section: str,
    what: str,
    unit: str,
    read: Callable[[T], float],
    runs: Iterable[T],
    floor: Iterable[T] = (),
    budget_key: str = "",
) -> Figure:
    """Return what is read of some runs, beside the same of those that they are compared with."""
    samples, baseline = (tuple(float(read(run)) for run in each) for each in (runs, floor))
    return Figure(section=section, what=what, unit=unit, samples=samples, baseline=baseline, budget_key=budget_key)


def percentile(samples: Sequence[float], percent: float) -> float:
    """Return the smallest sample that `percent` of all samples do not exceed (nearest rank).

    Raises ValueError: there are no samples, or `percent` is not in (0, 100].
    """
    if not samples or not 0 < percent <= 100:
        raise ValueError(f"percentile {percent} of {len(samples)} samples; valid: (0, 100] of at least one")
    return sorted(samples)[math.ceil(len(samples) * percent / 100) - 1]


COLUMNS = ("what", "measured", "baseline", "ratio", "budget", "stretch", "verdict")
_STYLES = {Verdict.IN_STRETCH: "green", Verdict.IN_BUDGET: "green", Verdict.OUT_OF_BUDGET: "bold red"}


def describe_run(*, quick: bool) -> str:
    """Return when and on what the run took place."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    cores = len(os.sched_getaffinity(0))
    runs = "quick run" if quick else "full run"
    machine = f"{cores} shared cores, {platform.system()} {platform.machine()}"
    return f"{day}, {machine}, Python {platform.python_version()}, {runs}"


def build_table(figures: Sequence[Figure], title: str) -> Table:
    """Return the table, one section per subject."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for column in COLUMNS:
        justify: JustifyMethod = "left" if column in ("what", "verdict") else "right"
        table.add_column(
            column, justify=justify, no_wrap=column != "what", min_width=40 if column == "what" else None
        )
    for section, found in groupby(figures, attrgetter("section")):
        table.add_section()
        table.add_row(f"[bold]{escape(section)}[/bold]")
        for figure in found:
            style = _STYLES.get(figure.verdict, "")
            table.add_row(*(escape(cell) for cell in row_of(figure)), style=style)
    return table


def write_json(figures: Sequence[Figure], title: str, path: Path) -> None:
    """Write every figure with its samples."""
    path.write_text(json.dumps({"run": title, "figures": [_facts(each) for each in figures]}, indent=2) + "\n")


def row_of(figure: Figure) -> tuple[str, ...]:
    """Return the cells of one line, in the order of `COLUMNS`."""
    budget = figure.budget
    unit = "x" if budget and budget.of_ratio else f" {figure.unit}"
    baseline = figure.baseline_median
    return (
        figure.what,
        f"{_shown(figure.measured)} {figure.unit}",
        f"{_shown(baseline)} {figure.unit}" if baseline else "",
        f"{figure.ratio:.2f}x" if figure.ratio else "",
        f"≤ {budget.limit:g}{unit}" if budget else "",
        f"≤ {budget.stretch:g}{unit}" if budget and budget.stretch is not None else "",
        str(figure.verdict),
    )


def _shown(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _facts(figure: Figure) -> dict[str, Any]:
    return {
        "section": figure.section,
        "what": figure.what,
        "unit": figure.unit,
        "measured": figure.measured,
        "samples": figure.samples,
        "baseline": figure.baseline,
        "ratio": figure.ratio,
        "budget": figure.budget_key or None,
        "verdict": str(figure.verdict),
    }
