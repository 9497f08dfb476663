"""Makes a failing scenario short: leaves out acts, faults, ticks and settings."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from tests.simulation.sim_scenario import PARTS, Scenario


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    """Return a scenario that still fails in the same way, of which nothing more can be left out."""
    while (shorter := next(filter(fails, _list_shorter(scenario)), None)) is not None:
        scenario = shorter
    return scenario


def _list_shorter(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario without one of its parts, large parts first."""
    for field in fields(Scenario):
        if field.name not in ("seed", *PARTS) and getattr(scenario, field.name) != field.default:
            plain: dict[str, Any] = {field.name: field.default}
            yield replace(scenario, **plain)
    for key in PARTS:
        rows = getattr(scenario, key)
        for index in range(len(rows)):
            shorter: dict[str, Any] = {key: rows[:index] + rows[index + 1 :]}
            yield replace(scenario, **shorter)
    for index, act in enumerate(scenario.acts):
        if act.verb == "create" and act.count > 1:
            fewer = replace(act, count=act.count - 1)
            yield replace(scenario, acts=(*scenario.acts[:index], fewer, *scenario.acts[index + 1 :]))
