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

    from tests.simulation.sim_pool_bodies import Pool


@pytest.fixture(autouse=True)
def _prepared() -> Iterator[None]:
    with prepared():
        yield


def _make_pool() -> tuple[World, Pool]:
    """Return the world of a workload with three pods, after a minute, and its pool."""
    world = World(Story(seed=1, acts=(), faults=(), sweeps=(), candidates=2))
    act = Act(5.0, "create", 0, "train", "Job", "gpu", 3)
    world.time.at(START + act.at, lambda: apply_act(world, act))
    world.time.run_until(START + 120)
    (pool,) = world.gke.pools[world.cluster_names[0]].values()
    return world, pool


def _count_reports(world: World, pool: Pool, *, sent: float = 0.0) -> int:
    """Return how many violations there are after one more pool was asked for, some seconds ago."""
    run = Invocation("sweep", 0, START, call_began=world.time.now - sent)
    assert judge_sharing(world, run, dataclasses.replace(pool, name=f"{pool.name}-more"), 1)
    return len(world.judge.violations)


@pytest.mark.parametrize("verb", ["suspend", "complete", "delete"])
def test_a_request_that_is_on_its_way_while_a_workload_ends_is_no_violation(verb: str) -> None:
    """Seeds 8034316 and 8410365: it is suspended before GKE takes the create of its second pool.

    The create is sent after the suspension, or before it and GKE takes it after 90 s.
    """
    world, pool = _make_pool()
    (made,) = world.clusters[pool.cluster].workloads.values()

    apply_act(world, Act(120.0, verb, 0, "train", count=60, flag=True))
    reported = [_count_reports(world, pool)]
    made.changed_at -= CHANGED_SECONDS
    reported += [_count_reports(world, pool, sent=sent) for sent in (36.0, 0.0)]
    world.time.close()

    assert reported == [0, 0, 1]


@pytest.mark.parametrize("change", ["made_at", "grown_at"])
def test_a_request_that_is_on_its_way_while_another_pool_gets_nodes_is_no_violation(change: str) -> None:
    """Seed 8112014: two sweeps at once, and GKE takes the create of one 0.2 s after a growth."""
    world, pool = _make_pool()
    pool.made_at = pool.grown_at = world.time.now - 60
    setattr(pool, change, world.time.now - 0.2)
    reported = [_count_reports(world, pool, sent=0.3)]
    world.time.run_until(world.time.now + 5)
    reported.append(_count_reports(world, pool))
    world.time.close()

    assert reported == [0, 1]
