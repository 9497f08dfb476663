"""The judge of a scenario at rest takes the right Event as the last word for a slice."""

from dataclasses import replace

import pytest

from shared.core.identity.pools import PoolStatus
from shared.core.kinds.elastic import list_elastic
from shared.engine.entries import sweep_pools
from tests.simulation.sim_rest import judge_rest
from tests.simulation.sim_run import live, run_scenario
from tests.simulation.sim_scenario import START, Act, Scenario
from tests.simulation.sim_shapes import SHAPES
from tests.simulation.sim_workloads import KIND_NAMES, Workload
from tests.simulation.sim_world import World

pytestmark = pytest.mark.usefixtures("_prepared")


@pytest.mark.parametrize("last", ["stockout", "pool_serves"])
@pytest.mark.parametrize(
    ("shape", "pinned", "reported"),
    [("one", False, 1), ("gpu", True, 1), ("gpu", False, 2)],
    ids=["slices", "slices of GPUs", "an elastic pool"],
)
def test_the_last_word_for_a_slice_is_on_a_pod_that_shares_its_pools(
    shape: str, reported: int, last: str, *, pinned: bool
) -> None:
    """Seed 7615395: the last Event on the workload is about the pool of another slice.

    The first pod has a reason, and the second one a promise that is not kept.
    """
    world = World(Scenario(acts=(Act(5.0, "create", 0, "train", "JobSet", shape, 2, flag=pinned),)))
    live(world)
    world.time.run_until(START + 30)
    (cluster,) = world.clusters.values()
    (made,) = cluster.workloads.values()
    first, second = cluster.list_pods_of(made)
    for number, (uid, reason) in enumerate(
        [(first.view.uid, "stockout"), (second.view.uid, "pool_serves"), (made.uid, last)]
    ):
        cluster.events[uid] = {("", f"[{reason}]"): world.time.now + number}
    judge_rest(world)
    world.time.close()

    messages = [each.text for each in world.judge.violations if each.invariant == "every demand answered"]
    assert ["[pool_serves] is the last word" in each for each in messages] == [True] * reported


@pytest.mark.parametrize(("ways", "reported"), [(2, 1), (0, 0)], ids=["a list of capacity", "one way"])
def test_a_slice_does_not_wait_at_rest_for_a_pool_without_nodes_that_a_list_would_leave(
    ways: int, reported: int
) -> None:
    """The first slice runs on the pool of the second one, and its own pool has lost its node."""
    act = Act(5.0, "create", 0, "train", "JobSet", "one", 2)
    world = World(Scenario(acts=(act,), candidates=ways, sources=("creation",) * ways))
    live(world)
    world.time.run_until(START + 300)
    (cluster,) = world.clusters.values()
    (made,) = cluster.workloads.values()
    first, second = cluster.list_pods_of(made)
    owned = {node.pool.owner.slice_name: node for node in cluster.nodes.values() if node.pool.owner}
    left, used = owned[first.plan.slice_name], owned[second.plan.slice_name]
    del cluster.nodes[left.name]
    first.node, second.node, used.pods = used, None, [first]
    since = world.time.now - 100
    second.view = replace(second.view, node_name="", unschedulable=True, unschedulable_since=since)
    cluster.waiting[second.view.uid] = second
    cluster.events[second.view.uid] = {("", "[pool_in_use]"): world.time.now}
    judge_rest(world)
    world.time.close()

    messages = [each.text for each in world.judge.violations if each.invariant == "every demand answered"]
    assert ["[pool_in_use] is the last word" in each for each in messages] == [True] * reported


@pytest.mark.parametrize("failed", [False, True], ids=["RUNNING_WITH_ERROR", "ERROR"])
@pytest.mark.parametrize("wanted", [2, 4], ids=["spare nodes", "closed nodes"])
def test_an_elastic_pool_with_errors_is_judged_by_its_nodes(
    monkeypatch: pytest.MonkeyPatch, wanted: int, *, failed: bool
) -> None:
    """Seed 3988. The second scaling comes when nodes are closed, and before they are removed."""
    acts = (
        Act(5.0, "create", 0, "train", "RayCluster", "gpu", 4),
        Act(300.0, "scale", 0, "train", count=2),
        Act(1305.0, "degrade", 0, "train", flag=failed),
        Act(1310.0, "scale", 0, "train", count=wanted),
    )
    scenario = Scenario(acts=acts, sweeps=(900.0, 1300.0))
    assert run_scenario(scenario).violations == []
    monkeypatch.setattr(sweep_pools, "is_resizable", lambda pool: pool.status == PoolStatus.RUNNING)
    found = run_scenario(scenario).violations

    assert {each.invariant for each in found} == {"every pool ends"}
    assert f"RayCluster wants {wanted}" in found[0].text


@pytest.mark.parametrize("kind", KIND_NAMES)
@pytest.mark.parametrize(("shape", "pinned"), [("one", False), ("one", True), ("gpu", False), ("gpu", True)])
def test_the_judge_and_the_product_agree_which_workloads_are_elastic(
    kind: str, shape: str, *, pinned: bool
) -> None:
    """Seed 8690272: the judge asked of a slice what only an elastic pool can: grow elsewhere."""
    made = Workload(kind, "train", "uid-1", SHAPES[shape], 2, pinned)

    assert made.elastic == bool(list_elastic(made.view))


@pytest.mark.parametrize(("skew", "reported"), [(0.0, True), (3600.0, False)])
def test_a_wait_that_begins_in_the_future_does_not_count_yet(skew: float, *, reported: bool) -> None:
    """Seed 8706048: an empty pool is not left before the wait of its pod can be true."""
    act = Act(5.0, "create", 0, "train", "JobSet", "one", 1)
    world = World(Scenario(acts=(act,), candidates=2, skew_seconds=skew))
    live(world)
    world.time.run_until(START + 60)
    (cluster,) = world.clusters.values()
    (made,) = cluster.workloads.values()
    (pod,) = cluster.list_pods_of(made)
    (pool,) = world.gke.pools[cluster.name].values()
    assert pool.autoscaled
    pool.short = pool.size
    cluster.events[pod.view.uid] = {("", "[pool_in_progress]"): world.time.now + 1}
    judge_rest(world)
    world.time.close()

    assert ("served when there is capacity" in {each.invariant for each in world.judge.violations}) == reported
