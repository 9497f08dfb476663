"""Fixtures of the fake GKE's tests: a world that is served, in a loop of its own, and its model."""

from collections.abc import Iterator

import pytest

from standins.google.tests.fakegke_worlds import LoopThread, ServedWorld


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()


@pytest.fixture(scope="session")
def rest_world(loop_thread: LoopThread) -> Iterator[ServedWorld]:
    made = ServedWorld(loop_thread)
    yield made
    made.close()


@pytest.fixture
def served(rest_world: ServedWorld) -> ServedWorld:
    return rest_world.begin()
