"""The looks at the pools of one workload share what they read of it, and that ages like a look."""

import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest

from shared.core.identity.names import build_pool_name
from shared.core.identity.pools import PoolStatus
from shared.core.messages import ObjectName
from shared.core.times import SHARED_SECONDS
from shared.edges.threads import Threads
from shared.engine.looks.look import open_look
from shared.engine.looks.shared_reads import RecentReads
from shared.engine.looks.side_by_side import CALLS_AT_ONCE
from tests.builders import CLUSTER, JOBSET_UID, NOW, a_claim, a_jobset, a_pool, an_over_event
from tests.component.fakes import StepClock
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
    world.add_pools(POOLS)

    def resume() -> None:
        world.clock.advance(SHARED_SECONDS + 0.1)
        world.cluster.add(a_jobset(replicas=POOLS))

    world.cluster.before_next("list_pool_pods", resume, skip=1)
    world.collect(an_over_event("suspended"))

    assert world.pools.count("delete") == 2, "the second one was looked at just before that"


def test_what_is_made_of_reads_is_made_anew_when_they_differ(world: World) -> None:
    look = open_look(CLUSTER, world.ports).shared()
    shared, barrier, made = look.unshared(), threading.Barrier(CALLS_AT_ONCE), Mock(side_effect=list)
    assert shared.make_once(made, "a", [1]) is not shared.make_once(made, "a", [1])
    made.reset_mock()

    def ask(_: int) -> list[int]:
        barrier.wait(30)
        return look.make_once(made, "a", [1])

    with ThreadPoolExecutor(CALLS_AT_ONCE) as threads:
        assert list(threads.map(ask, range(CALLS_AT_ONCE))) == [[1]] * CALLS_AT_ONCE
    look.make_once(made, "b", [3])
    look.make_once(made, "a", [1])
    assert made.call_count == 2, "once for each workload"
    assert (look.make_once(made, "a", [2]), look.make_once(made, "a", [1])) == ([2], [1])
    look.shared().make_once(made, "a", [1])
    assert made.call_count == 5, "the last one is kept, and no longer than the reads"


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


def test_who_asks_while_a_read_runs_that_began_too_early_shares_the_next_one() -> None:
    begins, ends, reads, found = threading.Event(), threading.Event(), list[str](), list[str]()
    clock = StepClock(NOW)
    recent = RecentReads(clock, 10.0)

    def read() -> str:
        reads.append(f"read {len(reads) + 1}")
        if len(reads) == 1:
            begins.set()
            assert ends.wait(30)
        return reads[-1]

    first = threading.Thread(target=recent.share, args=("pools", read))
    first.start()
    assert begins.wait(30)
    clock.advance(1)

    def ask() -> None:
        found.append(recent.share("pools", read, since=NOW + 0.5))

    others = [threading.Thread(target=ask) for _ in range(8)]
    for each in others:
        each.start()
    time.sleep(0.1)
    assert reads == ["read 1"], "the next one waits for its end"
    ends.set()
    for each in (first, *others):
        each.join(30)

    assert (reads, found) == (["read 1", "read 2"], ["read 2"] * 8)


@pytest.fixture
def ticking(world: World) -> World:
    """The same workload. Each reading of the clock moves it, so no two moments are equal."""
    plain = world.clock.now

    def now() -> float:
        world.clock.advance(0.0001)
        return plain()

    world.clock.now = now  # type: ignore[method-assign]
    return world


@pytest.mark.parametrize("nodes", ["each pool has a node", "no pool has one"])
def test_deletions_that_are_decided_before_a_list_share_it_as_their_last_read(ticking: World, nodes: str) -> None:
    """All of them wait for the answer about the emergency stop, so all are decided by then."""
    if nodes == "no pool has one":
        ticking.cluster.nodes.clear()
    for key in list(ticking.pools.pools)[CALLS_AT_ONCE:]:
        del ticking.pools.pools[key]
    together, begin = threading.Barrier(CALLS_AT_ONCE, timeout=30), ticking.cluster.begin
    held = "find_pools_of_nodes" if nodes == "no pool has one" else "get_namespace"

    def wait(method: str) -> None:
        begin(method)
        if method == held:
            together.wait()

    ticking.cluster.begin = wait  # type: ignore[method-assign]
    ticking.ports = dataclasses.replace(ticking.ports, threads=Threads(ticking.clock))
    collect(ticking)

    assert ticking.pools.count("delete") == CALLS_AT_ONCE
    assert ticking.pools.count("get") == 0
    assert ticking.pools.count("list") == 3, "of the workload, of the second looks, and the last one"


@pytest.mark.parametrize(
    "changed", [{"labels": {}}, {"status": PoolStatus.STOPPING}], ids=["its labels are gone", "it is deleted"]
)
@pytest.mark.parametrize("act", [collect, lambda world: world.sweep()])
def test_a_pool_that_changes_after_its_deletion_was_decided_is_not_deleted(
    ticking: World, act: Callable[[World], object], changed: dict[str, Any]
) -> None:
    """A list of the same batch was read a moment ago, before the change."""
    name = build_pool_name(a_claim(kind=KIND, slice_key=f"default/train-{POOLS - 1}"))

    def change() -> None:
        pool = ticking.pools.pools[CLUSTER, name]
        ticking.pools.add(CLUSTER, dataclasses.replace(pool, **changed))

    ticking.cluster.before_next("get_namespace", change, skip=POOLS - 1)
    act(ticking)

    deleted = [name for method, name in ticking.pools.calls if method == "delete"]
    assert len(deleted) == POOLS - 1
    assert name not in deleted
    assert name in ticking.pools.names(CLUSTER)


def test_reads_begin_apart_so_that_one_serves_more_who_ask() -> None:
    clock, begins = StepClock(NOW), list[float]()
    recent = RecentReads(clock, 10.0, apart=0.5)

    for asks_at in (0.0, 0.1, 2.0):
        clock.advance(max(0.0, NOW + asks_at - clock.now()))
        recent.share("pools", lambda: begins.append(clock.now() - NOW), since=clock.now())

    assert begins == pytest.approx([0.0, 0.5, 2.0])
