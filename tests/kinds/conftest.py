"""What the scenarios of all kinds get: a stack, and a count of GKE's calls for each.

That is the shared stack. A module that needs a controller of its own says which by its marks
(`tests.kinds.controllers`), and makes `own_stack` its `stack`.
"""

from collections.abc import Callable, Generator, Iterator

import pytest

from demo.stack.clusters import ClusterKind
from demo.stack.commands import StackSettings
from demo.stack.stack import Stack
from standins.controlplane.plane import ControlPlane
from tests.clusters import SPEED
from tests.kinds.controllers import list_controllers
from tests.kinds.counting import check_calls
from tests.kinds.living import LIVED
from tests.kinds.ray_dashboards import Dashboards, answering
from tests.lives.cloud import Cloud


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest, plane_with: Callable[..., ControlPlane]) -> ControlPlane:
    """A real control plane with the controllers that the module names."""
    return plane_with(*list_controllers(request))


@pytest.fixture(scope="module")
def stack_settings() -> StackSettings:
    return StackSettings(speed=SPEED, cluster=ClusterKind.REAL)


@pytest.fixture(scope="module")
def own_stack(
    plane: ControlPlane, stack_settings: StackSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """A stack on the module's own control plane."""
    with Stack(tmp_path_factory.mktemp("own"), stack_settings, plane=plane) as stack:
        yield stack


@pytest.fixture(scope="module")
def dashboards(request: pytest.FixtureRequest, plane: ControlPlane) -> Iterator[Dashboards]:
    """The dashboards of all Ray heads on the module's control plane."""
    (operator,) = (name for name in list_controllers(request) if name.startswith("kuberay"))
    with answering(plane, operator) as dashboards:
        yield dashboards


@pytest.fixture(scope="module")
def cloud(stack: Stack) -> Iterator[Cloud]:
    with Cloud(stack) as cloud:
        yield cloud


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Count GKE's calls of what a scenario ran to its end; the scenario fails by too many."""
    before = len(LIVED)
    result = yield
    if lives := LIVED[before:]:
        check_calls(lives)
    return result
