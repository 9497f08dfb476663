"""``python -m tests.stories SEEDS``: runs stories and says which promise was broken."""

from __future__ import annotations

import argparse
import functools
import logging
import re
import sys
import time
from collections import Counter, defaultdict
from dataclasses import replace

from shared.model.pools import PoolStatus
from tests.simulation.sim_acts import apply_act
from tests.simulation.sim_growth import refill
from tests.simulation.sim_run import live
from tests.simulation.sim_scenario import Scenario
from tests.simulation.sim_scenarios import make_scenario
from tests.stories.story_world import StoryWorld

NAMES = re.compile(r"[a-z0-9-]+-[a-z2-7]{11}-\w+|\bw\d\S*|team-pool\S*|\d+")
KINDS = ("JobSet", "RayCluster", "LeaderWorkerSet", "Job")
REST_TICKS = 90


def make_story(seed: int) -> Scenario:
    """Return the story of a seed: the slices of a scenario, without what the engine does otherwise."""
    scenario = make_scenario(seed)
    names = {
        act.name
        for act in scenario.acts
        if act.verb == "create" and act.kind in KINDS and not act.shape.startswith("gpu")
    }
    acts = tuple(
        act
        for act in scenario.acts
        if act.verb not in ("ask", "take-name", "go-pool", "enlarge") and (not act.name or act.name in names)
    )
    faults = tuple(fault for fault in scenario.faults if fault.kind != "swap")  # endpoints are read from GKE
    return replace(scenario, acts=acts, faults=faults, gang_seconds=0, release_seconds=0, versions=1)


def run_story(scenario: Scenario, *, told: list[str] | None = None) -> StoryWorld:
    """Run one story to its rest and judge it."""
    world = StoryWorld(scenario, tell=told.append if told is not None else None)
    try:
        live(world)
        world.faults.disarm()
        world.settled = True
        for minute in range(REST_TICKS):
            world.sweep()
            world.time.run_until(world.time.now + (60 if minute < 30 else 240))
        world.judge.judge_rest()
        before = (world.judge.creates, world.judge.deletes)
        waits = any(
            pool.status == PoolStatus.ERROR for pools in world.gke.pools.values() for pool in pools.values()
        )
        world.replay()
        world.time.run_until(world.time.now + 90)
        if (world.judge.creates, world.judge.deletes) != before and not waits and not scenario.stock:
            world.judge.report("replay changes nothing", "calls were made")
    finally:
        world.time.close()
    return world


def main() -> int:
    """Run stories; return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="tests.stories", description=__doc__)
    parser.add_argument("seeds")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    first, _, end = options.seeds.partition(":")
    if not end:
        told: list[str] = []
        scenario = make_story(int(first))
        world = run_story(scenario, told=told)
        sys.stdout.write("\n".join([*scenario.describe(), *told, *map(str, world.judge.violations)]) + "\n")
        return bool(world.judge.violations)
    began, found, counts = time.monotonic(), defaultdict(list), Counter[str]()
    for seed in range(int(first), int(end)):
        world = run_story(make_story(seed))
        counts["creates"] += world.judge.creates
        counts["deletes"] += world.judge.deletes
        counts["late bindings"] += world.judge.late_bindings
        counts["late creates"] += world.judge.late_creates
        for violation in world.judge.violations:
            name = f"{violation.invariant}: {NAMES.sub('#', violation.text)}"
            if seed not in found[name]:
                found[name].append(seed)
    seconds = time.monotonic() - began
    sys.stdout.write(f"{int(end) - int(first)} stories in {seconds:.0f} s: {dict(counts)}\n")
    for name, seeds in sorted(found.items(), key=lambda each: -len(each[1])):
        sys.stdout.write(f"VIOLATED in {len(seeds)}, first {seeds[:5]}: {name}\n")
    return bool(found)


__all__ = ["apply_act", "functools", "main", "refill"]
if __name__ == "__main__":
    sys.exit(main())
