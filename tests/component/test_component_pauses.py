"""How often a slice without capacity is tried in an hour, by all functions together."""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING

import pytest

from shared.capacity_lists import read_policies
from shared.core import labels
from shared.core.identity.creations import Creation
from shared.core.identity.names import build_pool_name
from shared.core.identity.pools import PoolStatus
from tests.audit_entries import STOCKOUT, an_entry, as_message
from tests.builders import CLUSTER, NOW, a_claim, a_demand_event, a_jobset, a_pod, a_pool

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.component.world import World

HOUR = 3600.0
SOLD_OUT = "Atomic resize failed with [GCE_STOCKOUT]"
UNSAID = "Current errors: [INTERNAL_ERROR]"
RESERVED = {labels.RESERVATION_NAME: "train", labels.RESERVATION_AFFINITY: "specific"}
ENDS_RESERVED = """
- priorities:
  - location: {zones: [us-east5-b]}
  - location: {zones: [us-east5-c]}
  - reservations: {specific: [{name: train}]}
    location: {zones: [us-east5-a]}
"""


class Hours:
    """Lets hours pass in which no creation succeeds: sweeps, and the ends of operations.

    GKE needs a minute to fail and most of one to delete. It lists all of its operations.
    """

    def __init__(self, world: World, error: str) -> None:
        self.world, self.error = world, error
        self.created: list[tuple[float, str]] = []
        """Seconds from the start, and the name."""
        self._numbers = count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._history: list[Creation] = []
        create, delete = world.pools.create, world.pools.delete
        world.pools.list_creations = lambda _: [*self._history]  # type: ignore[method-assign]

        def follow_create(cluster: str, body: Any) -> None:
            create(cluster, body)
            name, at = str(body["name"]), world.clock.now()
            self.created.append((at - NOW, name))
            self._after(60, lambda: self._fail(name, at))

        def follow_delete(cluster: str, name: str) -> None:
            delete(cluster, name)
            self._after(50, lambda: self._go(name))

        world.pools.create = follow_create  # type: ignore[method-assign]
        world.pools.delete = follow_delete  # type: ignore[method-assign]

    def run(self, hours: int, step: Callable[[], None] = lambda: None) -> list[int]:
        """Return how many pools were created in each hour."""
        world = self.world
        self._after(30, self._sweep)
        while self._due and self._due[0][0] <= NOW + hours * HOUR:
            at, _, act = heapq.heappop(self._due)
            world.clock.advance(max(0.0, at - world.clock.now()))
            act()
            step()
        return [sum(at // HOUR == hour for at, _ in self.created) for hour in range(hours)]

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.world.clock.now() + seconds, next(self._numbers), act))

    def _sweep(self) -> None:
        self.world.sweep()
        self._after(60, self._sweep)

    def _fail(self, name: str, began_at: float) -> None:
        self.world.pools.fail(CLUSTER, name, self.error)
        now = self.world.clock.now()
        made = Creation(pool=name, ended=True, error=self.error, began_at=began_at, ended_at=now)
        self._history.append(made)
        self._end(an_entry(pool=name, status=STOCKOUT))

    def _go(self, name: str) -> None:
        self.world.pools.move(CLUSTER, name, "gone")
        self._end(an_entry("Delete", pool=name))

    def _end(self, entry: dict[str, Any]) -> None:
        assert self.world.deliver(as_message(entry), "settle").status == 200


def wait_for(world: World, **shape: Any) -> None:
    pod = a_pod(unschedulable_since=NOW - 5, created_at=NOW - 5, shape=shape)
    world.cluster.add(pod, a_jobset(template=pod.template, created_at=NOW - 6))
    world.deliver(a_demand_event())


@pytest.mark.parametrize("error", [SOLD_OUT, UNSAID])
@pytest.mark.parametrize("selectors", [{}, RESERVED], ids=["on-demand", "reservation"])
def test_one_way_is_tried_seven_times_in_the_first_hour_and_then_twice(
    world: World, error: str, selectors: dict[str, str]
) -> None:
    hours = Hours(world, error)
    wait_for(world, selectors=selectors)
    first, *later = hours.run(6)

    assert 5 <= first <= 7
    assert set(later) <= {1, 2}


@pytest.mark.parametrize("error", [SOLD_OUT, UNSAID])
def test_a_list_that_ends_in_a_reservation_is_tried_so_often_by_the_round(world: World, error: str) -> None:
    world.use(capacity_policies=read_policies(ENDS_RESERVED))
    hours = Hours(world, error)
    wait_for(world)
    first, *later = hours.run(6)

    assert 3 * 4 <= first <= 3 * 7
    assert max(later) <= 3 * 2
