"""The judge counts what cannot be prevented, and reports what rests on an old look."""

import re

import pytest

from shared.core.identity.pools import PoolStatus
from shared.engine.entries import answer_waiting
from shared.engine.looks import gather
from shared.engine.places import Places
from tests.simulation.mutations import forget_sent
from tests.simulation.sim_faults import Invocation
from tests.simulation.sim_filling import select_ways
from tests.simulation.sim_pool_bodies import Pool
from tests.simulation.sim_run import run_scenario
from tests.simulation.sim_scenario import START, Act, Fault, Scenario, Stock
from tests.simulation.sim_scenarios import make_scenario
from tests.simulation.sim_world import World

pytestmark = pytest.mark.usefixtures("_prepared")
FAILS = Act(1275.0, "degrade", 0, "train", flag=True)


def a_removal_of_labels(method: str) -> Scenario:
    """Return a scenario where a person removes labels while a call of the sweep takes 300 s.

    The grace of the suspension is over, so the sweep is about to delete the pool.
    """
    acts = (
        Act(5.0, "create", 0, "train", "JobSet", "two", 1, flag=True),
        Act(600.0, "suspend", 0, "train"),
        Act(1100.0, "relabel", 0, "train", flag=True),
    )
    stall = Fault(950.0, "stall", method, 0, 300.0)
    return Scenario(acts=acts, faults=(stall,), sweeps=(1000.0,))


def test_labels_that_are_removed_while_the_delete_is_on_its_way_are_counted() -> None:
    """Seed 47590 of commit 89af47e: GKE takes the request minutes after it was sent."""
    result = run_scenario(a_removal_of_labels("delete"), tell=True)

    assert result.violations == []
    assert result.figures["labels removed after the look"] == 1, "\n".join(result.lines)


@pytest.mark.parametrize("method", ["get", "list_pool_pods", "get_namespace"])
def test_labels_that_are_removed_before_the_delete_is_sent_keep_the_pool(method: str) -> None:
    result = run_scenario(a_removal_of_labels(method), tell=True)

    assert result.violations == []
    assert result.figures["deletes"] == 0, "\n".join(result.lines)
    assert any("FAULT stall" in line for line in result.lines)


def test_a_foreign_pool_that_gets_the_name_while_the_delete_is_on_its_way_is_counted() -> None:
    """Seed 1017146: the pool of the request is gone when GKE takes it."""
    acts = (
        Act(5.0, "create", 0, "train", "JobSet", "two", 1, flag=True),
        Act(600.0, "suspend", 0, "train"),
        Act(1010.0, "remove-pool", 0, "train"),
        Act(1200.0, "take-name", 0, "train"),
    )
    scenario = Scenario(acts=acts, faults=(Fault(950.0, "stall", "delete", 0, 300.0),), sweeps=(1000.0,))

    result = run_scenario(scenario, tell=True)

    assert result.violations == []
    assert result.figures["labels removed after the look"] == 1, "\n".join(result.lines)


@pytest.mark.parametrize(
    ("shape", "lost", "more", "sweeps", "deleted"),
    [
        pytest.param("two", 0, (), (1202.0,), r"sweep: GKE begins to delete", id="which the autoscaler empties"),
        pytest.param("gpu", 2, (FAILS,), (1235.0, 1290.0), r"GKE begins to delete .*\(ERROR\)", id="in ERROR"),
    ],
)
def test_a_pool_whose_nodes_are_lost_for_good_is_neither_needed_nor_about_to_get_machines(
    shape: str, lost: int, more: tuple[Act, ...], sweeps: tuple[float, ...], deleted: str
) -> None:
    """Seed 1019258: a node is lost, and 15 minutes later the autoscaler removes the other one.

    Seed 1003845: all nodes are lost, and the pods get a pool of the next way.
    """
    create = Act(5.0, "create", 0, "train", "StatefulSet", shape, 1)
    acts = (create, Act(300.0, "preempt", 0, "train", count=lost, flag=True), *more)

    result = run_scenario(Scenario(acts=acts, sweeps=sweeps, candidates=2), tell=True)

    assert result.violations == [], "\n".join(result.lines)
    assert any(re.search(deleted, line) for line in result.lines), "\n".join(result.lines)


@pytest.mark.parametrize(
    ("looked", "whole", "asked", "counted"),
    [(98, 99, 100, True), (98, 97, 100, False), (60, 99, 100, False), (None, 99, 100, False)],
    ids=["nodes after the look", "nodes before it", "an old look", "no look"],
)
def test_nodes_are_counted_only_if_they_come_after_a_young_look(
    looked: int | None, whole: int, asked: int, counted: bool
) -> None:
    """Seed 1022814: the nodes of a failed pool come while its next attempt is created."""
    world = World(Scenario())
    pool = Pool("c", "p", {}, PoolStatus.ERROR, 2, "ct4p-hightpu-4t", "2x2x2", START)
    run = Invocation("sweep", 0, START, call_began=START + asked)
    pool.healthy_since = START + whole
    if looked is not None:
        run.node_looks["c", "p"] = START + looked

    assert world.fills.count_late_nodes(pool, run) is counted
    assert world.fills.late_machines == int(counted)


