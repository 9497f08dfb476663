"""One run of all lives on each cluster, for the tests that look at one life each."""

import pytest

from demo.stack.stack import Stack
from tests.lives.results import keep
from tests.lives.running import Run, live_all


@pytest.fixture(scope="session")
def lived(stack: Stack) -> Run:
    """The results of all lives on this cluster, in build/lives for the table of the documents."""
    run = live_all(stack)
    keep(run)
    return run
