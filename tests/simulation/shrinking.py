"""Makes a failing scenario short: leaves out acts, faults, ticks and settings."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.simulation.sim_run import run_scenario
from tests.simulation.sim_scenario import Scenario, Violation

PLAIN = (
    {"clusters": 1},
    {"mode": "active"},
    {"cap": 50},
    {"limit_chips": 0},
    {"stock": ()},
    {"tiers": ()},
    {"candidates": 0},
    {"idle_seconds": 0},
    {"rollouts": ()},
    {"collect_settings": 0},
    {"collect_release": 0},
    {"latency_seconds": 0.4},
    {"operation_slots": 0},
    {"quota_pods": 0},
    {"skew_seconds": 0.0},
)


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    """Return a scenario that still fails in the same way, of which nothing more can be left out."""
    shorter = True
    while shorter:
        shorter = False
        for candidate in _list_shorter(scenario):
            if fails(candidate):
                scenario, shorter = candidate, True
                break
    return scenario


def shrink_violation(scenario: Scenario, violation: Violation, name: Callable[[Violation], str]) -> Scenario:
    """Return a short scenario with a violation of the same name."""
    wanted = name(violation)
    return shrink(scenario, lambda each: any(name(found) == wanted for found in run_scenario(each).violations))


def _list_shorter(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario without one of its parts, large parts first."""
    for values in PLAIN:
        if any(getattr(scenario, key) != value for key, value in values.items()):
            yield replace(scenario, **values)
    for key in ("acts", "faults", "stock", "rollouts", "ticks"):
        rows = getattr(scenario, key)
        for index in range(len(rows)):
            changed: dict[str, Any] = {key: rows[:index] + rows[index + 1 :]}
            yield replace(scenario, **changed)
    for index, act in enumerate(scenario.acts):
        if act.verb == "create" and act.count > 1:
            fewer = replace(act, count=act.count - 1)
            yield replace(scenario, acts=(*scenario.acts[:index], fewer, *scenario.acts[index + 1 :]))
