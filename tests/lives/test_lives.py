"""Every life of a JobSet ends as the catalogue says, with its pools and calls, on both clusters."""

import pytest

from tests.lives.catalogue import LIVES, Life
from tests.lives.running import Run

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]
"""The first test of a cluster waits for its stack and for all lives, which run in parallel."""


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.name)
def test_a_life_ends_as_it_should_and_leaves_nothing(lived: Run, life: Life) -> None:
    check(lived, life)


def check(lived: Run, life: Life) -> None:
    if life.name in lived.errors:
        raise lived.errors[life.name]
    found = lived.measured[life.name]
    assert found.end == life.end
    assert found.pools in life.pools, found
    assert found.creates in life.creates, found
    assert found.deletes in life.creates, found
    assert found.calls_in_all <= life.calls_most, found


def test_no_pool_ever_holds_two_slices(lived: Run) -> None:
    assert lived.shared == []
