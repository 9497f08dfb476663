"""Pools that GKE's autoscaler fills, in the fakes: how they begin, and how they are refused."""

from dataclasses import replace
from typing import Any

from shared.core.ports import FillError, Machines
from tests.builders import CLUSTER
from tests.component.looks import by_message
from tests.component.world import World, name_of

POLICY = "[{priorities: [{location: {zones: [us-east5-a, us-east5-b]}}]}]"
STOCKOUT = (
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS: The zone 'projects/p/zones/us-east5-a' does not have enough "
    "resources available to fulfill the request."
)
TOLD = "Node scale up in zones us-east5-a associated with this pod failed: GCE out of resources."


def begin(world: World, *, seconds: float = 90.0) -> None:
    """Let the first candidate's pool run empty, and the leader wait for it."""
    by_message(world)
    run_empty(world, 0)
    world.clock.advance(seconds)


def begin_refused(world: World, *, seconds: float = 90.0) -> None:
    """Let the first candidate's pool run empty, and its group report that there is no capacity."""
    begin(world, seconds=seconds)
    refuse(world)


def run_empty(world: World, attempt: int) -> None:
    url = f"https://x/projects/p/zones/us-east5-{'ab'[attempt % 2]}/instanceGroupManagers/g-{attempt}-grp"
    world.pools.move(CLUSTER, name_of(attempt), "RUNNING")
    pool = world.pools.pools[CLUSTER, name_of(attempt)]
    world.pools.add(CLUSTER, replace(pool, group_urls=(url,)))


def refuse(world: World, attempt: int = 0, *, at: float | None = None, **machines: Any) -> None:
    """Let the instance group of a pool report that there is no capacity."""
    error = FillError(STOCKOUT, world.clock.now() - 30 if at is None else at)
    world.pools.machines[name_of(attempt)] = Machines(errors=(error,), **machines)


def status(world: World, attempt: int) -> str:
    return str(world.pools.pools[CLUSTER, name_of(attempt)].status)
