"""The two ways in which a function looks at a pod that waits: a message about it, and the sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.builders import a_demand_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.component.world import World


def by_message(world: World) -> None:
    assert world.deliver(a_demand_event()).status == 200


def by_sweep(world: World) -> None:
    answer, counts = world.sweep()
    assert (answer.status, counts["errors"]) == (200, 0)


def choose_look(*ways: Callable[[World], None]) -> Any:
    """Return the fixture `look`, which runs each test in each of these ways."""

    @pytest.fixture(params=ways, name="look")
    def take_way(request: pytest.FixtureRequest) -> Any:
        return request.param

    return take_way
