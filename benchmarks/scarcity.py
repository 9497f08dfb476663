"""What scarce capacity costs, in the simulator's virtual time: four ways to get it, side by side.

All sides live through the same scarcity: three zones, whose room for hosts changes at random
moments, and a JobSet of four slices that needs all of them. The loop is our own code with one zone
and without pauses, which is what a retry of one node pool does.
"""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING

from benchmarks import stockouts
from benchmarks.compute_class import COMPUTE_CLASS, live_with
from benchmarks.figures import Figure
from benchmarks.scarce_world import CREATION, LOOP, THIS, Side, Slices, scarce
from tests.simulation.sim_process import prepared
from tests.simulation.sim_story import Stock

if TYPE_CHECKING:
    from collections.abc import Callable

SECTION = "scarcity: four slices, three zones, virtual time"
SLICES, HOSTS, HOURS = 4, 2, 6
_WAITING = Slices(name="train", zones="abc", slices=SLICES)
_LINES = (
    ("time to the first running slice", "min"),
    (f"time until all run, at most {HOURS} h", "min"),
    ("paid for while not all run", "chip-hours"),
    ("creates", ""),
    ("places held by creates, in sum", "min"),
    ("places held by creates, the most at one time", ""),
)


def measure(runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Return what this version costs beside each other side, and what one stockout costs.

    Args:
        runs: scarcities.
        say: told what is being measured.
    """
    with prepared():
        lived = {}
        for side in (THIS, CREATION, LOOP, COMPUTE_CLASS):
            say(f"scarce capacity: {side.name}")
            lived[side.name] = [_live(seed, side) for seed in range(runs)]
        figures = [
            Figure(
                section=f"{SECTION}; the baseline is {name}",
                what=what,
                unit=unit,
                samples=tuple(each[index] for each in lived[THIS.name]),
                baseline=tuple(max(each[index], 0.1) for each in others),  # a ratio to nothing says nothing
            )
            for name, others in lived.items()
            if name != THIS.name
            for index, (what, unit) in enumerate(_LINES)
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


def _live(seed: int, side: Side) -> tuple[float, ...]:
    """Return what `_LINES` has, of one scarcity."""
    with scarce(seed, (_WAITING,), make_stock(seed), side, hours=HOURS) as scarcity:
        if side is COMPUTE_CLASS:
            live_with(scarcity)
        whole = scarcity.wait_for(("train0",), hours=HOURS)
        made, longest = scarcity.list_creations(), HOURS * 60.0
        moments = sorted(itertools.chain(((begin, 1) for begin, _ in made), ((end, -1) for _, end in made)))
        return (
            min(scarcity.find_first_run(), longest),
            min(whole, longest),
            scarcity.idle_chip_seconds / 3600,
            float(len(made)),
            sum(end - begin for begin, end in made) / 60,
            float(max(itertools.accumulate(change for _, change in moments), default=0)),
        )
