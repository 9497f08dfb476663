"""The promises hold if GKE answers otherwise than the simulator's model does."""

import dataclasses
from typing import Any

import pytest

from shared.core.errors import Throttled
from tests.simulation.sim_answers import Answers
from tests.simulation.sim_operations import Operations
from tests.simulation.sim_run import Result, run_scenario
from tests.simulation.sim_scenario import Act, Fault, Scenario
from tests.simulation.sim_scenarios import make_scenario

LIFE = Scenario(
    acts=(Act(5.0, "create", 0, "train", "JobSet", "two", 3), Act(900.0, "complete", 0, "train")),
    sweeps=(60.0, 300.0, 1300.0),
)


def _live(answers: Answers, **changes: Any) -> Result:
    result = run_scenario(dataclasses.replace(LIFE, answers=answers, **changes), tell=True)
    assert result.violations == []
    return result


def _find(result: Result, text: str) -> list[float]:
    """Return when the lines with a text were written, in seconds from the start."""
    return [float(line.split()[0]) for line in result.lines if text in line]


@pytest.mark.usefixtures("_prepared")
def test_operations_wait_for_their_turn() -> None:
    at_once, in_turn = (_live(Answers(running_max=most)) for most in (3, 1))

    bound = [_find(each, "is bound to")[-1] for each in (at_once, in_turn)]
    assert bound[0] < 130
    assert bound[1] > 3 * 60


@pytest.mark.usefixtures("_prepared")
def test_a_create_above_the_open_operations_is_refused_until_one_ends() -> None:
    operations = Operations(Answers(open_max=1))
    operations.begin("a", "one", lambda: None)

    with pytest.raises(Throttled):
        operations.check("a")
    operations.check("b")
    operations.end("a", "one")
    operations.check("a")
    assert _live(Answers(open_max=1)).figures["creates"] == 3


@pytest.mark.usefixtures("_prepared")
def test_audit_entries_come_later() -> None:
    soon, late = (_find(_live(Answers(audit_delay=delay)), "has ended)")[0] for delay in (0.0, 90.0))

    assert late == pytest.approx(soon + 90.0, abs=2.0)


@pytest.mark.usefixtures("_prepared")
@pytest.mark.parametrize("told", [{"hidden_reads": 1}, {"get_lag": 10, "list_lag": 10}], ids=["404", "lag"])
def test_a_pool_that_is_not_shown_yet_is_made_once(told: dict[str, float]) -> None:
    assert _live(Answers(**told)).figures["creates"] == 3  # type: ignore[arg-type]


@pytest.mark.usefixtures("_prepared")
@pytest.mark.parametrize("seed", [360, 405])
def test_what_no_list_can_show_yet_is_no_excess(seed: int) -> None:
    """The next sweep comes eight seconds after the one that created the other pool."""
    scenario = dataclasses.replace(make_scenario(seed), answers=Answers(get_lag=10, list_lag=10))

    assert run_scenario(scenario).violations == []


@pytest.mark.usefixtures("_prepared")
def test_a_creation_without_machines_fails_when_the_answers_say() -> None:
    dry = (Fault(0.0, "no-stock", seconds=1200.0),)

    result = _live(Answers(tries_tpu=60.0), faults=dry)

    assert result.figures["creations that failed after 35 minutes"] >= 3
