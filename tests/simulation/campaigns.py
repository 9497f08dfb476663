"""Runs the scenarios of many seeds on all cores, and makes a failing one short."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tests.simulation.sim_functions import prepared
from tests.simulation.sim_run import run_scenario
from tests.simulation.sim_scenario import PARTS, Scenario, Violation
from tests.simulation.sim_scenarios import make_scenario

CHUNK = 250
NOTHING = "nothing is violated"
NAMES = re.compile(r"[a-z0-9-]+-[a-z2-7]{11}-\w+|\bw\d\S*|team-pool\S*|\d+")
"""Names and numbers, which differ from scenario to scenario."""


@dataclass(slots=True)
class Figures:
    scenarios: int = 0
    seconds: float = 0.0  # of all processes together
    counts: Counter[str] = field(default_factory=Counter)
    violated: dict[str, list[int]] = field(default_factory=dict)  # seeds by what is violated

    def add(self, other: Figures) -> None:
        self.scenarios += other.scenarios
        self.seconds += other.seconds
        self.counts.update(other.counts)
        for name, seeds in other.violated.items():
            self.violated.setdefault(name, []).extend(seeds)


def list_violated(violations: list[Violation]) -> list[str]:
    """Return violations without names and numbers, to count alike ones together."""
    return list(dict.fromkeys(f"{each.invariant}: {NAMES.sub('#', each.text)}" for each in violations))


def run_seeds(seeds: range) -> Figures:
    figures, began = Figures(scenarios=len(seeds)), time.process_time()
    with prepared():
        for seed in seeds:
            result = run_scenario(make_scenario(seed))
            figures.counts.update(result.figures)
            for name in list_violated(result.violations):
                figures.violated.setdefault(name, []).append(seed)
    figures.seconds = time.process_time() - began
    return figures


def run_campaign(seeds: range, processes: int | None = None) -> Iterator[Figures]:
    """Run the scenarios of many seeds in several processes; yield what all show after each step."""
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    figures = Figures()
    with ProcessPoolExecutor(processes or os.cpu_count() or 1) as pool:
        for each in pool.map(run_seeds, chunks):
            figures.add(each)
            yield figures


def tell_scenario(seed: int, *, short: bool = True) -> list[str]:
    """Return the scenario of a seed for a person, made short around its first violation."""
    scenario = make_scenario(seed)

    def list_names(each: Scenario) -> list[str]:
        return list_violated(run_scenario(each).violations)

    with prepared():
        wanted = list_names(scenario)[:1] if short else []
        if wanted:
            scenario = shrink(scenario, lambda each: wanted[0] in list_names(each))
        result = run_scenario(scenario, tell=True)
    verdict = [f"  {violation}" for violation in result.violations] or [f"  {NOTHING}"]
    return [*scenario.describe(), "", "what happened:", *result.lines, "", "violations:", *verdict]


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    """Return a scenario that still fails in the same way, of which nothing more can be left out."""
    while (shorter := next(filter(fails, _list_shorter(scenario)), None)) is not None:
        scenario = shorter
    return scenario


def _list_shorter(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario without one of its parts, large parts first."""
    for each in fields(Scenario):
        if each.name not in ("seed", *PARTS) and getattr(scenario, each.name) != each.default:
            plain: dict[str, Any] = {each.name: each.default}
            yield replace(scenario, **plain)
    for key in PARTS:
        rows = getattr(scenario, key)
        for index in range(len(rows)):
            shorter: dict[str, Any] = {key: rows[:index] + rows[index + 1 :]}
            yield replace(scenario, **shorter)
    for index, act in enumerate(scenario.acts):
        if act.verb == "create" and act.count > 1:
            fewer = replace(act, count=act.count - 1)
            yield replace(scenario, acts=[*scenario.acts[:index], fewer, *scenario.acts[index + 1 :]])
