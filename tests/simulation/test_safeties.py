"""Each safety of the product that is missing shows in its story, which else violates nothing."""

import pytest

from tests.simulation.safeties import SAFETIES, STORIES
from tests.simulation.sim_run import run_scenario


@pytest.mark.usefixtures("_prepared")
@pytest.mark.parametrize("name", SAFETIES)
def test_a_missing_safety_is_noticed(name: str) -> None:
    story = STORIES[SAFETIES[name].story]

    with SAFETIES[name].missing():
        shown = {each.invariant for each in run_scenario(story).violations}

    assert shown - {"no exception"}
    assert run_scenario(story).violations == []
