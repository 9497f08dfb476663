"""What the scenarios of all kinds get: the shared stack, and a count of GKE's calls for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kinds.counting import check_calls, keep_calls
from tests.kinds.living import LIVED
from tests.lives.cloud import Cloud

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from demo.stack.stack import Stack


@pytest.fixture(scope="module")
def cloud(stack: Stack) -> Iterator[Cloud]:
    with Cloud(stack) as cloud:
        yield cloud


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Count GKE's calls of what a scenario ran to its end; the scenario fails by too many."""
    before = len(LIVED)
    result = yield
    if lives := LIVED[before:]:
        check_calls(lives)
        keep_calls(item.nodeid.partition("[")[0], lives)
    return result
