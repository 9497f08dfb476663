"""GKE runs a limited number of operations: creates wait for a free place, and ends give it away."""

import contextlib
import dataclasses
import threading
from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest

from shared.core.errors import Denied, NoPlace, Throttled, Unavailable
from shared.core.identity.pools import PoolSnapshot, PoolStatus
from shared.edges.threads import Threads
from shared.engine.looks.side_by_side import CALLS_AT_ONCE
from shared.engine.places import SLOW_SECONDS, Places
from tests.audit_entries import an_entry, as_message
from tests.builders import CLUSTER, NOW, a_foreign_pool, a_pool, a_workload_demand
from tests.component.world import World, slice_name

SLICES, CREATES, LIMIT = 12, 4, 5
"""GKE runs five operations at one time, and one of the five is the deletion of a pool of others."""
LEAVING = "leaving"
FULL = f'Too many operations: cluster "demo" hits the concurrent operations quota {LIMIT}, please try again later.'


@pytest.fixture
def busy(world: World) -> World:
    """GKE runs four operations beside a deletion, and a JobSet waits for 12 slices."""
    create = world.pools.create

    def limited(cluster: str, node_pool: Mapping[str, Any]) -> None:
        under_way = [each for each in world.pools.pools.values() if each.status in ("PROVISIONING", "STOPPING")]
        if len(under_way) >= LIMIT:
            world.pools.calls.append(("refused", str(node_pool["name"])))
            raise Throttled(FULL)
        create(cluster, node_pool)

    world.pools.create = limited  # type: ignore[method-assign]
    world.pools.add(CLUSTER, a_foreign_pool(name=LEAVING, status=PoolStatus.STOPPING))
    world.share_reads()
    world.ports = dataclasses.replace(world.ports, places=Places())
    for index, pod in enumerate(world.add_slices(SLICES)):
        world.cluster.add(dataclasses.replace(pod, unschedulable_since=NOW - 100 + index))
    return world


def list_under_way(count: int, age_seconds: float = 60.0) -> list[PoolSnapshot]:
    """Return pools with so many operations, one of them a deletion, and the others so old."""
    names = [f"of-another-{at}" for at in range(count - 1)]
    creates = [a_pool("PROVISIONING", name=each, age_seconds=age_seconds) for each in names]
    return [a_pool("STOPPING", name=LEAVING), *creates]


def end(world: World, name: str) -> int:
    world.pools.move(CLUSTER, name, "RUNNING")
    return world.deliver(as_message(an_entry(pool=name)), "settle").status


def test_after_one_refusal_no_create_is_sent_before_a_place_is_free(busy: World) -> None:
    """Nor is the message delivered again: the end of an operation, or the sweep, goes on."""
    assert busy.deliver(a_workload_demand()).status == 503
    assert (busy.pools.count("create"), busy.pools.count("refused")) == (CREATES, 1)

    for _ in range(3):
        busy.clock.advance(20)
        assert busy.deliver(a_workload_demand()).status == 200
    assert (busy.pools.count("create"), busy.pools.count("refused")) == (CREATES, 1)
    assert "waits until one ends" in busy.last["message"]

    busy.sweep()  # it counts no error, since nothing is wrong
    status, counts = busy.sweep()
    assert (status, counts["errors"], counts["left"]) == (200, 0, SLICES - CREATES)


@pytest.mark.parametrize(
    ("ends", "apart"), [(SLICES - CREATES, 3), (CREATES, 0)], ids=["one after the other", "at one time"]
)
def test_each_end_gives_its_place_to_the_longest_wait(busy: World, ends: int, apart: float) -> None:
    busy.deliver(a_workload_demand())
    for index in range(ends):
        busy.clock.advance(apart)
        assert end(busy, slice_name(index)) == 200
        assert busy.pools.names(CLUSTER)[-1] == slice_name(index + CREATES)

    assert busy.pools.names(CLUSTER) == [LEAVING, *(slice_name(index) for index in range(ends + CREATES))]
    assert busy.pools.count("refused") == 1


def test_one_process_sends_so_many_creates_at_one_time(world: World) -> None:
    """GKE says that it has no place while others are on their way: they are refused too."""
    world.ports = dataclasses.replace(world.ports, places=Places(), threads=Threads(world.clock))
    world.add_slices(3 * CALLS_AT_ONCE)
    world.pools.add(CLUSTER, *(a_pool("PROVISIONING", name=f"of-another-{at}") for at in range(LIMIT)))
    together, lock, sent = threading.Barrier(CALLS_AT_ONCE, timeout=30), threading.Lock(), list[str]()

    def refuse_together(cluster: str, node_pool: Mapping[str, Any]) -> None:
        with lock:
            sent.append(f"{cluster} {node_pool['name']}")
        together.wait()
        raise Throttled(FULL)

    world.pools.create = refuse_together  # type: ignore[method-assign]
    deliveries = [threading.Thread(target=world.deliver, args=(a_workload_demand(),)) for _ in range(4)]
    for each in deliveries:
        each.start()
    for each in deliveries:
        each.join(60)

    assert len(sent) == CALLS_AT_ONCE


@pytest.mark.parametrize("error", [Denied("container.operations.list"), Unavailable("away")])
def test_if_the_operations_cannot_be_listed_nothing_is_created_and_the_entry_is_answered(
    busy: World, error: Exception
) -> None:
    busy.deliver(a_workload_demand())
    busy.pools.fail_next("list_creations", error)

    assert end(busy, slice_name(0)) == 200
    assert busy.pools.count("create") == CREATES


@pytest.mark.parametrize(
    ("words", "places_taken", "full"),
    [(FULL, LIMIT, True), (FULL, LIMIT - 1, False), ("Quota exceeded for quota metric 'API requests'", 99, False)],
    ids=["all are taken", "one is free", "too many requests"],
)
def test_the_number_of_places_is_the_one_that_gke_names(words: str, places_taken: int, full: bool) -> None:
    """What is counted at the refusal is not: a list may be old, and creates may have no answer."""
    places, listed = Places(), list_under_way(places_taken)

    def refuse() -> None:
        raise Throttled(words)

    def refuse_after_another() -> None:
        with pytest.raises(Throttled):
            places.send(refuse, CLUSTER, "two", [], now=NOW + 0.1)
        refuse()

    with pytest.raises(Throttled):
        places.send(refuse_after_another, CLUSTER, "one", [], now=NOW)
    # Threads come a little out of turn.
    with pytest.raises(NoPlace, match="at most 5 operations") if full else contextlib.nullcontext():
        places.is_sent(CLUSTER, "three", listed, now=NOW + 0.05)


@pytest.mark.parametrize(
    ("limit", "deletions", "age_seconds", "full"),
    [(5, 0, SLOW_SECONDS, True), (5, 1, SLOW_SECONDS, False), (1, 0, SLOW_SECONDS, False), (5, 0, 60.0, False)],
    ids=["the last place", "a deletion has it", "the only place", "creates are not slow"],
)
def test_the_last_place_is_for_a_deletion_if_creates_are_slow(
    limit: int, deletions: int, age_seconds: float, full: bool
) -> None:
    """Creations that fail after 35 minutes held all places, and none was free for a deletion."""
    places, listed = Places(), list_under_way(limit, age_seconds)[1 - deletions :][: limit - 1]

    with pytest.raises(Throttled):
        places.send(Mock(side_effect=Throttled(FULL.replace("5", str(limit)))), CLUSTER, "one", [], now=NOW)
    with pytest.raises(NoPlace, match="waits until one ends") if full else contextlib.nullcontext():
        places.is_sent(CLUSTER, "two", listed, now=NOW)
