"""Fixtures of the tests that run on the real control plane only."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from controlplane_toolchain import install_fake_go
from controlplane_worlds import World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from controlplane_toolchain import FakeGo

    from local.controlplane.plane import ControlPlane

_worlds = itertools.count()


@pytest.fixture
def fake_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    return install_fake_go(tmp_path, monkeypatch)


@pytest.fixture
def world(plane: ControlPlane) -> Iterator[World]:
    """A namespace of the shared control plane, whose JobSets and nodes are gone after the test."""
    world = World(plane.api, f"test-{next(_worlds)}")
    yield world
    world.clear()
