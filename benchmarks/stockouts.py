"""What one stockout costs: five ways of which only the last has room, and 64 slices beside a 65th.

The pools are once filled by the autoscaler, as this version does it where there is another way, and
once created with their nodes. All times are virtual.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from benchmarks.figures import Figure, compare
from benchmarks.scarce_world import CREATION, THIS, Side, Slices, scarce
from tests.simulation.sim_scenario import START, Stock

FIVE = "five ways, capacity in the fifth; the baseline has nodesFrom creation"
CROWD = "64 slices in a stockout, and a 65th in another zone"
SLICES, HOURS = 64, 8
CROWDS = 3
"""The most seeds with 64 slices, of which some take half a minute of CPU."""
WATCH_SECONDS = 1800.0
"""So long the world is watched after the pods run."""
_WAITING = Slices(name="train", zones="abcde")
_DRY = tuple(Stock(0.0, zone, 0) for zone in "abcd")
_CASES = (
    ("with lists, filled by the autoscaler", "abc", "e", THIS),
    ("the same, and the 65th has a list too", "abc", "de", THIS),
    ("with lists, nodesFrom creation", "abc", "e", CREATION),
    ("without a list", "a", "e", THIS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FiveWays:
    """What became of a slice with five ways, of which only the fifth has room."""

    minutes: float
    """From the first pod that waits until all pods run."""
    creates: int
    operation_seconds: float
    """The longest creation."""
    both_seconds: float
    """The longest time for which two pools of the slice had nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowded:
    """What became of a slice that came after 64 others."""

    accepted: float
    """Minutes from the first wait until GKE accepts its pool; infinity if it does not."""
    runs: float
    """Minutes until its pods run."""


def measure(runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Return the figures of both, of so many seeds. The process must be prepared."""
    say("five ways, capacity in the fifth")
    ours, others = ([live_five_ways(seed, side) for seed in range(runs)] for side in (THIS, CREATION))
    lines = (
        ("from the first wait until the pods run", "min", "minutes"),
        ("the longest creation", "s", "operation_seconds"),
        ("creates", "", "creates"),
        ("two pools of the slice have nodes, at most", "s", "both_seconds"),
    )
    figures = [
        compare(FIVE, what, unit, attrgetter(name), ours, others if name != "both_seconds" else ())
        for what, unit, name in lines
    ]
    for how, zones, own, side in _CASES:
        say(f"{CROWD}: {how}")
        crowds = [live_crowded(seed, zones, side, own=own) for seed in range(min(runs, CROWDS))]
        for what, name in (("GKE accepts its pool after", "accepted"), ("its pods run after", "runs")):
            samples = tuple(min(getattr(each, name), HOURS * 60.0) for each in crowds)
            figures.append(Figure(section=CROWD, what=f"{how}: {what}", unit="min", samples=samples))
    return figures


def live_five_ways(seed: int, side: Side, *, exporter: bool = True) -> FiveWays:
    """Return what becomes of a slice with five ways."""
    with scarce(seed, (_WAITING,), _DRY, side, hours=HOURS, exporter=exporter) as scarcity:
        minutes = scarcity.wait_for(("train0",), hours=HOURS)
        scarcity.watch(WATCH_SECONDS)
        made = scarcity.list_creations()
        return FiveWays(
            minutes=minutes,
            creates=len(made),
            operation_seconds=max(end - begin for begin, end in made),
            both_seconds=scarcity.both_seconds,
        )


def live_crowded(
    seed: int, zones: str, side: Side, *, own: str = "e", later: float = 300.0, hours: float = HOURS
) -> Crowded:
    """Return what becomes of a slice that comes after 64 others.

    Args:
        seed: of everything that is random.
        zones: the ways of the 64, none of which has room.
        side: who provisions.
        own: the ways of the slice, each of which has room.
        later: the seconds after which it comes.
        hours: how long its pods are waited for.
    """
    crowd = Slices(name="crowd", zones=zones, count=SLICES)
    other = Slices(name="other", shape="two-other", accelerator="tpu-v6e-slice", zones=own, at=later)
    stock = tuple(Stock(0.0, zone, 0) for zone in zones)
    with scarce(seed, (crowd, other), stock, side, hours=hours) as scarcity:
        runs, made = scarcity.wait_for(("other0",), hours=hours), scarcity.list_creations("other0")
        return Crowded(accepted=(made[0][0] - START - later) / 60 if made else math.inf, runs=runs)
