"""A recorder of structured logs, the world of the plain case, and the two ways to look at it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tests.component.looks import by_message, by_sweep
from tests.component.world import Records, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def records() -> Iterator[Records]:
    root, recorder = logging.getLogger(), Records()
    level = root.level
    root.addHandler(recorder)
    root.setLevel(logging.INFO)
    yield recorder
    root.removeHandler(recorder)
    root.setLevel(level)


@pytest.fixture(params=[by_message, by_sweep])
def look(request: pytest.FixtureRequest) -> Callable[[World], None]:
    found: Callable[[World], None] = request.param
    return found


@pytest.fixture
def world(records: Records) -> World:
    return World(records)
