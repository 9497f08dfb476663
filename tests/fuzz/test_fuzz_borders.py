"""Some hundred spoilt inputs at each border, the same in every run; `tests.fuzz` passes more."""

import pytest

from tests.fuzz.border import Border, Finding, fuzz
from tests.fuzz.borders import BORDERS

_INPUTS = 200
_SEED = 0


@pytest.mark.parametrize("border", BORDERS, ids=lambda border: border.name)
def test_every_input_ends_in_a_documented_way(border: Border) -> None:
    found = fuzz(border, _INPUTS, _SEED)

    if isinstance(found, Finding):
        raise found.error
    assert found >= _INPUTS
