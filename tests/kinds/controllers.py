"""The marks of a module whose scenarios run further controllers on a real control plane."""

import pytest


def with_controllers(*names: str) -> list[pytest.MarkDecorator]:
    """Return the marks of such a module, for its `pytestmark`."""
    return [pytest.mark.cluster, pytest.mark.controller(*names), pytest.mark.timeout(900), pytest.mark.slow]


def list_controllers(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Return what the marks of the asking module name."""
    mark = request.node.get_closest_marker("controller")
    assert mark is not None, f"{request.node}: is not marked `controller`"
    names: tuple[str, ...] = mark.args
    return names
