"""What the scenarios with real controllers get: a stack on the control plane of their module.

A module says by its marks which controllers it needs (`tests.kinds.controllers`).
"""

from collections.abc import Callable, Iterator

import pytest

from demo.settings import ClusterKind, StackSettings
from demo.stack import Stack
from standins.controlplane.plane import ControlPlane
from tests.clusters import SPEED
from tests.kinds.controllers import list_controllers


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest, plane_with: Callable[..., ControlPlane]) -> ControlPlane:
    """A real control plane with the controllers that the module names."""
    return plane_with(*list_controllers(request))


@pytest.fixture(scope="module")
def stack_settings() -> StackSettings:
    return StackSettings(speed=SPEED, cluster=ClusterKind.REAL)


@pytest.fixture(scope="module")
def stack(
    plane: ControlPlane, stack_settings: StackSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """A stack on the module's own control plane."""
    with Stack(tmp_path_factory.mktemp("own"), stack_settings, plane=plane) as stack:
        yield stack
