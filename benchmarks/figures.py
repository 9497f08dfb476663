"""One measured figure beside its baseline and its budget; medians and percentiles of samples."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.budgets import BUDGETS, Budget, Verdict

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
