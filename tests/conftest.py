"""What every test gets: the project on the import path, the same property tests on every run, and both clusters.

A test that asks for `cluster_kind` or `stack` runs twice: on the embedded cluster in the first tier, and, marked
`cluster`, on a real control plane. That one is built once all tests are collected, outside of every test's
time-out, and only if one of them is going to run it. So are the further controllers that a test names by its mark
`controller`.
"""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # `pytest` alone does not put the working folder there, `python -m pytest` does
    sys.path.insert(0, str(ROOT))

from local.controlplane.building import (  # noqa: E402 -- after the path
    BuildFailed,
    find_build,
    make_addition_build,
    make_build,
)
from local.controlplane.cache import default_cache  # noqa: E402
from local.controlplane.commands import Choices  # noqa: E402
from local.controlplane.plane import ControlPlane  # noqa: E402
from local.controlplane.progress import Progress  # noqa: E402
from local.controlplane.recipe import ADDITIONS, UnknownAddition  # noqa: E402
from local.controlplane.toolchain import NoToolchain  # noqa: E402
from local.stack.clusters import ClusterKind  # noqa: E402
from local.stack.commands import StackSettings  # noqa: E402
from local.stack.stack import Stack  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from local.controlplane.cache import Build

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run in the background of a shell inherits this, and hands it to every process whose Ctrl-C is tested.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No example database and no random seed: a run that passes here passes everywhere.
settings.register_profile(
    "project", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("project")

SPEED = 60.0
"""Virtual seconds per real second of the stacks."""
ADDITION_NAMES = {product.name for product in ADDITIONS}
KINDS = [ClusterKind.EMBEDDED, pytest.param(ClusterKind.REAL, marks=pytest.mark.cluster)]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Make the build if it will be needed: minutes of compiling belong to no test."""
    needed = any(item.get_closest_marker("cluster") for item in session.items)
    if needed and not session.config.option.collectonly:
        marks = [mark for item in session.items for mark in item.iter_markers("controller")]
        try:
            make_build(default_cache(), Progress(), nice=19)
            for name in sorted({name for mark in marks for name in mark.args}):
                make_addition_build(default_cache(), name, Progress(), nice=19)
        except (NoToolchain, BuildFailed, UnknownAddition) as error:
            raise pytest.UsageError(f"the tests marked `cluster` cannot run: {error}") from error


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "controller(*names): runs further controllers on the real control plane, built first (minutes, once)",
    )
    config.addinivalue_line(
        "markers",
        "proves(kind, cell, on=...): what the test proves of the table of kinds, on which controllers",
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a mark `proves` that names a further controller which its test does not run."""
    run = {name for mark in item.iter_markers("controller") for name in mark.args}
    for mark in item.iter_markers("proves"):
        said = mark.kwargs.get("on", ())
        absent = {said} if isinstance(said, str) else set(said)
        if absent := (absent & ADDITION_NAMES) - run:
            raise pytest.UsageError(f"{item.nodeid}: proves something on {absent}, and is not marked `controller`")


@pytest.fixture(scope="session")
def build() -> Build:
    """The programs of the real control plane."""
    return find_build(default_cache())


@pytest.fixture(scope="session")
def plane(build: Build) -> Iterator[ControlPlane]:
    """A real control plane for every test that does not break it."""
    with ControlPlane(build, Choices(scheduler_backoff_seconds=1)) as plane:
        yield plane


@pytest.fixture(scope="module")
def plane_with(build: Build) -> Iterator[Callable[..., ControlPlane]]:
    """Start a real control plane with further controllers, one per set of names, for what does not break it.

    For one module: those of a whole session, half a dozen at the end, would slow each other down.
    """
    started: dict[tuple[str, ...], ControlPlane] = {}
    with ExitStack() as planes:

        def start(*names: str) -> ControlPlane:
            if names not in started:
                choices = Choices(scheduler_backoff_seconds=1, controllers=names)
                started[names] = planes.enter_context(ControlPlane(build, choices))
            return started[names]

        yield start


@pytest.fixture(scope="session", params=KINDS, ids=str)
def cluster_kind(request: pytest.FixtureRequest) -> ClusterKind:
    """Each of the two clusters in turn."""
    return request.param


@pytest.fixture(scope="session")
def stack(cluster_kind: ClusterKind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One running stack, on each of the two clusters, for every test of a session that does not break it."""
    with Stack(tmp_path_factory.mktemp("stack"), StackSettings(speed=SPEED, cluster=cluster_kind)) as stack:
        yield stack
