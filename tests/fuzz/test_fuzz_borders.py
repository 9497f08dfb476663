"""Inputs that no well-behaved neighbour sends, wherever the product reads the words of others.

Some hundred at each border, the same in every run. ``INPUTS=1000000 pytest tests/fuzz``
passes as many, by another seed each time.
"""

import os
import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.borders import BORDERS
from tests.fuzz.spoiling import RECIPE_BYTES, Recipe

INPUTS = int(os.environ.get("INPUTS", "200"))
AT_ONCE = 10  # recipes in one draw of hypothesis, whose own cost is that of one input
BATCH = 20_000  # hypothesis remembers each input of a run, so a large run is many small ones


def fuzz(border: Callable[[Recipe], None], inputs: int, first_seed: int) -> int:
    """Return how many inputs a border took; an undocumented end of one is raised."""
    taken = 0

    @seed(first_seed)
    @settings(
        max_examples=-(-inputs // AT_ONCE),
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.binary(min_size=AT_ONCE * RECIPE_BYTES, max_size=AT_ONCE * RECIPE_BYTES))
    def take(raw: bytes) -> None:
        nonlocal taken
        for start in range(0, len(raw), RECIPE_BYTES):
            taken += 1
            border(Recipe(raw[start : start + RECIPE_BYTES]))

    take()
    return taken


@pytest.mark.parametrize("border", BORDERS.values(), ids=BORDERS)
def test_every_input_ends_in_a_documented_way(border: Callable[[Recipe], None]) -> None:
    taken, first_seed = 0, 0 if "INPUTS" not in os.environ else random.randrange(2**32)
    while taken < INPUTS:
        taken += fuzz(border, min(BATCH, INPUTS - taken), first_seed + taken)
