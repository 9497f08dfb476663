"""The simulator finds nothing new, and a seed gives the same scenario and a short one."""

import gc
import subprocess
import sys

import pytest

from tests.simulation.campaigns import run_seeds, tell_scenario
from tests.simulation.shrinking import shrink
from tests.simulation.sim_run import run_scenario
from tests.simulation.sim_scenario import Act, Scenario
from tests.simulation.sim_scenarios import make_scenario
from tests.simulation.virtual_time import Task

SCENARIOS = 500


def test_five_hundred_scenarios_violate_nothing() -> None:
    figures = run_seeds(range(SCENARIOS))

    assert figures.scenarios == SCENARIOS
    told = [line for seeds in figures.violated.values() for line in tell_scenario(seeds[0])]
    assert not figures.violated, "\n".join(told)
    # What would show that the scenarios are empty.
    assert figures.counts["creates"] > SCENARIOS
    assert figures.counts["deletes"] > SCENARIOS / 2
    assert figures.counts["faults struck"] > SCENARIOS / 4
    assert figures.counts["scenarios with an autoscaled pool or a slow stockout"] >= SCENARIOS * 0.3
    for name in (
        "scale-ups without machines",
        "creations that failed after 35 minutes",
        "creations that came good late",
    ):
        assert figures.counts[name] > SCENARIOS / 50, name


def test_a_seed_gives_the_same_scenario_in_another_process() -> None:
    here = tell_scenario(7, short=False)

    there = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "7", "--whole"], capture_output=True, text=True, check=True
    ).stdout

    assert there == "\n".join(here) + "\n"


@pytest.mark.usefixtures("_prepared")
@pytest.mark.parametrize("kind", ["Job", "StatefulSet"])
def test_a_workload_that_is_called_like_an_elastic_pool_keeps_its_slice(kind: str) -> None:
    acts = (
        Act(5.0, "create", 0, "eval-any-policy", kind, "two", 1),
        Act(900.0, "preempt", 0, "eval-any-policy", count=2),
    )

    result = run_scenario(Scenario(acts=acts, sweeps=(60.0, 910.0)))

    assert result.violations == []
    assert (result.figures["creates"], result.figures["deletes"]) == (1, 0)


@pytest.mark.usefixtures("_prepared")
def test_a_plain_life_violates_nothing() -> None:
    acts = (
        Act(5.0, "create", 0, "train", "JobSet", "two", 2, flag=True),
        Act(900.0, "restart", 0, "train"),
        Act(1500.0, "complete", 0, "train"),
    )
    scenario = Scenario(acts=acts, sweeps=(60.0, 600.0, 1200.0))

    result = run_scenario(scenario, tell=True)

    assert result.violations == []
    assert (result.figures["creates"], result.figures["deletes"]) == (2, 2), "\n".join(result.lines)


@pytest.mark.usefixtures("_prepared")
def test_a_scenario_is_shrunk_to_what_it_needs() -> None:
    scenario = make_scenario(11)
    verbs = {act.verb for act in scenario.acts}
    assert len(verbs) > 1

    short = shrink(scenario, lambda each: any(act.verb == "create" for act in each.acts))

    assert [act.verb for act in short.acts] == ["create"]
    assert (short.faults, short.sweeps) == ((), ())


@pytest.mark.usefixtures("_prepared")
def test_a_scenario_that_is_over_keeps_no_task_in_memory() -> None:
    """A campaign runs thousands of scenarios in one process."""
    assert run_scenario(make_scenario(3)).violations == []
    gc.collect()

    assert [each for each in gc.get_objects() if isinstance(each, Task)] == []
