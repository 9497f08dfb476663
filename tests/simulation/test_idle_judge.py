"""The judge of idle pools counts what no look can see, and reports what a look would have shown."""

import pytest

from shared.core import labels
from shared.core.identity.names import build_owner_labels
from shared.core.identity.pools import PoolStatus
from shared.core.ports import SurplusMark
from tests.builders import a_claim
from tests.simulation.sim_cluster import Node
from tests.simulation.sim_faults import Invocation
from tests.simulation.sim_pool_bodies import Pool
from tests.simulation.sim_scenario import START, Scenario
from tests.simulation.sim_world import World

IDLE_SECONDS = 600


@pytest.mark.parametrize(
    ("looked", "gone", "marked", "counted"),
    [(98, 99, False, True), (98, 97, False, False), (60, 99, False, False), (98, 99, True, False)],
    ids=["gone after the look", "gone before it", "an old look", "over before the look"],
)
def test_a_surplus_pool_whose_owner_goes_after_a_young_look_is_counted(
    looked: int, gone: int, marked: bool, counted: bool
) -> None:
    """Seed 8560562: a Job is deleted 0.3 s before the delete of its surplus pool is sent."""
    world, claim = World(Scenario(idle_seconds=IDLE_SECONDS)), a_claim()
    idle = {labels.IDLE: IDLE_SECONDS}
    owned = build_owner_labels(claim, attempt=0, created_at=0, fingerprint="", optional=idle)
    pool = Pool(world.cluster_names[0], "p", owned, PoolStatus.RUNNING, 1, "ct4p-hightpu-4t", "2x2x1", START)
    truth, run = world.clusters[pool.cluster], Invocation("sweep", 0, START, call_began=START + 100)
    truth.nodes["n"] = Node("n", pool, {}, 4, START, mark=SurplusMark(START, closed=True) if marked else None)
    run.looks[pool.cluster, pool.name] = START + looked
    truth.gone_at[claim.owner_uid] = START + gone
    world.time.run_until(START + 100)
    world.time.spawn(lambda: world.judge.see_delete(pool), run)
    world.time.run_until(START + 100)
    world.time.close()

    assert (world.judge.late_changes, len(world.judge.violations)) == (int(counted), int(not counted))
