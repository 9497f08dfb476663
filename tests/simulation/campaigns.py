"""Runs the scenarios of many seeds on all cores, and adds up what they show."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from tests.simulation.shrinking import shrink_violation
from tests.simulation.sim_functions import prepared
from tests.simulation.sim_run import run_scenario
from tests.simulation.sim_scenario import Violation
from tests.simulation.sim_scenarios import make_scenario

CHUNK = 250
NOTHING = "nothing is violated"
NAMES = re.compile(r"[a-z0-9-]+-[a-z2-7]{11}-\w+|\bw\d\S*|team-pool\S*|\d+")
"""Names and numbers, which differ from scenario to scenario."""


@dataclass(slots=True)
class Figures:
    """What the scenarios of some seeds show."""

    scenarios: int = 0
    seconds: float = 0.0  # of all processes together
    counts: Counter[str] = field(default_factory=Counter)
    violated: dict[str, list[int]] = field(default_factory=dict)  # seeds by what is violated

    def add(self, other: Figures) -> None:
        """Take in what other seeds show."""
        self.scenarios += other.scenarios
        self.seconds += other.seconds
        self.counts.update(other.counts)
        for name, seeds in other.violated.items():
            self.violated.setdefault(name, []).extend(seeds)


def generalise(violation: Violation) -> str:
    """Return a violation without names and numbers, to count alike ones together."""
    return f"{violation.invariant}: {NAMES.sub('#', violation.text)}"


def run_seeds(seeds: range) -> Figures:
    """Run the scenarios of some seeds in this process."""
    figures, began = Figures(), time.process_time()
    with prepared():
        for seed in seeds:
            result = run_scenario(make_scenario(seed))
            figures.scenarios += 1
            figures.counts.update(result.figures)
            for violation in result.violations:
                if seed not in figures.violated.setdefault(generalise(violation), []):
                    figures.violated[generalise(violation)].append(seed)
    figures.seconds = time.process_time() - began
    return figures


def run_campaign(seeds: range, note: Callable[[Figures], None], processes: int | None = None) -> Figures:
    """Run the scenarios of many seeds in several processes; `note` hears of each step."""
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    figures = Figures()
    with ProcessPoolExecutor(processes or os.cpu_count() or 1) as pool:
        for found in pool.map(run_seeds, chunks):
            figures.add(found)
            note(figures)
    return figures


def tell_scenario(seed: int, *, short: bool = True) -> list[str]:
    """Return the scenario of a seed for a person, made short around its first violation."""
    scenario = make_scenario(seed)
    with prepared():
        found = run_scenario(scenario).violations
        if found and short:
            scenario = shrink_violation(scenario, found[0], generalise)
        result = run_scenario(scenario, tell=True)
    verdict = [f"  {violation}" for violation in result.violations] or [f"  {NOTHING}"]
    return [*scenario.describe(), "", "what happened:", *result.lines, "", "violations:", *verdict]
