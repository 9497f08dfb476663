"""A seed gives the same story and a short one, and a plain life violates nothing."""

import gc
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.simulation.sim_run import run_scenario, shrink
from tests.simulation.sim_scenarios import Act, Scenario, make_scenario
from tests.simulation.virtual_time import Task


@pytest.mark.parametrize("seed", [8_920_157, 1058])
def test_a_seed_gives_the_same_story_in_another_process(seed: int) -> None:
    """Whatever the order of sets is there."""
    here, there = (tell_elsewhere(seed, hashes) for hashes in "02")

    assert here == there
    assert "provision tick" in here


def tell_elsewhere(seed: int, hashes: str) -> str:
    """Return the story of a seed that a process with some order of sets tells."""
    command = [sys.executable, "-m", "tests.simulation", str(seed), "--whole"]
    environment = os.environ | {"PYTHONHASHSEED": hashes}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment).stdout


BIRTH = Act(5.0, "create", 0, "train", "JobSet", "two", 2, flag=True)
LIVES = {
    "restarted and completed": (BIRTH, [("restart", 900.0), ("complete", 1500.0)], 2),
    "ends after one of its slices": (BIRTH, [("finish-slice", 900.0), ("complete", 910.0)], 2),
    "a worker group of more replicas than its maximum": (
        replace(BIRTH, kind="RayCluster", count=3, flag=False),
        [],
        1,
    ),
}
"""A birth, what is done to the workload, and how many pools it gets."""


@pytest.mark.usefixtures("_prepared")
@pytest.mark.parametrize("name", LIVES)
def test_a_plain_life_violates_nothing(name: str) -> None:
    birth, deeds, pools = LIVES[name]
    acts = [birth, *(Act(at, verb, 0, "train") for verb, at in deeds)]

    result = run_scenario(Scenario(acts=acts, ticks=[60.0, 600.0, 1200.0]), tell=True)

    assert result.violations == []
    counts = result.figures["creates"], result.figures["deletes"]
    assert counts == (pools, pools * bool(deeds)), "\n".join(result.lines)
    assert not [line for line in result.lines if "slice_doubled" in line]


def test_a_story_is_shrunk_to_what_it_needs() -> None:
    scenario = make_scenario(11)
    assert len({act.verb for act in scenario.acts}) > 1

    short = shrink(scenario, lambda each: any(act.verb == "create" for act in each.acts))

    assert [act.verb for act in short.acts] == ["create"]
    assert (short.faults, short.ticks) == ([], [])


@pytest.mark.usefixtures("_prepared")
def test_a_story_that_is_over_keeps_no_task_in_memory() -> None:
    """A campaign runs thousands of stories in one process."""
    run_scenario(make_scenario(3))
    gc.collect()

    assert [each for each in gc.get_objects() if isinstance(each, Task)] == []
