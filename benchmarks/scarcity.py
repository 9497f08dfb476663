"""What scarce capacity costs: a list of capacity against a loop that retries one offering.

Both sides live through the same scarcity in the simulator's virtual time: three zones, whose room
for hosts changes at random moments, and a JobSet of four slices that needs all of them. The loop is
our own code with one zone and without pauses, which is what a retry of one node pool does.
"""

from __future__ import annotations

import functools
import math
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import patch

from benchmarks.figures import Figure
from shared.core.decide import attempts
from tests.simulation.sim_acts import apply_act
from tests.simulation.sim_process import prepared
from tests.simulation.sim_story import START, Act, Stock, Story
from tests.simulation.sim_world import World

if TYPE_CHECKING:
    from collections.abc import Callable

SECTION = "scarcity: four slices, three zones, virtual time"
SLICES, HOSTS, HOURS = 4, 2, 6
STEP_SECONDS = 60
_LIST, _LOOP = 3, 1
"""How many zones each side tries; the loop's one is the first of the list."""
Lived = tuple[float, float, float, float]


def measure(runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Return what the list costs, beside the loop.

    Args:
        runs: scarcities.
        say: told what is being measured.
    """
    say("scarce capacity")
    with prepared():
        ours = [_live(seed, _LIST) for seed in range(runs)]
        with patch.object(attempts, "find_pause", lambda *_: 0.0):
            loop = [_live(seed, _LOOP) for seed in range(runs)]
    lines = (
        ("time to the first running slice", "min"),
        (f"time until all run, at most {HOURS} h", "min"),
        ("paid for while not all run", "chip-hours"),
        ("creates", ""),
    )
    return [
        Figure(
            section=SECTION,
            what=what,
            unit=unit,
            samples=tuple(each[index] for each in ours),
            baseline=tuple(max(each[index], 0.1) for each in loop),  # a ratio to nothing says nothing
        )
        for index, (what, unit) in enumerate(lines)
    ]


def make_scarcity(seed: int, candidates: int) -> Story:
    """Return one scarcity: rooms of three zones that change at random moments."""
    rng, rows = Random(f"scarcity {seed}"), []
    for zone in "abc":
        at = 0.0
        while at < HOURS * 3600:
            rows.append(Stock(at, zone, rng.choice((0, 0, 0, HOSTS, 2 * HOSTS, SLICES * HOSTS))))
            at += rng.expovariate(1 / 3600)
    act = Act(1.0, "create", 0, "train", "JobSet", "two", SLICES)
    sweeps = tuple(float(each) for each in range(60, HOURS * 3600, 60))
    return Story(
        seed, (act,), (), sweeps, stock=tuple(sorted(rows, key=lambda row: row.at)), candidates=candidates
    )


def _live(seed: int, candidates: int) -> Lived:
    """Return minutes to the first slice and to all, idle chip-hours before that, and creates."""
    story = make_scarcity(seed, candidates)
    world = World(story)
    first = whole = math.inf
    chip_seconds = 0.0
    for act in story.acts:
        world.time.at(START + act.at, functools.partial(apply_act, world, act))
    for at in story.sweeps:
        world.time.at(START + at, world.sweep)
    try:
        for now in range(0, HOURS * 3600, STEP_SECONDS):
            world.time.run_until(START + now)
            running, chips = _count(world)
            first = min(first, now) if running else first
            if running == SLICES:
                whole = now
                break
            chip_seconds += chips * STEP_SECONDS
    finally:
        world.time.close()
    longest = HOURS * 60.0
    return min(first / 60, longest), min(whole / 60, longest), chip_seconds / 3600, float(world.judge.creates)


def _count(world: World) -> tuple[int, int]:
    """Return how many slices run with all of their pods, and how many chips the nodes have."""
    (cluster,) = world.clusters.values()
    placed: dict[str, int] = {}
    for pod in cluster.pods.values():
        placed[pod.plan.slice_name] = placed.get(pod.plan.slice_name, 0) + (pod.node is not None)
    return sum(count >= HOSTS for count in placed.values()), sum(node.units for node in cluster.nodes.values())
