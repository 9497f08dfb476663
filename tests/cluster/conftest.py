"""What the tests on the real control plane share: a namespace of their own."""

from collections.abc import Iterator

import pytest

from standins.controlplane.plane import ControlPlane
from standins.controlplane.tests.controlplane_worlds import World, clearing


@pytest.fixture
def world(plane: ControlPlane) -> Iterator[World]:
    """A namespace of the shared control plane, whose JobSets and nodes are gone after the test."""
    with clearing(World(plane)) as world:
        yield world
