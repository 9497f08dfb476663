"""Runs a story to its rest and beyond: acts, faults and ticks, then calm, then a replay.

Those of many seeds run on all cores. A failing one is made short.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import partial
from time import process_time
from typing import Any
from unittest.mock import patch

from shared.engine import wakes
from shared.model.pools import PoolStatus
from tests.simulation.sim_acts import apply_act
from tests.simulation.sim_cluster import SimCluster
from tests.simulation.sim_functions import prepared
from tests.simulation.sim_rest import judge_agreement, judge_rest, judge_tick, take_truth
from tests.simulation.sim_scenarios import PARTS, START, Scenario, Violation, make_scenario
from tests.simulation.sim_world import World

TICK_SECONDS = 60.0
FIRST_TICKS = 3  # so many ticks come each minute when nothing fails any more
REST_SECONDS_MAX = 4 * 3600.0
LEFT_SECONDS_MAX = 3600.0  # so much longer ticks come while each leaves something to the next
CALM_SECONDS = 4200.0  # longer than the longest pause, and than all patience
TICK_SECONDS_MAX = CALM_SECONDS / 4


@dataclass(slots=True)
class Result:
    violations: list[Violation]
    lines: list[str]
    figures: Counter[str]


def run_scenario(scenario: Scenario, *, tell: bool = False) -> Result:
    """Run one story and judge it; with `tell`, keep a line of everything that happens."""
    lines: list[str] = []
    world = World(scenario, tell=lines.append if tell else None)
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
    world.judge.figures += Counter(
        {
            "messages": len(world.sent),
            "faults struck": world.faults.struck,
            "stories with several instances": bool(scenario.rollouts),
            "stories with Kueue": bool(scenario.quota_pods),
        }
    )
    return Result(world.judge.violations, lines, world.judge.figures)


def live(world: World) -> None:
    """Let everything of a story happen."""
    scenario, time = world.scenario, world.time
    for act in scenario.acts:
        time.at(START + act.at, partial(apply_act, world, act))
    for stock in scenario.stock:
        time.at(START + stock.at, world.gke.refill)
    for fault in scenario.faults:
        time.at(START + fault.at, partial(world.faults.arm, fault))
    for rollout in scenario.rollouts:
        time.at(START + rollout.at, partial(world.functions.roll_out, rollout))
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


# --- many seeds -----------------------------------------------------------------------------------

CHUNK = 250
NOTHING = "nothing is violated"
NAMES = re.compile(r"[a-z0-9-]+-[a-z2-7]{11}-\w+|\bw\d\S*|team-pool\S*|\d+")
"""Names and numbers, which differ from scenario to scenario."""


@dataclass(slots=True)
class Figures:
    scenarios: int = 0
    seconds: float = 0.0  # of all processes together
    counts: Counter[str] = field(default_factory=Counter)
    violated: dict[str, list[int]] = field(default_factory=dict)  # seeds by what is violated

    def add(self, other: Figures) -> None:
        self.scenarios += other.scenarios
        self.seconds += other.seconds
        self.counts.update(other.counts)
        for name, seeds in other.violated.items():
            self.violated.setdefault(name, []).extend(seeds)


def list_violated(violations: list[Violation]) -> list[str]:
    """Return violations without names and numbers, to count alike ones together."""
    return list(dict.fromkeys(f"{each.invariant}: {NAMES.sub('#', each.text)}" for each in violations))


def run_seeds(seeds: range) -> Figures:
    figures, began = Figures(scenarios=len(seeds)), process_time()
    with prepared():
        for seed in seeds:
            result = run_scenario(make_scenario(seed))
            figures.counts.update(result.figures)
            for name in list_violated(result.violations):
                figures.violated.setdefault(name, []).append(seed)
    figures.seconds = process_time() - began
    return figures


def run_campaign(seeds: range, processes: int | None = None) -> Iterator[Figures]:
    """Run the scenarios of many seeds in several processes; yield what all show after each step."""
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    figures = Figures()
    with ProcessPoolExecutor(processes or os.cpu_count() or 1) as pool:
        for each in pool.map(run_seeds, chunks):
            figures.add(each)
            yield figures


def tell_scenario(seed: int, *, short: bool = True) -> list[str]:
    """Return the scenario of a seed for a person, made short around its first violation."""
    scenario = make_scenario(seed)

    def list_names(each: Scenario) -> list[str]:
        return list_violated(run_scenario(each).violations)

    with prepared():
        wanted = list_names(scenario)[:1] if short else []
        if wanted:
            scenario = shrink(scenario, lambda each: wanted[0] in list_names(each))
        result = run_scenario(scenario, tell=True)
    verdict = [f"  {violation}" for violation in result.violations] or [f"  {NOTHING}"]
    return [*scenario.describe(), "", "what happened:", *result.lines, "", "violations:", *verdict]


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    """Return a scenario that still fails in the same way, of which nothing more can be left out."""
    while (shorter := next(filter(fails, _list_shorter(scenario)), None)) is not None:
        scenario = shorter
    return scenario


def _list_shorter(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario without one of its parts, large parts first."""
    for each in fields(Scenario):
        if each.name not in ("seed", *PARTS) and getattr(scenario, each.name) != each.default:
            plain: dict[str, Any] = {each.name: each.default}
            yield replace(scenario, **plain)
    for key in PARTS:
        rows = getattr(scenario, key)
        for index in range(len(rows)):
            shorter: dict[str, Any] = {key: rows[:index] + rows[index + 1 :]}
            yield replace(scenario, **shorter)
    for index, act in enumerate(scenario.acts):
        if act.verb == "create" and act.count > 1:
            fewer = replace(act, count=act.count - 1)
            yield replace(scenario, acts=[*scenario.acts[:index], fewer, *scenario.acts[index + 1 :]])
