"""A recorder of structured logs, the world of the plain case, and the two ways to look at it."""

import logging
from collections.abc import Iterator

import pytest

from tests.component.looks import by_message, by_sweep, choose_look
from tests.component.world import Records, World


@pytest.fixture
def records() -> Iterator[Records]:
    root, recorder = logging.getLogger(), Records()
    level = root.level
    root.addHandler(recorder)
    root.setLevel(logging.INFO)
    yield recorder
    root.removeHandler(recorder)
    root.setLevel(level)


look = choose_look(by_message, by_sweep)


@pytest.fixture
def world(records: Records) -> World:
    return World(records)
