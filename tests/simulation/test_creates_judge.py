"""The judge of creates knows that a request which is on its way follows no later failure."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from shared.core import labels
from shared.core.identity.pools import PoolStatus
from tests.builders import a_pool
from tests.simulation.sim_faults import Invocation
from tests.simulation.sim_filling import _Left
from tests.simulation.sim_pool_bodies import Pool
from tests.simulation.sim_process import prepared
from tests.simulation.sim_story import CLUSTERS, START, Story
from tests.simulation.sim_world import World

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _prepared() -> Iterator[None]:
    with prepared():
        yield


@pytest.mark.parametrize(
    ("candidate", "left", "invariant"),
    [("1-of-2", False, "candidates"), ("2-of-2", False, "pauses"), ("2-of-2", True, "pauses")],
    ids=["the same candidate", "the pause of a failed pool", "the pause of an empty pool"],
)
@pytest.mark.parametrize(("sent", "reported"), [(99, False), (101, True)])
def test_a_create_follows_only_a_pool_that_was_there_when_it_was_sent(
    candidate: str, invariant: str, sent: int, *, left: bool, reported: bool
) -> None:
    """Seed 8123362: GKE takes a create after 600 s, and other pools have failed since."""
    world = World(Story(seed=1, acts=(), faults=(), sweeps=(), candidates=2))
    said = dict(a_pool(extra_labels={labels.CANDIDATE: f"{candidate}-3r66yazj"}).labels)
    made = Pool(CLUSTERS[0], "later", said, PoolStatus.ERROR, 1, "ct4p-hightpu-4t", "2x2x1", START + 100)
    owner = made.owner
    assert owner is not None
    if left:
        world.fills._left[made.cluster, owner.claim_hash] = _Left(made, owner, Invocation("sweep", 0, START))
    else:
        world.gke.add(made)
    stalled = dataclasses.replace(made, name="stalled", status=PoolStatus.PROVISIONING, made_at=START + 110)
    run = Invocation("provision", 0, START, call_began=START + sent)
    world.time.run_until(START + 110)
    world.time.spawn(lambda: world.judge.see_create(stalled), run)
    world.time.run_until(START + 110)
    world.time.close()

    assert {each.invariant for each in world.judge.violations} == ({invariant} if reported else set())
