"""The simulator's world with scarce capacity and a limit of operations, and what is seen in it.

The times are those of the simulator, which has GKE's: a creation with nodes tries for 35 minutes,
an empty pool is there after 22 s, and the autoscaler looks every 10 s.
"""

import functools
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from unittest.mock import patch

from msgspec import structs

from shared.capacity_texts import CapacityPolicy
from shared.engine.budget import Budget
from shared.model.names import parse_name
from shared.model.needs import NodeSource, Tier, Way
from shared.plan import attempts
from tests.simulation.sim_acts import apply_act
from tests.simulation.sim_cluster import SimCluster
from tests.simulation.sim_scenario import START, Act, Scenario, Stock
from tests.simulation.sim_world import World

PLACES = 20
"""So many operations of a cluster are under way at one time; GKE answers the next request with 429.
GKE does not publish the number: it created 21 pools at one time and failed with 30."""
STEP_SECONDS = 5.0
"""Between two looks at the world."""
REGION = "us-east5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Who provisions."""

    name: str
    ways_max: int = 26
    """How many ways of the list it knows, from the first on."""
    nodes_from: NodeSource | None = None
    pauses: bool = True
    """Whether a pause follows a round."""


THIS = Side(name="this version")
CREATION = Side(name="nodesFrom creation", nodes_from=NodeSource.CREATION)
LOOP = Side(name="a loop that retries the first way", ways_max=1, pauses=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """Workloads of one shape, each of so many slices, and the zones that their list has."""

    name: str
    shape: str = "two"
    accelerator: str = "tpu-v4-podslice"
    zones: str
    """Letters. One zone is no list."""
    count: int = 1
    slices: int = 1
    at: float = 1.0
    """Seconds from the start."""


@dataclass(slots=True)
class Scarcity:
    """A world in which slices wait, and what was seen in it until now."""

    world: World
    both_seconds: float = 0.0
    """The longest time for which two pools of one slice had nodes."""
    idle_chip_seconds: float = 0.0
    """Of all nodes, while not all pods run."""
    _both_since: dict[str, float] = field(default_factory=dict)
    _ran: dict[str, float] = field(default_factory=dict)

    @property
    def cluster(self) -> SimCluster:
        """Return the one cluster."""
        return next(iter(self.world.clusters.values()))

    def wait_for(self, names: tuple[str, ...], *, hours: float) -> float:
        """Return the minutes for which the pods of some workloads wait; time passes until all run.

        Args:
            names: of the workloads.
            hours: the most; infinity is returned if not all pods run then.
        """
        time, since = self.world.time, math.inf
        while time.now < START + hours * 3600:
            time.run_until(time.now + STEP_SECONDS)
            pods = [pod for pod in self.cluster.pods.values() if pod.workload.name in names]
            waits = [pod.view.unschedulable_since or time.now for pod in pods]
            since = min([since, *waits])
            self._see()
            if pods and all(pod.node is not None for pod in pods):
                return (max(pod.bound_at for pod in pods) - since) / 60
        return math.inf

    def watch(self, seconds: float) -> None:
        """Let some more time pass."""
        for _ in range(int(seconds / STEP_SECONDS)):
            self.world.time.run_until(self.world.time.now + STEP_SECONDS)
            self._see()

    def find_first_run(self) -> float:
        """Return the minutes until all pods of one slice ran; infinity if those of none did."""
        return (min(self._ran.values(), default=math.inf) - START) / 60

    def list_creations(self, name: str = "") -> list[tuple[float, float]]:
        """Return beginning and end of the operations that created pools, in unix seconds.

        Args:
            name: what the names of the pools begin with, which is the name of their workload.
        """
        made = (each for found in self.world.gke.operations.values() for each in found if each.creates)
        times = ((each.pool, each.began_at or START, each.ended_at or self.world.time.now) for each in made)
        return sorted((began_at, ended_at) for pool, began_at, ended_at in times if pool.startswith(name))

    def _see(self) -> None:
        now, chips = self.world.time.now, 0
        homes: dict[str, set[str]] = {}
        for node in self.cluster.nodes.values():
            chips += node.units
            if (parsed := parse_name(node.pool.name)) is not None:
                homes.setdefault(parsed.hash, set()).add(node.pool.name)
        self.idle_chip_seconds += chips * STEP_SECONDS
        both = {claim for claim, pools in homes.items() if len(pools) > 1}
        self._both_since = {claim: self._both_since.get(claim, now) for claim in both}
        # A step is added, because the first node may have come right after the look before.
        self.both_seconds = max(
            [self.both_seconds, *(now - at + STEP_SECONDS for at in self._both_since.values())]
        )
        waiting = {pod.plan.slice_name for pod in self.cluster.pods.values() if pod.node is None}
        for pod in self.cluster.pods.values():
            if pod.plan.slice_name not in waiting:
                self._ran.setdefault(pod.plan.slice_name, now)


@contextmanager
def scarce(
    seed: int,
    slices: tuple[Slices, ...],
    stock: tuple[Stock, ...],
    side: Side,
    *,
    hours: float,
    exporter: bool = True,
) -> Iterator[Scarcity]:
    """Give a world in which slices come and machines are scarce. The process must be prepared.

    Args:
        seed: of everything that is random.
        slices: what waits.
        stock: the machines of zones.
        side: who provisions.
        hours: how long there are ticks, one in each minute.
        exporter: whether there are messages; without them the tick does all.
    """
    acts = tuple(
        Act(each.at + index / 8, "create", 0, f"{each.name}{index}", "JobSet", each.shape, each.slices, flag=True)
        for each in slices
        for index in range(each.count)
    )
    most = max(len(each.zones[: side.ways_max]) for each in slices)
    ticks = tuple(37.0 + seed % 20 + 60 * index for index in range(int(hours * 60)))
    scenario = Scenario(seed, acts, ticks=ticks, stock=stock, candidates=most, operation_slots=PLACES)
    with ExitStack() as stack:
        if not side.pauses:
            stack.enter_context(patch.object(attempts, "PAUSE_SECONDS", 0))
            stack.enter_context(patch.object(attempts, "SPARE_CREATES", 10_000))
        world = World(scenario)
        stack.callback(world.time.close)
        for instances in world.functions.live.values():
            for each in instances:
                settings = structs.replace(each.ports.settings, capacity_policies=_build_policies(slices, side))
                each.ports = replace(each.ports, settings=settings, budget=Budget(settings))
        if not exporter:
            world.exporters[world.cluster_names[0]].stop()
        for act in acts:
            world.time.at(START + act.at, functools.partial(apply_act, world, act))
        for at in scenario.ticks:
            world.time.at(START + at, world.tick)
        for room in stock:
            world.time.at(START + room.at, world.gke.refill)
        yield Scarcity(world)


def _build_policies(slices: tuple[Slices, ...], side: Side) -> tuple[CapacityPolicy, ...]:
    return tuple(
        CapacityPolicy(
            accelerators=(each.accelerator,),
            ways=tuple(
                Way(Tier.ON_DEMAND, f"{REGION}-{letter}", nodes_from=side.nodes_from)
                for letter in each.zones[: side.ways_max]
            ),
        )
        for each in slices
    )
