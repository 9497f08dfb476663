"""The judge counts what cannot be prevented, and reports what rests on an old look."""

import dataclasses
import math
import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from shared.core.decide import gangs
from shared.core.decide.gangs import Gang, plan_gang
from shared.core.decisions import Decision
from shared.core.identity.pools import PoolStatus
from shared.core.settings import Settings
from shared.core.workloads import WorkloadView
from shared.engine.entries import answer_waiting
from shared.engine.looks import gather
from shared.engine.places import Places
from shared.engine.steps import gang_pools, resume_workloads
from tests.builders import a_pool
from tests.simulation.mutations import forget_sent
from tests.simulation.sim_cluster import SimPod
from tests.simulation.sim_faults import Invocation
from tests.simulation.sim_filling import select_ways
from tests.simulation.sim_pool_bodies import Pool
from tests.simulation.sim_run import live, run_scenario
from tests.simulation.sim_scenario import CLUSTERS, START, Act, Fault, Scenario, Stock
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


def a_starving_slice(sweep: float) -> Scenario:
    """Return a scenario where one of two slices has its pool, and GKE has no machine for the other.

    The second zone says so after 165 s. The autoscaler tries again from 466 to 488 s.
    """
    acts = (Act(5.0, "create", 0, "train", "JobSet", "one", 2, flag=True),)
    stock, sweeps = (Stock(0.0, "a", 1), Stock(0.0, "b", 0)), (65.0, 115.0, sweep)
    return Scenario(acts=acts, sweeps=sweeps, candidates=2, stock=stock, gang_seconds=300, release_seconds=120)


def test_a_part_is_kept_while_the_autoscaler_tries_again() -> None:
    """Seed 3003515: a machine may come of the try that goes on while the sweep looks."""
    result = run_scenario(a_starving_slice(475.0), tell=True)

    assert result.violations == []
    tries = [float(line.split()[0]) for line in result.lines if "the autoscaler finds no machines" in line]
    assert any(480 < at < 490 for at in tries), "\n".join(result.lines)


@pytest.mark.parametrize("cap", [50, 1])
def test_a_part_that_is_kept_between_two_tries_is_reported(monkeypatch: pytest.MonkeyPatch, cap: int) -> None:
    scenario = dataclasses.replace(a_starving_slice(200.0), cap=cap)
    assert run_scenario(scenario).violations == []
    monkeypatch.setattr(resume_workloads, "decide_partial", lambda *_, **__: None)
    found = run_scenario(scenario).violations

    assert any("has no pool for 120 s, and train keeps 1" in each.text for each in found if each.at < 210)


def test_a_part_is_kept_while_the_cap_leaves_its_next_way_to_the_next_sweep() -> None:
    """Seed 8201441: slice 1 of w0 lacks a pool, and the sweep has deleted one of another JobSet."""
    acts = (
        Act(57.7, "create", 0, "w0", "JobSet", "one", 2),
        Act(58.2, "take-name", 0, "w0", flag=True),
        Act(127.1, "ask", 0, "gang", "JobSet", "one", 2, flag=True),
        Act(365.3, "create", 0, "part", "JobSet", "one", 3),
    )
    scenario = dataclasses.replace(a_starving_slice(540.7), seed=8201441, acts=acts, stock=(Stock(0.0, "a", 3),))
    scenario = dataclasses.replace(scenario, sweeps=(540.7,), cap=1, gang_seconds=700, release_seconds=400)
    result = run_scenario(scenario, tell=True)

    assert result.violations == []
    assert any("the autoscaler finds no machines for w0-w-1" in line for line in result.lines)


def a_gang(*more: Act) -> Scenario:
    """Return a scenario where a workload waits for the capacity of its slices."""
    acts = (Act(5.0, "ask", 0, "gang", "RayCluster", "one", 1, flag=True), *more)
    return Scenario(acts=acts, sweeps=(300.0, 360.0), gang_seconds=300)


def test_a_gang_without_slices_waits_for_no_capacity() -> None:
    """Seed 1006033: it is scaled to none while it waits."""
    scaled = run_scenario(a_gang(Act(20.0, "scale", 0, "gang", count=0)), tell=True)
    assert scaled.violations == []
    assert any("GKE begins to delete gang-g-0" in line for line in scaled.lines), "\n".join(scaled.lines)


def test_a_gang_with_slices_that_is_taken_for_one_without_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none(cluster: str, made: WorkloadView, settings: Settings) -> Gang | Decision:
        return plan_gang(cluster, dataclasses.replace(made, groups=()), settings)

    assert run_scenario(a_gang()).violations == []
    monkeypatch.setattr(resume_workloads, "plan_gang", find_none)
    found = run_scenario(a_gang()).violations

    assert {each.invariant for each in found} == {"served when there is capacity"}
    assert all("[not_an_accelerator_demand]" in each.text for each in found)


