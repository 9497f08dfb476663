"""The process in which the judges' tests run scenarios."""

from collections.abc import Iterator

import pytest

from tests.simulation.sim_functions import prepared


@pytest.fixture(name="_prepared", scope="module")
def prepare() -> Iterator[None]:
    """Prepare the process once for a module: each time costs a collection of all garbage."""
    with prepared():
        yield
