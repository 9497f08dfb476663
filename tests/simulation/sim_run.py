"""Runs one story to its rest and beyond: acts, faults and ticks, then calm, then a replay."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from unittest.mock import patch

from shared.engine import wakes
from shared.model.pools import PoolStatus
from tests.simulation.sim_acts import apply_act
from tests.simulation.sim_rest import judge_agreement, judge_rest, judge_tick, take_truth
from tests.simulation.sim_scenario import START, Scenario, Violation
from tests.simulation.sim_world import World

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import SimCluster

TICK_SECONDS = 60.0
FIRST_TICKS = 3  # so many ticks come each minute when nothing fails any more
REST_SECONDS_MAX = 4 * 3600.0
LEFT_SECONDS_MAX = 3600.0  # so much longer ticks come while each leaves something to the next
CALM_SECONDS = 4200.0  # longer than the longest pause, and than all patience
TICK_SECONDS_MAX = CALM_SECONDS / 4


@dataclass(slots=True)
class Result:
    violations: list[Violation] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)


def run_scenario(scenario: Scenario, *, tell: bool = False) -> Result:
    """Run one story and judge it; with `tell`, keep a line of everything that happens."""
    result = Result()
    world = World(scenario, tell=result.lines.append if tell else None)
    try:
        with patch.object(wakes, "LISTED_MIN", wakes.LISTED_MIN if scenario.seed % 2 else 1):
            live(world)
            leaves = rest(world)
            judge_rest(world)
            if is_calm(world) and not leaves:
                judge_agreement(world)
                _replay(world)
    finally:
        world.time.close()
    result.violations, result.figures = world.judge.violations, world.judge.figures
    result.figures["messages"] = len(world.sent)
    result.figures["faults struck"] = world.faults.struck
    result.figures["stories with several instances"] = int(bool(scenario.rollouts))
    result.figures["stories with Kueue"] = int(bool(scenario.quota_pods))
    return result


def live(world: World) -> None:
    """Let everything of a story happen."""
    scenario, time = world.scenario, world.time
    for act in scenario.acts:
        time.at(START + act.at, functools.partial(apply_act, world, act))
    for stock in scenario.stock:
        time.at(START + stock.at, world.gke.refill)
    for fault in scenario.faults:
        time.at(START + fault.at, functools.partial(world.faults.arm, fault))
    for rollout in scenario.rollouts:
        time.at(START + rollout.at, functools.partial(world.functions.roll_out, rollout))
    for at in scenario.ticks:
        time.at(START + at, world.tick)
    time.run_until(START + scenario.length + 1)


def rest(world: World) -> bool:
    """Let the story come to rest, and return whether the last tick left something to the next.

    Nothing fails any more, and ticks come until nothing changes. Their distance grows while they do
    nothing and leave nothing: each minute would change nothing. The last one is a minute before the
    end, as in production, and leaves nothing if it can.
    """
    world.faults.disarm()
    world.functions.settle()
    world.settled_at = began = still_since = world.time.now
    seconds, changes, acts, ticks, left, leaves = TICK_SECONDS, -1, -1, 0, 0, False
    while world.time.now - began < REST_SECONDS_MAX + leaves * LEFT_SECONDS_MAX:
        world.tick()
        world.time.run_until(world.time.now + seconds)
        judge_tick(world)
        ticks += 1
        if world.changes != changes:
            changes, still_since = world.changes, world.time.now
        still = world.time.now - still_since > CALM_SECONDS and world.time.next_moment is None
        if still and seconds == TICK_SECONDS:
            break
        leaves = world.functions.ticks_to_repeat > left
        if still or world.judge.acts != acts or leaves or _holds_part(world):
            acts, seconds, left = world.judge.acts, TICK_SECONDS, world.functions.ticks_to_repeat
        elif ticks > FIRST_TICKS:
            seconds = min(4 * seconds, TICK_SECONDS_MAX)
    world.time.run_until(world.time.now + TICK_SECONDS)
    return leaves


def _holds_part(world: World) -> bool:
    """Return whether a gang waits with pools, which a tick gives back after its time."""
    return any(
        entry.reserved_at is not None
        and entry.admitted_at is None
        and world.gke.list_owned(cluster.name, entry.made)
        for cluster in world.clusters.values()
        for entry in cluster.kueue.entries.values()
    )


def is_calm(world: World) -> bool:
    """Return whether nothing goes on by itself; without capacity, tries follow for ever."""
    pools = [pool for pools in world.gke.pools.values() for pool in pools.values() if pool.owner]
    tries = any(pool.status == PoolStatus.ERROR or pool.off or pool.refused for pool in pools)
    waits = any(cluster.waiting or _is_refused(world, cluster) for cluster in world.clusters.values())
    return world.time.next_moment is None and not (tries or waits or _holds_part(world))


def _is_refused(world: World, cluster: SimCluster) -> bool:
    """Return whether a workload in the queue gets no pools, since GKE refuses them all."""
    queued = any(each.holds_quota and each.admitted_at is None for each in cluster.kueue.entries.values())
    return queued and world.faults.lasts(cluster.name, "no-chips", "no-quota")


def _replay(world: World) -> None:
    """Deliver every message again: nothing may change."""
    before, acts = take_truth(world), world.judge.acts
    world.replay()
    world.time.run_until(world.time.now + 90)
    changed = sorted(before ^ take_truth(world))
    if world.judge.acts != acts or changed:
        rows = "; ".join(f"{name} {status} with {size} nodes" for _, name, status, size in changed)
        world.judge.report("replay changes nothing", f"of pools before or after it: {rows or 'calls were made'}")
