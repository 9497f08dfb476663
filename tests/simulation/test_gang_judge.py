"""The judge of gangs lets the product ask GKE for what lacks, and reports what is held later."""

from dataclasses import replace

import pytest

from shared.core.decide import capacity_first
from shared.core.decisions import Decision, Reason, Verdict
from shared.engine.steps import gang_pools, resume_workloads
from tests.simulation import sim_run
from tests.simulation.sim_acts import apply_act
from tests.simulation.sim_run import run_scenario
from tests.simulation.sim_scenario import CLUSTERS, START, Act, Fault, Scenario, Stock
from tests.simulation.sim_scenarios import make_scenario
from tests.simulation.sim_world import World

pytestmark = pytest.mark.usefixtures("_prepared")


def a_part_without_sweeps(refused_until: float) -> Scenario:
    """Return a scenario where GKE refuses the pool of one of two slices for some time.

    The sweep sees the part at 300 s. Its time is over when the next sweep runs.
    """
    acts = (Act(5.0, "ask", 0, "gang", "JobSet", "one", 2, flag=True),)
    faults = (Fault(0.0, "quota", "create"), Fault(10.0, "no-quota", seconds=refused_until - 10))
    return Scenario(acts=acts, faults=faults, sweeps=(300.0, 950.0, 970.0), gang_seconds=600)


def test_a_part_is_held_by_the_sweep_that_first_asks_gke_for_the_rest() -> None:
    """Seed 7612805: no sweep ran while the time ended, and GKE takes the create of the next one."""
    result = run_scenario(a_part_without_sweeps(800.0), tell=True)

    assert result.violations == []
    swept = [line for line in result.lines if " sweep: GKE " in line]
    assert "accepts the create" in swept[0], "\n".join(result.lines)
    assert "begins to delete" in swept[1], "\n".join(result.lines)


@pytest.mark.parametrize(("refused_until", "reported_at"), [(800.0, 970.0), (1000.0, 950.0)])
def test_a_part_is_reported_after_gke_had_its_chance(
    monkeypatch: pytest.MonkeyPatch, refused_until: float, reported_at: float
) -> None:
    """The next sweep must end the round, or the same sweep if GKE refuses the create."""
    assert run_scenario(a_part_without_sweeps(refused_until)).violations == []
    monkeypatch.setattr(gang_pools, "decide_round", lambda *_, refused=None, **__: refused)
    found = run_scenario(a_part_without_sweeps(refused_until)).violations

    assert {each.invariant for each in found} == {"gangs"}
    assert all("only 1 of its slices have pools" in each.text for each in found)
    assert 0 < min(each.at for each in found) - reported_at < 15


def a_part_of_a_running_jobset(*, candidates: int = 0, lacks: str = "") -> Scenario:
    """Return a scenario where one of two slices loses its pool: by hand, or to errors."""
    create = Act(50.0, "create", 0, "train", "JobSet", "one", 2, flag=True)
    errors = (Act(675.0, "preempt", 0, "train", count=2, flag=True), Act(758.0, "degrade", 0, "train", flag=True))
    return Scenario(
        acts=(create, *((Act(675.0, "remove-pool", 0, "train"),) if lacks else errors)),
        faults=(Fault(600.0, lacks, seconds=2000.0),) if lacks else (),
        sweeps=tuple(range(840, 2000, 60)) if lacks else (802.0,),
        candidates=candidates,
        sources=("reservation",) * candidates,
        gang_seconds=700,
        release_seconds=120,
    )


def test_errors_that_tell_of_no_capacity_demand_no_release() -> None:
    """Seed 7830006: a pool without nodes is in ERROR, and GKE names no lack of capacity."""
    result = run_scenario(a_part_of_a_running_jobset())

    assert result.violations == []
    assert result.figures["workloads suspended with a part of it"] == 0


@pytest.mark.parametrize(("lacks", "candidates"), [("no-chips", 0), ("no-stock", 2)])
def test_a_creation_that_failed_without_capacity_demands_a_release(
    monkeypatch: pytest.MonkeyPatch, lacks: str, candidates: int
) -> None:
    """Quota, and a reservation without machines: GKE tells both within a minute, as an ERROR."""
    scenario = a_part_of_a_running_jobset(candidates=candidates, lacks=lacks)
    result = run_scenario(scenario)

    assert result.violations == []
    assert result.figures["workloads suspended with a part of it"] == 1

    monkeypatch.setattr(resume_workloads, "decide_partial", lambda *_, **__: None)
    found = run_scenario(scenario).violations

    assert {each.invariant for each in found} == {"gangs"}
    assert "has no pool for 120 s" in found[0].text


