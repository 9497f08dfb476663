"""The judge of pools that share the nodes of one claim knows since when fewer nodes are wanted."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from tests.simulation.sim_acts import apply_act
from tests.simulation.sim_faults import Invocation
from tests.simulation.sim_process import prepared
from tests.simulation.sim_sharing import CHANGED_SECONDS, judge_sharing
from tests.simulation.sim_story import START, Act, Story
from tests.simulation.sim_world import World

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _prepared() -> Iterator[None]:
    with prepared():
        yield


@pytest.mark.parametrize("verb", ["suspend", "complete", "delete"])
def test_a_request_that_is_on_its_way_while_a_workload_ends_is_no_violation(verb: str) -> None:
    """Seed 8034316: a workload is suspended 2 s before GKE takes the create of its second pool."""
    world = World(Story(seed=1, acts=(), faults=(), sweeps=(), candidates=2))
    act = Act(5.0, "create", 0, "train", "Job", "gpu", 3)
    world.time.at(START + act.at, lambda: apply_act(world, act))
    world.time.run_until(START + 120)
    (cluster,) = world.clusters.values()
    (made,) = cluster.workloads.values()
    (pool,) = world.gke.pools[cluster.name].values()
    another = dataclasses.replace(pool, name=f"{pool.name}-more")

    def count_reports() -> int:
        run = Invocation("sweep", 0, START, call_began=world.time.now)
        assert judge_sharing(world, run, another, 1)
        return len(world.judge.violations)

    apply_act(world, Act(120.0, verb, 0, "train", count=60, flag=True))
    reported = [count_reports()]
    made.changed_at -= CHANGED_SECONDS
    reported.append(count_reports())
    world.time.close()

    assert reported == [0, 1]
