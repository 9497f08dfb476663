"""What every test gets: the import path, the same property tests on every run, and both clusters.

A test that asks for `cluster_kind` or `stack` runs twice: on the embedded cluster in the first
tier, and, marked `cluster`, on a real control plane. That one is built once all tests are
collected, outside of every test's time-out, and only if one of them is going to run it. So are the
further controllers that a test names by its mark `controller`.

The fixtures import what starts a stack only when they run: unit tests do not pay for it.
"""

from __future__ import annotations

import gc
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from demo.settings import ClusterKind

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from demo.stack import Stack
    from standins.controlplane.plane import ControlPlane

SPEEDS = {ClusterKind.EMBEDDED: 150.0, ClusterKind.REAL: 60.0}
"""Virtual seconds per real second of a stack. A real control plane takes real seconds for its
part."""
KINDS = [ClusterKind.EMBEDDED, pytest.param(ClusterKind.REAL, marks=pytest.mark.cluster)]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background run inherits this, and gives it to processes whose Ctrl-C is tested.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No example database and no random seed: a run that passes here passes everywhere.
settings.register_profile(
    "project", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("project")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected: nearly all that is made there is kept.

    The search took 5 s of each process. What is kept is not searched later either.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Make the build if it will be needed: minutes of compiling belong to no test."""
    needed = any(item.get_closest_marker("cluster") for item in session.items)
    if needed and not session.config.option.collectonly:
        from standins.controlplane.building import BuildFailed, make_builds  # noqa: PLC0415 -- see above
        from standins.controlplane.programs import UnknownController, choose_products  # noqa: PLC0415 -- see above

        marks = [mark for item in session.items for mark in item.iter_markers("controller")]
        try:
            make_builds(choose_products(name for mark in marks for name in mark.args), print)
        except (BuildFailed, UnknownController) as error:
            raise pytest.UsageError(f"the tests marked `cluster` cannot run: {error}") from error


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "controller(*names): runs further controllers on the real control plane, built first (minutes, once)",
    )


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """A real control plane for every test that does not break it."""
    from standins.controlplane.plane import ControlPlane  # noqa: PLC0415 -- see above

    with ControlPlane() as plane:
        yield plane


@pytest.fixture(scope="session", params=KINDS, ids=str)
def cluster_kind(request: pytest.FixtureRequest) -> ClusterKind:
    """Each of the two clusters in turn."""
    kind: ClusterKind = request.param
    return kind


@pytest.fixture(scope="module")
def stack(cluster_kind: ClusterKind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One running stack, on each of the two clusters, for all tests of a module.

    For one module, because a stack that nobody asks costs as much as one that works.
    """
    from demo.settings import StackSettings  # noqa: PLC0415 -- see above
    from demo.stack import Stack  # noqa: PLC0415 -- see above

    settings = StackSettings(speed=SPEEDS[cluster_kind], cluster=cluster_kind)
    with Stack(tmp_path_factory.mktemp("stack"), settings) as stack:
        yield stack