@pytest.mark.parametrize(("used", "lent", "ways"), [(0, 0, 2), (500, 0, 2), (500, 90, 2), (500, 500, 1)])
def test_a_pool_that_another_slice_used_is_no_way_that_was_left(used: int, lent: int, ways: int) -> None:
    """Seed 7005724: a slice ran on the pool of another one, which got a second pool.

    Then the spec changed, and both pools were idle until the next sweep.
    """
    pools = [
        Pool("c", name, {}, PoolStatus.RUNNING, 2, "ct4p-hightpu-4t", "2x2x2", START + at)
        for name, at in (("first", 10), ("second", 100))
    ]
    pools[0].used_at, pools[0].lent_at = START + used, START + lent

    assert len(select_ways(pools)) == ways


def two_pools_after_a_duplicate() -> Scenario:
    """Return a scenario of two messages at once, of which GKE refuses the first create of one.

    The pool of the other one gets its machines late, when the slice has lost a host for good.
    """
    acts = (
        Act(49.1, "create", 0, "w0", "RayCluster", "two", 1, flag=True),
        Act(780.5, "preempt", 0, "w0", flag=True),
    )
    faults = (Fault(49.1, "duplicate", seconds=3.0), Fault(49.1, "quota", "create"))
    stock = (Stock(0.0, "a", 0), Stock(1231.3, "a", 2))
    sweeps = tuple(range(840, 3000, 120))
    ways = ("creation", "creation", "reservation")
    return Scenario(seed=1141, acts=acts, faults=faults, sweeps=sweeps, candidates=3, sources=ways, stock=stock)


def test_two_pools_of_one_slice_are_reported_also_if_both_were_on_their_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 1141: the pod that is left keeps the slice off the pool that is whole."""
    monkeypatch.setattr(Places, "is_sent", forget_sent(Places.is_sent))  # as if another instance had sent one
    result = run_scenario(two_pools_after_a_duplicate(), tell=True)
    assert result.violations == []
    assert result.figures["second pools on their way"] == 1, "\n".join(result.lines)
    monkeypatch.setattr(gather, "decide_lost", lambda *_, **__: None)
    found = run_scenario(two_pools_after_a_duplicate()).violations

    assert {each.invariant for each in found} == {"one way"}


def a_half_made_pool(*faults: Fault) -> Scenario:
    """Return a scenario where GKE makes two of three nodes, and another zone has room."""
    acts = (Act(18.4, "create", 0, "w0", "Job", "gpu", 3, flag=True),)
    stock = (Stock(0.0, "a", 0), Stock(2016.3, "a", 2))
    sweeps = tuple(range(60, 2400, 120))
    return Scenario(seed=7303498, acts=acts, faults=faults, sweeps=sweeps, candidates=2, stock=stock)


def test_a_slice_is_left_without_only_if_gke_would_create_its_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_scenario(a_half_made_pool(Fault(646.1, "no-quota", seconds=1e6))).violations == []
    assert run_scenario(a_half_made_pool()).violations == []
    monkeypatch.setattr(answer_waiting, "add_pool", lambda *_, **__: None)
    found = run_scenario(a_half_made_pool()).violations

    assert {each.invariant for each in found} == {"served when there is capacity"}


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(7407618, id="a creation of 75 minutes succeeds between the look and the delete"),
        pytest.param(7504162, id="the first node of an idle pool comes between the look and the delete"),
        pytest.param(7407650, id="the leader runs on a foreign pool, and keeps the others off its own"),
        pytest.param(7600676, id="a person takes the labels off the record of the failures"),
        pytest.param(7409756, id="a limit refuses the pool of the slice that lacks one"),
        pytest.param(7917475, id="the sweep asks what GKE says of a creation only after a minute"),
        pytest.param(8460723, id="a pool is asked for all pods, also for one on a pool of an earlier object"),
        pytest.param(8490220, id="GKE takes the delete of a surplus pool after its owner has gone"),
        pytest.param(8539250, id="GKE takes the create of a workload that was made anew meanwhile"),
        pytest.param(8528681, id="a stale list of pools does not show that an idle pool runs"),
        pytest.param(7934530, id="GKE takes a create 90 s after its label was written"),
        pytest.param(8716559, id="a pod is evicted elsewhere after the look, so it did not wait for the pool"),
    ],
)
def test_what_the_product_cannot_prevent_is_no_violation(seed: int) -> None:
    """The mutations show that the same promises are still judged."""
    assert run_scenario(make_scenario(seed)).violations == []
