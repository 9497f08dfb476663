"""What scarce capacity costs, in the simulator's virtual time: three ways to get it, side by side.

All sides live through the same scarcity: three zones, whose room for hosts changes at random
moments, and a JobSet of four slices that needs all of them. The loop is our own code with one zone
and without pauses, which is what a retry of one node pool does.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from random import Random

from benchmarks import stockouts
from benchmarks.figures import Figure, compare
from benchmarks.scarce_world import CREATION, LOOP, THIS, Side, Slices, scarce
from tests.simulation.sim_functions import prepared
from tests.simulation.sim_scenario import Stock

SECTION = "scarcity: four slices, three zones, virtual time"
SLICES, HOSTS, HOURS = 4, 2, 6
_WAITING = Slices(name="train", zones="abc", slices=SLICES)
_LINES = (
    ("time to the first running slice", "min", "first"),
    (f"time until all run, at most {HOURS} h", "min", "whole"),
    ("paid for while not all run", "chip-hours", "chip_hours"),
    ("creates", "", "creates"),
    ("places held by creates, in sum", "min", "held"),
    ("places held by creates, the most at one time", "", "places"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """What one scarcity cost; times in minutes, at most `HOURS`."""

    first: float
    """Until the pods of one slice run."""
    whole: float
    """Until all pods run."""
    chip_hours: float
    """Of all nodes, while not all pods run."""
    creates: int
    held: float
    """Of all operations that create a pool, in sum."""
    places: int
    """The most such operations at one time."""
    operation_seconds_max: float
    both_seconds: float
    """The longest time for which two pools of one slice had nodes."""


def measure(runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Return what this version costs beside each other side, and what one stockout costs."""
    with prepared():
        lived = {}
        for side in (THIS, CREATION, LOOP):
            say(f"scarce capacity: {side.name}")
            lived[side.name] = [live_scarcity(seed, side) for seed in range(runs)]
        figures = [
            replace(
                compare(f"{SECTION}; the baseline is {name}", what, unit, attrgetter(field), lived[THIS.name]),
                # A ratio to nothing says nothing.
                baseline=tuple(max(getattr(each, field), 0.1) for each in others),
            )
            for name, others in lived.items()
            if name != THIS.name
            for what, unit, field in _LINES
        ]
        return [*figures, *stockouts.measure(min(runs, 5), say)]


def make_stock(seed: int) -> tuple[Stock, ...]:
    """Return one scarcity: rooms of three zones that change at random moments."""
    rng, rows = Random(f"scarcity {seed}"), []
    for zone in _WAITING.zones:
        at = 0.0
        while at < HOURS * 3600:
            rows.append(Stock(at, zone, rng.choice((0, 0, 0, HOSTS, 2 * HOSTS, SLICES * HOSTS))))
            at += rng.expovariate(1 / 3600)
    return tuple(sorted(rows, key=lambda row: row.at))


def live_scarcity(seed: int, side: Side) -> Lived:
    """Return what one scarcity costs. The process must be prepared."""
    with scarce(seed, (_WAITING,), make_stock(seed), side, hours=HOURS) as scarcity:
        whole = scarcity.wait_for(("train0",), hours=HOURS)
        made, longest = scarcity.list_creations(), HOURS * 60.0
        moments = sorted(itertools.chain(((begin, 1) for begin, _ in made), ((end, -1) for _, end in made)))
        return Lived(
            first=min(scarcity.find_first_run(), longest),
            whole=min(whole, longest),
            chip_hours=scarcity.idle_chip_seconds / 3600,
            creates=len(made),
            held=sum(end - begin for begin, end in made) / 60,
            places=max(itertools.accumulate(change for _, change in moments)),
            operation_seconds_max=max(end - begin for begin, end in made),
            both_seconds=scarcity.both_seconds,
        )