def a_pool_that_comes_during_a_sweep() -> Scenario:
    """Return a scenario where one of three slices has its pool, and the pool of another one comes.

    The zone has one host, and a second one from 140 s on. GKE finds it at 204 s. The sweep looks at
    215 s, and its last read takes 150 s.
    """
    return Scenario(
        acts=(Act(50.0, "create", 0, "train", "JobSet", "one", 3, flag=True),),
        faults=(Fault(200.0, "stall", "list_waiting_followers", seconds=150.0),),
        sweeps=(215.0, 420.0),
        stock=(Stock(0.0, "b", 1), Stock(140.0, "b", 2)),
        gang_seconds=700,
        release_seconds=120,
    )


def test_a_part_is_kept_by_a_sweep_in_which_the_pool_of_another_slice_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 8250499: the pod was bound before the sweep ended, so only one slice waited then."""
    scenario = a_pool_that_comes_during_a_sweep()
    result = run_scenario(scenario, tell=True)

    assert result.violations == [], "\n".join(result.lines)
    bound = [line for line in result.lines if "pod train-" in line][1]
    assert 215 < float(bound.split()[0]) < 365, "\n".join(result.lines)

    monkeypatch.setattr(resume_workloads, "decide_partial", lambda *_, **__: None)
    found = run_scenario(scenario).violations
    assert [each.invariant for each in found if each.at < 430] == ["gangs"], "the next sweep must release it"
    assert "has no pool for 120 s" in found[0].text
    assert found[0].at > 420


def a_pool_that_comes_late() -> Scenario:
    """Return a scenario where a zone has one host, and another one after the round has ended."""
    return Scenario(
        acts=(Act(5.0, "ask", 0, "gang", "JobSet", "one", 2, flag=True),),
        sweeps=(135.0, 300.0, 360.0),
        stock=(Stock(0.0, "b", 1), Stock(140.0, "b", 2)),
        gang_seconds=600,
    )


def test_a_pool_that_comes_good_in_the_pause_may_be_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 8034164: GKE told of no capacity, so the round ended, and found it in the pause."""
    monkeypatch.setattr(capacity_first, "find_pause", lambda *_: 400.0)
    result = run_scenario(a_pool_that_comes_late(), tell=True)

    assert result.violations == [], "\n".join(result.lines)
    returned = [line for line in result.lines if " sweep: GKE begins to delete gang-" in line]
    assert len(returned) >= 2, "\n".join(result.lines)
    assert any("GKE finds machines" in line for line in result.lines)


def test_a_pool_of_the_next_round_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round ends when its first pool runs. Pauses last for a minute."""
    ends = Decision(Verdict.DELETE, Reason.GANG_INCOMPLETE, "for no reason")
    monkeypatch.setattr(
        gang_pools, "decide_round", lambda held, *_, **__: ends if held.running and held.wanting else None
    )
    scenario = replace(a_pool_that_comes_late(), stock=(), sweeps=tuple(range(65, 400, 5)))
    found = [each for each in run_scenario(scenario).violations if "is given back" in each.text]

    assert max(each.at for each in found) - min(each.at for each in found) > 100


def test_what_a_sweep_that_crashed_has_not_given_back_is_held_in_the_next_round() -> None:
    """The round has ended, and the pause is over before the next sweep, so its pools are kept."""
    asked = replace(a_part_without_sweeps(1000.0), sweeps=(300.0, 360.0, 950.0, 1100.0, 1160.0))
    crashed = replace(asked, faults=(*asked.faults, Fault(940.0, "crash", "delete")))

    assert run_scenario(asked).violations == []
    result = run_scenario(crashed, tell=True)
    assert "crashes" in "\n".join(result.lines)
    assert result.violations == []


def test_a_pool_that_only_other_workloads_use_is_no_part_that_is_kept() -> None:
    """Seed 8564835: the product counts it as to spare, because no release gives it back."""
    world = World(Scenario())
    for name, slices in (("train", 2), ("other", 1)):
        apply_act(world, Act(0.0, "create", 0, name, "JobSet", "one", slices, flag=True))
    world.time.run_until(START + 600)
    cluster = world.clusters[CLUSTERS[0]]
    train, other = (cluster.workloads["JobSet", name] for name in ("train", "other"))
    ((node, *_), *_), (theirs, *_) = (
        [cluster.list_nodes(pool) for pool in world.gke.list_owned(cluster.name, made)] for made in (train, other)
    )
    assert world.gangs._count_lent(cluster, train) == 0
    node.pods[:] = theirs[0].pods

    assert world.gangs._count_lent(cluster, train) == 1


def test_a_workload_with_room_has_the_time_for_a_round_with_each_candidate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half an hour and more comes before each round, and the next one begins where both fit."""
    scenario = make_scenario(8530024)

    assert run_scenario(scenario).violations == []
    monkeypatch.setattr(sim_run, "_end_rounds", lambda _: None)
    (found,) = run_scenario(scenario).violations
    assert found.invariant == "served when there is capacity"
