"""Each safety of the product that is missing shows in a story, which else violates nothing."""

import pytest

from tests.simulation.safeties import SAFETIES, STORIES
from tests.simulation.sim_run import run_scenario
from tests.simulation.sim_scenarios import make_scenario


@pytest.mark.usefixtures("_prepared")
@pytest.mark.parametrize("name", SAFETIES)
def test_a_missing_safety_is_noticed(name: str) -> None:
    safety = SAFETIES[name]
    shown_by = safety.shown_by
    scenario = STORIES[shown_by] if isinstance(shown_by, str) else make_scenario(shown_by)

    with safety.missing():
        shown = {each.invariant for each in run_scenario(scenario).violations}

    assert shown - {"no exception"}
    assert run_scenario(scenario).violations == []