@pytest.mark.parametrize(
    ("waits", "spread", "reported"),
    [(False, False, True), (True, False, True), (True, True, False)],
    ids=["all run", "one waits beside its free pool", "another slice is spread over both pools"],
)
def test_a_jobset_is_suspended_only_if_a_slice_can_have_no_pool(
    *, waits: bool, spread: bool, reported: bool
) -> None:
    """Seed 1002948: two of three slices are spread over all pools."""
    world = World(Scenario(acts=(Act(5.0, "create", 0, "train", "JobSet", "two", 2),)))
    live(world)
    world.time.run_until(START + 400)
    (cluster,) = world.clusters.values()
    (made,) = cluster.workloads.values()
    first, second = (
        [pod for pod in cluster.list_pods_of(made) if pod.plan.slice_name.endswith(end)] for end in "01"
    )
    if spread:
        first[0].node = second[0].node
    for pod in second if waits else ():
        pod.node = None
    world.gangs.see_change(cluster, made, suspended=True)
    world.time.close()

    messages = ["train is suspended, and all 2 slices have their pools"]
    assert [each.text for each in world.judge.violations] == messages * reported


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


def a_gang_world() -> tuple[World, Pool, SimPod]:
    """Return a world, the pool of a slice in it, and the slice's pod, which waits."""
    world = World(Scenario())
    pool = Pool(CLUSTERS[0], "p0", dict(a_pool().labels), PoolStatus.RUNNING, 1, "ct4p-hightpu-4t", "2x2x1", START)
    world.gke.add(pool)
    made = SimpleNamespace(uid=pool.owner and pool.owner.owner_uid, kind="JobSet", name="train", pinned=True)
    plan = SimpleNamespace(slice_name=pool.owner and pool.owner.slice_name)
    return world, pool, cast("SimPod", SimpleNamespace(workload=made, plan=plan))


@pytest.mark.parametrize(("ago", "most"), [(math.inf, 9), (4000.0, 9), (3000.0, 18)])
def test_a_round_of_a_gang_that_ends_lets_an_hour_have_the_tries_of_two(ago: float, most: int) -> None:
    """Seed 8305805: the pools of all slices are given back, and so are the records of failures."""
    world, pool, waiting = a_gang_world()
    world.gangs._ended_at[waiting.workload.uid] = START - ago
    for number in range(most):
        world.judge.see_create(dataclasses.replace(pool, name=f"p{number}"))
    reported = {each.invariant for each in world.judge.violations}
    world.judge.see_create(dataclasses.replace(pool, name=f"p{most}"))

    assert "creates per hour" not in reported
    assert "creates per hour" in {each.invariant for each in world.judge.violations}


@pytest.mark.parametrize(("again_at", "starves"), [(None, True), (5.0, True), (60.0, False), (100.0, False)])
def test_a_slice_does_not_starve_while_the_autoscaler_tries_again(
    again_at: float | None, *, starves: bool
) -> None:
    """Seed 8308749: it tried again right before the sweep, and failed right after it."""
    world, pool, waiting = a_gang_world()
    pool.autoscaled, pool.size, pool.short = True, 1, 1
    pool.note_machines(START + 1, error="GCE_STOCKOUT")
    if again_at is not None:
        pool.note_machines(START + again_at, coming=1)
        pool.note_machines(START + again_at + 10, error="GCE_STOCKOUT")

    assert world.gangs._starves(world.clusters[CLUSTERS[0]], waiting, START + 95) is starves


@pytest.mark.parametrize("moves_on", [True, False])
def test_a_gang_is_served_by_the_one_zone_with_room_for_all_of_it(
    monkeypatch: pytest.MonkeyPatch, *, moves_on: bool
) -> None:
    """Seed 7004175: zone b has room again right after a round has tried it.

    A product whose rounds all begin with the first candidate is still caught.
    """

    def give_pools(look: Any, gang: Any, workload: Any, request: gangs.CapacityRequest) -> gangs.GangAnswer:
        return gang_pools.give_pools(
            look, gang, workload, request if moves_on else dataclasses.replace(request, round=0)
        )

    monkeypatch.setattr(resume_workloads, "give_pools", give_pools)
    rows = ((0.0, "a", 0), (819.1, "a", 2), (1603.7, "b", 0), (2035.8, "c", 2), (2042.6, "b", 4))
    acts = (
        Act(90.6, "create", 0, "w2", "Deployment", "gpu", 1),
        Act(162.8, "ask", 0, "gang", "JobSet", "one", 3, flag=True),
        Act(654.2, "replay", 0, ""),
    )
    sweeps = (1380.5, 1620.2, 1984.4)
    stock = tuple(Stock(*row) for row in rows)
    scenario = Scenario(seed=7004175, acts=acts, sweeps=sweeps, candidates=3, stock=stock, gang_seconds=300)

    result = run_scenario(scenario, tell=True)

    assert [each.invariant for each in result.violations] == (
        [] if moves_on else ["served when there is capacity"]
    )
    assert result.figures["workloads resumed with their capacity"] == int(moves_on), "\n".join(result.lines)


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
        pytest.param(7929240, id="a stranger's pool has the name of the pool that a gang lacks"),
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
