"""Some hundred spoilt inputs at each border, the same in every run; `make fuzz` passes more."""

import dataclasses

import pytest

from shared.core.errors import Misconfigured
from shared.environment import name_variable
from tests.fuzz.border import Border, Finding, fuzz
from tests.fuzz.borders import BORDERS
from tests.fuzz.setting_variables import CONTRADICTIONS, PROGRAMS, Environment, list_variables, start

_INPUTS = 200
_SEED = 0


@pytest.mark.parametrize("border", BORDERS, ids=lambda border: border.name)
def test_every_input_ends_in_a_documented_way(border: Border) -> None:
    found = fuzz(border, _INPUTS, _SEED)

    if isinstance(found, Finding):
        raise found.error
    assert found >= _INPUTS


def test_the_shares_of_the_borders_are_the_whole() -> None:
    assert sum(border.share for border in BORDERS) == pytest.approx(1)


def test_a_border_that_raises_is_a_finding_made_small() -> None:
    def check(number: int) -> None:
        if number > 1_000:
            raise ValueError(number)

    border = Border(name="one", share=1, build=lambda recipe: recipe.number(50_000), check=check)

    found = fuzz(border, 500, _SEED)

    assert isinstance(found, Finding)
    assert found.recipe == b"\x04", "1024: the fewest bytes that fail"


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_variable_of_a_program_is_spoilt(program: str) -> None:
    variables, kinds = PROGRAMS[program]

    assert set(variables) == {field.name for kind in kinds for field in dataclasses.fields(kind)}


@pytest.mark.parametrize(("program", "changed", "named"), CONTRADICTIONS)
def test_a_contradiction_between_settings_is_refused_by_name(
    program: str, changed: dict[str, str], named: str
) -> None:
    with pytest.raises(Misconfigured, match=f"{name_variable(named)}: "):
        start(Environment(program, list_variables(program, changed)))


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_settings_are_valid_before_they_are_spoilt(program: str) -> None:
    start(Environment(program, list_variables(program)))
