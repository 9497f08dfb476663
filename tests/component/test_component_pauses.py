"""How often a slice without capacity is tried in an hour, by all functions together."""

import dataclasses
import heapq
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any

import pytest

from shared.capacity_lists import read_policies
from shared.core import labels
from shared.core.decide.attempts import find_pause
from shared.core.identity.creations import Creation
from tests.audit_entries import STOCKOUT, an_entry, as_message
from tests.builders import CLUSTER, NOW, a_claim, a_demand_event, a_jobset, a_pod
from tests.component.looks import by_sweep
from tests.component.world import World, name_of
from tests.unit.test_elastic import a_gpu_body, a_gpu_job
from tests.unit.test_kind_job import a_pod as a_job_pod

HOUR = 3600.0
HASH = a_claim().hash
SOLD_OUT = "Atomic resize failed with [GCE_STOCKOUT]"
UNSAID = "Current errors: [SOMETHING_NEW]"
RESERVED = {labels.RESERVATION_NAME: "train", labels.RESERVATION_AFFINITY: "specific"}
ENDS_RESERVED = """
- priorities:
  - location: {zones: [us-east5-b]}
  - location: {zones: [us-east5-c]}
  - reservations: {specific: [{name: train}]}
    location: {zones: [us-east5-a]}
"""


class Hours:
    """Lets hours pass in which no creation succeeds: sweeps, and ends of operations, told twice.

    GKE needs a minute to fail and most of one to delete. It lists all creations.
    """

    def __init__(self, world: World, error: str, *, leaves_pool: bool = True) -> None:
        self.world, self.error, self.leaves_pool = world, error, leaves_pool
        self.created: list[float] = []
        """Seconds from the start."""
        self._numbers = count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._history: list[Creation] = []
        create, delete = world.pools.create, world.pools.delete
        world.pools.list_creations = lambda cluster: [*self._history]  # type: ignore[method-assign]

        def follow_create(cluster: str, node_pool: Mapping[str, Any]) -> None:
            create(cluster, node_pool)
            self.created.append(world.clock.now() - NOW)
            self._after(60, partial(self._fail, str(node_pool["name"]), world.clock.now()))

        def follow_delete(cluster: str, name: str) -> None:
            delete(cluster, name)
            self._after(50, partial(self._go, name))

        world.pools.create = follow_create  # type: ignore[method-assign]
        world.pools.delete = follow_delete  # type: ignore[method-assign]

    def run(self, hours: int) -> list[int]:
        """Return how many pools were created in each hour."""
        self._after(30, self._sweep)
        while self._due and self._due[0][0] <= NOW + hours * HOUR:
            at, _, act = heapq.heappop(self._due)
            self.world.clock.advance(max(0.0, at - self.world.clock.now()))
            act()
        return [sum(at // HOUR == hour for at in self.created) for hour in range(hours)]

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.world.clock.now() + seconds, next(self._numbers), act))

    def _sweep(self) -> None:
        self.world.sweep()
        self._after(60, self._sweep)

    def _fail(self, name: str, began_at: float) -> None:
        now = self.world.clock.now()
        self._history.append(Creation(pool=name, ended=True, error=self.error, began_at=began_at, ended_at=now))
        self.world.pools.fail(CLUSTER, name, self.error)
        if not self.leaves_pool:
            self.world.pools.move(CLUSTER, name, "gone")
        self._end(an_entry(pool=name, status=STOCKOUT))

    def _go(self, name: str) -> None:
        self.world.pools.move(CLUSTER, name, "gone")
        self._end(an_entry("Delete", pool=name))

    def _end(self, entry: dict[str, Any]) -> None:
        self._settle(entry)
        self._after(45, partial(self._settle, entry))

    def _settle(self, entry: dict[str, Any]) -> None:
        assert self.world.deliver(as_message(entry), "settle").status == 200


