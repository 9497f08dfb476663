"""One run of all lives on each cluster, for the tests that look at one life each."""

import pytest

from demo.stack import Stack
from tests.lives.running import Run, live_all


@pytest.fixture(scope="session")
def lived(stack: Stack) -> Run:
    """The results of all lives on this cluster."""
    return live_all(stack)
