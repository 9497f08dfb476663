"""The two ways in which a function looks at a pod that waits: a message about it, and the sweep."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders import a_demand_event
from tests.component.world import World

Look = Callable[[World], None]
"""A way to look, or anything else that happens in a world."""


def by_message(world: World) -> None:
    assert world.deliver(a_demand_event()).status == 200


def by_sweep(world: World) -> None:
    status, counts = world.sweep()
    assert (status, counts["errors"]) == (200, 0)


def choose_look(*ways: Look) -> Any:
    """Return the fixture `look`, which runs each test in each of these ways."""

    @pytest.fixture(params=ways, name="look")
    def take_way(request: pytest.FixtureRequest) -> Any:
        return request.param

    return take_way