def begin(world: World, **shape: Any) -> None:
    """Let the first pool of a slice be created, whose pod has just begun to wait."""
    pod = a_pod(unschedulable_since=NOW - 5, created_at=NOW - 5, shape=shape)
    world.cluster.add(pod, a_jobset(template=pod.template, created_at=NOW - 6))
    world.deliver(a_demand_event())


@pytest.mark.parametrize(
    ("error", "leaves_pool", "selectors", "ways"),
    [
        pytest.param(SOLD_OUT, True, {}, 1, id="the pool is the record"),
        pytest.param(SOLD_OUT, False, {}, 1, id="no pool is left"),
        pytest.param(SOLD_OUT, True, RESERVED, 1, id="a reservation that is sold out"),
        pytest.param(UNSAID, True, RESERVED, 1, id="a reservation of which a part may be held"),
        pytest.param(SOLD_OUT, True, {}, 3, id="a list that ends in a reservation"),
        pytest.param(UNSAID, True, {}, 3, id="such a list, and a part may be held"),
        pytest.param(SOLD_OUT, False, {}, 3, id="such a list, and no pool is left"),
    ],
)
def test_a_way_is_tried_seven_times_in_the_first_hour_and_twice_in_each_later_and_a_list_by_the_round(
    world: World, error: str, selectors: dict[str, str], ways: int, *, leaves_pool: bool
) -> None:
    world.use(capacity_policies=read_policies(ENDS_RESERVED) if ways > 1 else ())
    hours = Hours(world, error, leaves_pool=leaves_pool)
    begin(world, selectors=selectors)
    first, *later = hours.run(3)

    assert 5 <= first <= 7 * ways
    assert 1 <= min(later) <= max(later) <= 2 * ways


def test_an_elastic_pool_has_the_same_pauses(world: World) -> None:
    """It has one name, so the failed pool goes before the next try."""
    job = a_gpu_job(parallelism=1, completions=1)
    pod = dataclasses.replace(
        a_job_pod(None, template=a_gpu_body()), name=f"{job.name}-a", uid="a", unschedulable=True
    )
    world.cluster.pods.clear()
    world.cluster.add(job, pod)
    hours = Hours(world, SOLD_OUT)
    world.sweep()
    first, *later = hours.run(3)

    assert 5 <= first <= 7
    assert set(later) <= {1, 2}


def test_for_a_leader_that_waits_for_long_the_list_of_operations_keeps_the_pause(world: World) -> None:
    """The pool of the fourth attempt is gone; its creation ended a minute ago."""
    world.cluster.add(a_pod(unschedulable_since=NOW - 3600))
    failed = Creation(pool=name_of(3), ended=True, error=SOLD_OUT, began_at=NOW - 200, ended_at=NOW - 60)
    older = Creation(pool=name_of(9), ended=True, error=SOLD_OUT, began_at=NOW - 9000, ended_at=NOW - 8000)
    for each in (failed, older):
        world.pools.creations[CLUSTER, each.pool] = each
    by_sweep(world)
    assert world.pools.bodies == []
    world.records.expect_in_order({"decision": "wait", "reason": "stockout", "attempt": 3})

    world.clock.advance(find_pause(HASH, 3) - 59)
    by_sweep(world)
    assert [body["name"] for body in world.pools.bodies] == [name_of(0)], "as the other functions begin"


def test_without_a_record_the_pause_doubles_by_the_failures_that_gke_lists(world: World) -> None:
    """Each creation has the first number, because its pool is gone."""
    world.cluster.add(a_pod(unschedulable_since=NOW - 7200))
    for number in range(4):
        failed = Creation(
            pool=name_of(0), ended=True, error=SOLD_OUT, began_at=NOW - 900 + number, ended_at=NOW - 60
        )
        world.pools.creations[CLUSTER, f"{name_of(0)} {number}"] = failed
    world.clock.advance(find_pause(HASH, 3) - 61)
    by_sweep(world)
    assert world.pools.bodies == []

    world.clock.advance(2)
    by_sweep(world)
    assert [body["name"] for body in world.pools.bodies] == [name_of(0)]
