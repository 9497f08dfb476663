"""The budgets, as data, and the one rule that turns a figure into a verdict.

A budget belongs to a figure by its key. What is measured, and how, stands in the modules that
measure.
"""

from dataclasses import dataclass
from enum import StrEnum


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
