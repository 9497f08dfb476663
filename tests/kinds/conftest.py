"""What the scenarios of all kinds get: the shared stack, and a count of GKE's calls for each."""

from collections.abc import Generator, Iterator

import pytest

from demo.stack import Stack
from tests.kinds.counting import check_calls
from tests.kinds.living import LIVED
from tests.lives.cloud import Cloud


@pytest.fixture(scope="module")
def cloud(stack: Stack) -> Iterator[Cloud]:
    with Cloud(stack) as cloud:
        yield cloud


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Count GKE's calls of what a scenario ran to its end; the scenario fails by too many."""
    before = len(LIVED)
    result = yield
    if lives := LIVED[before:]:
        check_calls(lives)
    return result
