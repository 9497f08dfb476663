"""The judge of pools that share the nodes of one claim knows since when fewer nodes are wanted."""

import dataclasses

import pytest

from shared.core import labels
from shared.core.ports import Notice
from tests.simulation.sim_acts import apply_act
from tests.simulation.sim_faults import Invocation, PoolRead
from tests.simulation.sim_pool_bodies import Pool
from tests.simulation.sim_run import live
from tests.simulation.sim_scenario import START, Act, Scenario
from tests.simulation.sim_sharing import CHANGED_SECONDS, count_chips, judge_sharing
from tests.simulation.sim_world import World

pytestmark = pytest.mark.usefixtures("_prepared")


def _make_pool() -> tuple[World, Pool]:
    """Return the world of a workload with three pods, after a minute, and its pool."""
    world = World(Scenario(acts=(Act(5.0, "create", 0, "train", "Job", "gpu", 3),), candidates=2))
    live(world)
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


@pytest.mark.parametrize(("seconds", "counts"), [(0.2, False), (CHANGED_SECONDS + 1, True)])
def test_what_another_program_makes_in_the_turn_of_a_create_counts_for_no_limit(
    seconds: float, *, counts: bool
) -> None:
    """Seed 8618096: chips are counted, then others make a pool, then the slice's are listed."""
    acts = (Act(5.0, "create", 0, "train", "JobSet", "one", 1), Act(90.0, "go-pool", 0, "train"))
    world = World(Scenario(acts=acts))
    live(world)
    ours, other = sorted(world.gke.pools[world.cluster_names[0]].values(), key=lambda each: each.made_at)
    run = Invocation("sweep", 0, START)
    listed_at = other.made_at + seconds
    run.pool_reads[ours.cluster, ""] = PoolRead(listed_at, listed_at)

    assert count_chips([other], ours, run) == (8 if counts else 4)


@pytest.mark.parametrize(("uid", "violations"), [("", 1), ("uid-of-an-earlier-one", 0)])
def test_an_event_that_was_late_is_about_the_workload_whose_uid_it_names(uid: str, violations: int) -> None:
    """Seed 8638038: the write took ten minutes, and the workload was made anew meanwhile."""
    world, pool = _make_pool()
    (made,) = world.clusters[pool.cluster].workloads.values()
    pool.relabel(pool.labels | {labels.OWNER_UID: "of-another"}, world.time.now)
    message = f"node pool {pool.name} serves this pod [pool_serves]"
    told = Notice(
        kind=made.kind,
        namespace="default",
        name=made.name,
        uid=uid or made.uid,
        reason="NodePoolReady",
        message=message,
        warning=False,
    )
    world.judge.see_notice(pool.cluster, told)

    assert [each.invariant for each in world.judge.violations] == ["true reasons"] * violations
