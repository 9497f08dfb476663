"""What the tests on the real control plane share: a namespace of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from standins.controlplane.tests.controlplane_worlds import World, clearing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from standins.controlplane.plane import ControlPlane


@pytest.fixture
def world(plane: ControlPlane) -> Iterator[World]:
    """A namespace of the shared control plane, whose JobSets and nodes are gone after the test."""
    with clearing(World(plane)) as world:
        yield world
