"""The looks at the pools of one workload share what they read of it, and that ages like a look."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from shared.core.decide.freshness import SHARED_SECONDS
from shared.core.identity.names import build_pool_name
from shared.core.messages import ObjectName
from shared.perform.shared_reads import RecentReads
from tests.builders import CLUSTER, JOBSET_UID, NOW, a_claim, a_jobset, a_pool, an_over_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.component.world import World

KIND, POOLS = "LeaderWorkerSet", 20
"""A kind whose pods are read before each delete."""


@pytest.fixture
def world(world: World) -> World:
    """A workload that was scaled to nothing, with its pools."""
    world.cluster.pods.clear()
    world.cluster.add(a_jobset(kind=KIND, groups=()))
    for index in range(POOLS):
        claim = a_claim(kind=KIND, slice_key=f"default/train-{index}")
        world.pools.add(CLUSTER, a_pool(claim=claim))
        world.cluster.nodes[build_pool_name(claim)] = [f"node-{index}"]
    world.cluster.begin = Mock(wraps=world.cluster.begin)  # type: ignore[method-assign]
    return world


def collect(world: World) -> None:
    subject = ObjectName(kind=KIND, namespace="default", name="train", uid=JOBSET_UID)
    assert world.collect(an_over_event(subject=subject)).status == 200


def count_reads(world: World) -> Counter[str]:
    return Counter(each.args[0] for each in world.cluster.begin.call_args_list)  # type: ignore[attr-defined]


@pytest.mark.parametrize("act", [collect, lambda world: world.sweep()])
def test_the_pods_of_a_workload_are_read_once_for_the_first_looks_and_once_for_the_second_ones(
    world: World, act: Callable[[World], object]
) -> None:
    act(world)

    reads = count_reads(world)
    assert world.pools.count("delete") == POOLS
    assert (reads["get_workload"], reads["list_workload_pods"]) == (2, 2)
    assert reads["list_pool_pods"] == POOLS, "the pods on a pool are read for it alone"


def test_what_is_older_than_some_seconds_is_read_again_for_the_next_pool(world: World) -> None:
    world.use(timeout_seconds=540)
    for _ in range(POOLS):
        world.cluster.before_next("list_pool_pods", lambda: world.clock.advance(SHARED_SECONDS + 0.1))
    collect(world)

    assert count_reads(world)["list_workload_pods"] == 2 * POOLS


def test_the_time_for_which_a_read_is_shared_counts_as_the_age_of_the_look(world: World) -> None:
    """With 8 s for the pods on the pool it is as much as 11 s, and the look is made again."""
    world.cluster.before_next("list_pool_pods", lambda: world.clock.advance(8))
    collect(world)

    assert count_reads(world)["list_pool_pods"] == POOLS + 1
    assert world.pools.count("delete") == POOLS


def test_a_workload_that_is_resumed_keeps_the_pools_that_are_looked_at_later(world: World) -> None:
    world.pools.pools.clear()
    world.cluster.add(a_jobset(replicas=POOLS, suspended=True, suspended_since=NOW - 3600))
    for index in range(POOLS):
        claim = a_claim(slice_key=f"default/train-workers-{index}")
        world.pools.add(CLUSTER, a_pool(claim=claim))

    def resume() -> None:
        world.clock.advance(SHARED_SECONDS + 0.1)
        world.cluster.add(a_jobset(replicas=POOLS))

    world.cluster.before_next("list_pool_pods", resume, skip=1)
    world.collect(an_over_event("suspended"))

    assert world.pools.count("delete") == 2, "the second one was looked at just before that"


def test_a_thread_that_is_held_up_beside_another_one_does_not_read_once_more() -> None:
    """Two threads ask at the same time. The first one is held up right after it read the clock."""
    asks, other_is_done, reads, times = threading.Event(), threading.Event(), list[float](), iter((1.0, 2.0))

    class HeldUp:
        def now(self) -> float:
            found = next(times)
            if found == 1.0:
                asks.set()
                other_is_done.wait(0.2)
            return found

        def pause(self, seconds: float) -> None:
            raise AssertionError

    recent = RecentReads(HeldUp(), 10.0)
    first = threading.Thread(target=recent.share, args=("pools", lambda: reads.append(1.0)))
    first.start()
    assert asks.wait(5)
    other = threading.Thread(target=recent.share, args=("pools", lambda: reads.append(2.0)))
    other.start()
    other.join(0.1)
    if not other.is_alive():
        other_is_done.set()
    first.join()
    other.join()

    assert len(reads) == 1
