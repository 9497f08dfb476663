"""What scarce capacity costs, in the simulator's virtual time: three ways to get it.

All sides live through the same scarcity: three zones, whose room for hosts changes at random
moments, and a JobSet of four slices that needs all of them. The loop is our own code with one zone
and without pauses, which is what a retry of one node pool does. The times are those of the
simulator, which has GKE's: a creation with nodes tries for 35 minutes, an empty pool is there after
22 s, and the autoscaler looks every 10 s.
"""

import functools
import itertools
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from operator import attrgetter
from random import Random
from unittest.mock import patch

from msgspec import structs

from benchmarks.figures import Figure, compare
from shared.capacity_texts import CapacityPolicy
from shared.engine.budget import open_books
from shared.model.needs import NodeSource, Tier, Way
from shared.plan import attempts
from tests.simulation.sim_acts import apply_act
from tests.simulation.sim_functions import prepared
from tests.simulation.sim_scenarios import START, Act, Scenario, Stock
from tests.simulation.sim_world import World

SECTION = "scarcity: four slices, three zones, virtual time"
SLICES, HOSTS, HOURS = 4, 2, 6
REGION, ZONES, ACCELERATOR = "us-east5", "abc", "tpu-v4-podslice"
PLACES = 20
"""So many operations of a cluster are under way at one time; GKE answers the next request with 429.
GKE does not publish the number: it created 21 pools at one time and failed with 30."""
STEP_SECONDS = 5.0  # between two looks at the world
_LINES = (
    ("time to the first running slice", "min", "first"),
    (f"time until all run, at most {HOURS} h", "min", "whole"),
    ("paid for while not all run", "chip-hours", "chip_hours"),
    ("creates", "", "creates"),
    ("operation slots held by creates, in sum", "min", "held"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Who provisions."""

    name: str
    ways_max: int = len(ZONES)  # how many ways of the list it knows, from the first on
    nodes_from: NodeSource | None = None
    pauses: bool = True  # whether a pause follows a round


THIS = Side(name="this version")
CREATION = Side(name="nodesFrom creation", nodes_from=NodeSource.CREATION)
LOOP = Side(name="a loop that retries the first way", ways_max=1, pauses=False)


@dataclass(slots=True, kw_only=True)
class Lived:
    """What one scarcity cost; times in minutes, at most `HOURS`."""

    first: float = HOURS * 60.0  # until the pods of one slice run
    whole: float = HOURS * 60.0  # until all pods run
    chip_hours: float = 0.0  # of all nodes, while not all pods run
    creates: int = 0
    held: float = 0.0  # of all operations that create a pool, in sum

    def wait(self, world: World) -> None:
        """Let time pass until all pods run, and note what that costs."""
        time, (cluster,) = world.time, world.clusters.values()
        while time.now < START + HOURS * 3600:
            time.run_until(time.now + STEP_SECONDS)
            self.chip_hours += STEP_SECONDS * sum(node.units for node in cluster.nodes.values()) / 3600
            pods = list(cluster.pods.values())
            waiting = {pod.plan.slice_name for pod in pods if pod.node is None}
            minutes = (time.now - START) / 60
            if any(pod.plan.slice_name not in waiting for pod in pods):
                self.first = min(self.first, minutes)
            if pods and not waiting:
                self.whole = minutes
                return

    def count_creates(self, world: World) -> None:
        """Note the operations that created pools, and for how long they held their slots."""
        operations = itertools.chain.from_iterable(world.gke.operations.values())
        for each in operations:
            if each.creates:
                self.creates += 1
                self.held += ((each.ended_at or world.time.now) - (each.began_at or START)) / 60


def measure(runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Return what this version costs beside each other side."""
    with prepared():
        lived = {}
        for side in (THIS, CREATION, LOOP):
            say(f"scarce capacity: {side.name}")
            lived[side.name] = [live_scarcity(seed, side) for seed in range(runs)]
    return [
        replace(
            compare(f"{SECTION}; the baseline is {name}", what, unit, attrgetter(name_of), lived[THIS.name]),
            # A ratio to nothing says nothing.
            baseline=tuple(max(getattr(each, name_of), 0.1) for each in others),
        )
        for name, others in lived.items()
        if name != THIS.name
        for what, unit, name_of in _LINES
    ]


def make_stock(seed: int) -> tuple[Stock, ...]:
    """Return one scarcity: rooms of three zones that change at random moments."""
    rng, rows = Random(f"scarcity {seed}"), []
    for zone in ZONES:
        at = 0.0
        while at < HOURS * 3600:
            rows.append(Stock(at, zone, rng.choice((0, 0, 0, HOSTS, 2 * HOSTS, SLICES * HOSTS))))
            at += rng.expovariate(1 / 3600)
    return tuple(sorted(rows, key=lambda row: row.at))


def live_scarcity(seed: int, side: Side) -> Lived:
    """Return what one scarcity costs. The process must be prepared."""
    act = Act(1.0, "create", 0, "train0", "JobSet", "two", SLICES, flag=True)
    rooms, lived = make_stock(seed), Lived()
    ticks = [37.0 + seed % 20 + 60 * index for index in range(HOURS * 60)]
    scenario = Scenario(
        seed, [act], ticks=ticks, stock=list(rooms), candidates=side.ways_max, operation_slots=PLACES
    )
    with ExitStack() as stack:
        if not side.pauses:
            stack.enter_context(patch.object(attempts, "PAUSE_SECONDS", 0))
            stack.enter_context(patch.object(attempts, "SPARE_CREATES", 10_000))
        world = World(scenario)
        stack.callback(world.time.close)
        for each in itertools.chain.from_iterable(world.functions.live.values()):
            settings = structs.replace(each.ports.settings, capacity_policies=(_build_policy(side),))
            each.ports = structs.replace(each.ports, settings=settings, books=open_books(settings))
        world.time.at(START + act.at, functools.partial(apply_act, world, act))
        for at in ticks:
            world.time.at(START + at, world.tick)
        for room in rooms:
            world.time.at(START + room.at, world.gke.refill)
        lived.wait(world)
        lived.count_creates(world)
    return lived


def _build_policy(side: Side) -> CapacityPolicy:
    zones = ZONES[: side.ways_max]
    ways = (Way(Tier.ON_DEMAND, f"{REGION}-{letter}", nodes_from=side.nodes_from) for letter in zones)
    return CapacityPolicy(accelerators=(ACCELERATOR,), ways=tuple(ways))
