"""The judge of creates knows that a request which is on its way follows no later failure."""

import dataclasses

import pytest

from shared.core import labels
from shared.core.identity.pools import PoolStatus
from tests.builders import a_pool
from tests.simulation.sim_acts import apply_act
from tests.simulation.sim_faults import Invocation
from tests.simulation.sim_filling import _Left
from tests.simulation.sim_judge import CREATES_PER_HOUR_MAX, FAILURES_PER_HOUR_MAX
from tests.simulation.sim_pool_bodies import Pool
from tests.simulation.sim_scenario import CLUSTERS, START, Act, Scenario
from tests.simulation.sim_world import World

pytestmark = pytest.mark.usefixtures("_prepared")


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
    world = World(Scenario(candidates=2))
    made = a_failed_pool(candidate)
    fail(world, made, left=left)
    create(world, made, at=110, sent=sent)

    assert {each.invariant for each in world.judge.violations} == ({invariant} if reported else set())


@pytest.mark.parametrize("left", [False, True], ids=["a failed pool", "an empty pool"])
@pytest.mark.parametrize(("at", "reported"), [(158, True), (159, False)])
def test_a_pause_counts_from_the_time_on_the_failed_pool_s_label(at: int, *, left: bool, reported: bool) -> None:
    """Seed 8254049: GKE took the create 1.3 s later, and the pause was 54 ms longer than 120 s."""
    world = World(Scenario(candidates=2))
    made = a_failed_pool("2-of-2")
    fail(world, made, left=left)
    create(world, made, at=at, sent=at)

    assert {each.invariant for each in world.judge.violations} == ({"pauses"} if reported else set())


@pytest.mark.parametrize("event", ["", "pool removed", "shape changed"])
def test_the_tries_of_an_hour_begin_anew_when_a_person_acts(event: str) -> None:
    """Seeds 8414526 and 8697211: a removed pool was the record; another shape has its own."""
    world = World(Scenario())
    apply_act(world, Act(0.0, "create", 0, "train", "Job", "one", 1))
    world.time.run_until(START + 300)
    (pool,) = world.gke.pools[CLUSTERS[0]].values()
    for number in range(CREATES_PER_HOUR_MAX + 2):
        if number == FAILURES_PER_HOUR_MAX - 1 and event == "pool removed":
            apply_act(world, Act(0.0, "remove-pool", 0, "train"))
        if number == FAILURES_PER_HOUR_MAX - 1 and event == "shape changed":
            pool.relabel(pool.labels | {labels.FINGERPRINT: "1-anotherone"}, 0.0)
        create(world, pool, at=300 + 10 * number, sent=300 + 10 * number)

    found = {each.invariant for each in world.judge.violations}
    assert ("creates per hour" in found) != bool(event)


def a_failed_pool(candidate: str) -> Pool:
    """Return a pool whose create was decided at 99 s; GKE took it at 100 s."""
    told: dict[str, str | None] = {
        labels.CANDIDATE: f"{candidate}-3r66yazj",
        labels.CREATED_AT: str(int(START + 99)),
    }
    pool_labels = dict(a_pool(extra_labels=told).labels)
    return Pool(CLUSTERS[0], "later", pool_labels, PoolStatus.ERROR, 1, "ct4p-hightpu-4t", "2x2x1", START + 100)


def fail(world: World, pool: Pool, *, left: bool) -> None:
    """Let a failed pool be there, or be one that was left because it was empty."""
    owner = pool.owner
    assert owner is not None
    if left:
        world.fills._left[pool.cluster, owner.claim_hash] = _Left(pool, owner, Invocation("sweep", 0, START))
    else:
        world.gke.add(pool)


def create(world: World, failed: Pool, *, at: int, sent: int) -> None:
    """Let GKE take the create of the next pool of the same claim."""
    following = dataclasses.replace(failed, name="next", status=PoolStatus.PROVISIONING, made_at=START + at)
    run = Invocation("provision", 0, START, call_began=START + sent)
    world.time.run_until(START + at)
    world.time.spawn(lambda: world.judge.see_create(following), run)
    world.time.run_until(START + at)
    world.time.close()
