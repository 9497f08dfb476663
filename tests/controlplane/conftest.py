"""A control plane for the tests, and the build that it needs.

The build is made once all tests are collected, outside of every test's time-out, and only if one of them is going
to run a control plane.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from controlplane_toolchain import install_fake_go
from controlplane_worlds import World

from local.controlplane.building import BuildFailed, find_build, make_build
from local.controlplane.cache import default_cache
from local.controlplane.commands import Choices
from local.controlplane.plane import ControlPlane
from local.controlplane.progress import Progress
from local.controlplane.toolchain import NoToolchain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from controlplane_toolchain import FakeGo

    from local.controlplane.cache import Build

_worlds = itertools.count()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Make the build if it will be needed: minutes of compiling belong to no test."""
    needed = any(item.get_closest_marker("cluster") for item in session.items)
    if needed and not session.config.option.collectonly:
        try:
            make_build(default_cache(), Progress(), nice=19)
        except (NoToolchain, BuildFailed) as error:
            raise pytest.UsageError(f"the tests marked `cluster` cannot run: {error}") from error


@pytest.fixture
def fake_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    return install_fake_go(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def build() -> Build:
    return find_build(default_cache())


@pytest.fixture(scope="session")
def plane(build: Build) -> Iterator[ControlPlane]:
    with ControlPlane(build, Choices(scheduler_backoff_seconds=1)) as plane:
        yield plane


@pytest.fixture
def world(plane: ControlPlane) -> Iterator[World]:
    """A namespace of the shared control plane, whose JobSets and nodes are gone after the test."""
    world = World(plane.api, f"test-{next(_worlds)}")
    yield world
    world.clear()
