"""A recorder of structured logs, and the world of the plain case."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tests.component.world import Records, World

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def records() -> Iterator[Records]:
    root, recorder = logging.getLogger(), Records()
    level = root.level
    root.addHandler(recorder)
    root.setLevel(logging.INFO)
    yield recorder
    root.removeHandler(recorder)
    root.setLevel(level)


@pytest.fixture
def world(records: Records) -> World:
    return World(records)
