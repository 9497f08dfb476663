"""Each safety of the product that is taken away shows within a fixed number of stories."""

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation, find_catch
from tests.simulation.sim_functions import prepared

SEEDS = range(500)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name.replace(" ", "-"))
def test_a_missing_safety_is_caught(mutation: Mutation) -> None:
    with prepared():
        caught = find_catch(mutation, SEEDS)

    assert caught is not None, f"{len(SEEDS)} stories do not show that the product is broken: {mutation.name}"
    assert not caught[1].startswith("no exception"), f"the mutation itself raises: {caught[1]}"
