"""Shows the figures: a table on the terminal, the same as Markdown, and all samples as JSON."""

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from rich.console import JustifyMethod
from rich.markup import escape
from rich.table import Table

from benchmarks.budgets import Verdict
from benchmarks.figures import Figure

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


def write_markdown(figures: Sequence[Figure], title: str, path: Path) -> None:
    """Write the table as Markdown."""
    lines = [title, ""]
    for section, found in groupby(figures, attrgetter("section")):
        lines += ["", f"**{section}**", "", "| " + " | ".join(COLUMNS) + " |", "|---|" + "---:|" * 5 + "---|"]
        lines += ["| " + " | ".join(row_of(figure)) + " |" for figure in found]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


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
