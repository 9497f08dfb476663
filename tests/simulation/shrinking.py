"""Makes a failing story short: leaves out acts, faults, sweeps and settings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.simulation.sim_run import run_story

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.sim_judge import Violation
    from tests.simulation.sim_story import Story

PLAIN = (
    {"clusters": 1},
    {"mode": "active"},
    {"cap": 50},
    {"limit_chips": 0},
    {"stock": ()},
    {"sources": ()},
    {"autoscaled_max": 150},
    {"candidates": 0},
    {"idle_seconds": 0},
    {"release_seconds": 0},
    {"versions": 1},
    {"skew_seconds": 0.0},
)


def shrink(story: Story, fails: Callable[[Story], bool]) -> Story:
    """Return a story that still fails, of which nothing more can be left out.

    Args:
        story: one that fails.
        fails: whether a story fails in the same way.
    """
    shorter = True
    while shorter:
        shorter = False
        for candidate in _list_shorter(story):
            if fails(candidate):
                story, shorter = candidate, True
                break
    return story


def shrink_violation(story: Story, violation: Violation, name: Callable[[Violation], str]) -> Story:
    """Return a short story with a violation of the same name."""
    wanted = name(violation)
    return shrink(story, lambda each: any(name(found) == wanted for found in run_story(each).violations))


def _list_shorter(story: Story) -> Iterator[Story]:
    """Yield the story without one of its parts, large parts first."""
    for values in PLAIN:
        if any(getattr(story, key) != value for key, value in values.items()):
            yield replace(story, **values)
    for index in range(len(story.acts)):
        yield replace(story, acts=story.acts[:index] + story.acts[index + 1 :])
    for index in range(len(story.faults)):
        yield replace(story, faults=story.faults[:index] + story.faults[index + 1 :])
    for index in range(len(story.stock)):
        yield replace(story, stock=story.stock[:index] + story.stock[index + 1 :])
    for index in range(len(story.sweeps)):
        yield replace(story, sweeps=story.sweeps[:index] + story.sweeps[index + 1 :])
    for index, act in enumerate(story.acts):
        if act.verb == "create" and act.count > 1:
            fewer = replace(act, count=act.count - 1)
            yield replace(story, acts=(*story.acts[:index], fewer, *story.acts[index + 1 :]))
