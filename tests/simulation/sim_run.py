"""Runs one scenario to its rest and beyond: acts, faults and sweeps, then calm, then a replay."""

import functools
from dataclasses import dataclass, field
from typing import Any

from shared.model.pools import PoolStatus
from tests.simulation.sim_acts import apply_act
from tests.simulation.sim_growth import refill
from tests.simulation.sim_judge import Violation
from tests.simulation.sim_process import forget
from tests.simulation.sim_rest import judge_rest, take_truth
from tests.simulation.sim_scenario import START, Scenario
from tests.simulation.sim_world import World

REST_SWEEPS = (40, 110, 430, 500, 1010, 1080, 1200, 2200, 2300, 3800, 3900, 4000, 5000, 5100, 5300, 8000)
"""When the sweep runs after everything has happened, in seconds. Each wait of the product ends
between two of them. That it really runs each minute changes nothing, because it has no memory. Only
where a workload waits for its capacity it runs as often: a part of the slices is held by the clock.
"""
MINUTE_SECONDS = 60.0
SAME_SECONDS = 250.0
"""A sweep that finds the truth unchanged so soon decides as the one before."""
LAST_SWEEPS_MAX = 10
CALM_SECONDS = 960.0
"""As long as the longest wait of the product, unless GKE still creates a pool."""
PAUSE_SECONDS_MAX = 1800.0 * 1.25
"""The longest pause after a failed creation, with its jitter."""


@dataclass(slots=True)
class Result:
    """What became of one scenario."""

    scenario: Scenario
    violations: list[Violation] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)


def run_scenario(scenario: Scenario, *, tell: bool = False) -> Result:
    """Run one scenario and judge it; with `tell`, keep a line of everything that happens."""
    result = Result(scenario)
    world = World(scenario, tell=result.lines.append if tell else None)
    try:
        live(world)
        _rest(world, REST_SWEEPS)
        judge_rest(world)
        _replay(world)
    finally:
        world.time.close()
        forget()
    result.violations = world.judge.violations
    result.figures = {
        "messages": len(world.sent),
        "creates": world.judge.creates,
        "deletes": world.judge.deletes,
        "faults struck": world.faults.struck,
        "pods bound after the look": world.judge.late_bindings,
        "workloads changed after the look": world.judge.late_changes,
        "uses of pools of other workloads": world.judge.borrowed,
        "idle pools of live workloads": world.judge.idle_pools,
        "changes after a stale answer": world.judge.stale_changes,
        "labels removed after the look": world.judge.late_edits,
        "second pools on their way": world.judge.late_creates,
        "pools for the autoscaler": world.fills.empty_pools,
        "scale-ups without machines": world.fills.failed_fills,
        "creations that failed after 35 minutes": world.fills.slow_stockouts,
        "creations that came good late": world.fills.late_successes,
        "machines that came after the look": world.fills.late_machines,
        "scenarios with an autoscaled pool or a slow stockout": int(
            world.fills.empty_pools + world.fills.slow_stockouts + world.fills.late_successes > 0
        ),
    }
    return result


def live(world: World) -> None:
    """Let everything of a scenario happen."""
    scenario, time = world.scenario, world.time
    for act in scenario.acts:
        time.at(START + act.at, functools.partial(apply_act, world, act))
    for stock in scenario.stock:
        time.at(START + stock.at, functools.partial(refill, world.gke))
    for fault in scenario.faults:
        time.at(START + fault.at, functools.partial(world.faults.arm, fault))
    for at in scenario.sweeps:
        time.at(START + at, world.sweep)
    time.run_until(START + scenario.length + 1)


def _rest(world: World, sweeps: tuple[int, ...]) -> None:
    """Let the scenario come to rest: nothing fails, and the sweep runs until nothing changes."""
    world.faults.disarm()
    world.settled = True
    began = world.time.now
    still_since, changes = began, -1
    swept_at = began
    for seconds in sweeps:
        world.time.run_until(began + seconds)
        if world.changes != changes:
            still_since, changes = world.time.now, world.changes
        elif world.time.now - swept_at < SAME_SECONDS:
            continue
        elif swept_at - still_since >= CALM_SECONDS and _is_calm(world):
            break  # that sweep saw that all waits are over, and has changed nothing
        world.sweep()
        swept_at = world.time.now
    # One sweep deletes only so many failed pools, so those that are left need a sweep each.
    pools = sum(map(len, world.gke.pools.values()))
    for _ in range(LAST_SWEEPS_MAX + pools // world.scenario.cap):
        changes = world.changes
        world.sweep()
        world.time.run_until(world.time.now + 60)
        if world.changes == changes:
            break
        world.time.run_until(world.time.now + 300)


def _is_calm(world: World) -> bool:
    """Return whether nothing goes on by itself; a failed creation may wait for its next attempt."""
    pools = (pool for found in world.gke.pools.values() for pool in found.values())
    pausing = any(pool.status == PoolStatus.ERROR and pool.owner for pool in pools)
    if any(cluster.waiting for cluster in world.clusters.values()):
        last, since = (made[-1] for made in world.gke.creations.values()), world.time.now - PAUSE_SECONDS_MAX
        pausing = pausing or any(each.error and (each.ended_at or 0) > since for each in last)
    return world.time.next_moment is None and not pausing


def _replay(world: World) -> None:
    """Deliver every message again: nothing may change."""
    before, calls = take_truth(world), (world.judge.creates, world.judge.deletes)
    restless = bool(world.scenario.stock) or any(
        world.faults.is_out_of_stock(name) for name in world.cluster_names
    )
    if world.scenario.versions > 1:
        return  # the sweeps may all have been one version's, and the replay the other's
    if restless or world.time.next_moment is not None:
        return  # something goes on by itself: creates that fail, or a pod that ends very slowly
    world.replay()
    world.time.run_until(world.time.now + 90)
    after = take_truth(world)
    swapped = "; endpoints had been swapped" if any(each.kind == "swap" for each in world.scenario.faults) else ""
    if (world.judge.creates, world.judge.deletes) != calls or after != before:
        world.judge.report("replay changes nothing", f"{_describe(before, after)}{swapped}")


def _describe(before: dict[str, Any], after: dict[str, Any]) -> str:
    for name, found in after.items():
        was = set(before[name])
        new = [
            f"{pool} is {status} with {size} nodes"
            for pool, status, size in found
            if (pool, status, size) not in was
        ]
        gone = {pool for pool, _, _ in was} - {pool for pool, _, _ in found}
        if new or gone:
            return "; ".join([*new, *(f"{pool} is gone" for pool in sorted(gone))])
    return "calls were made"
