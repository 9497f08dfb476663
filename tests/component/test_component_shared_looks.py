"""The looks at the pools of one workload share what they read of it, and that ages like a look."""

from collections import Counter
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from shared.core.identity.names import build_pool_name
from shared.core.messages import ObjectName
from tests.builders import CLUSTER, JOBSET_UID, a_claim, a_jobset, a_pool, an_over_event
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


def test_the_time_for_which_a_read_is_shared_counts_as_the_age_of_the_look(world: World) -> None:
    """With 8 s for the pods on the pool it is as much as 11 s, and the look is made again."""
    world.cluster.before_next("list_pool_pods", lambda: world.clock.advance(8))
    collect(world)

    assert count_reads(world)["list_pool_pods"] == POOLS + 1
    assert world.pools.count("delete") == POOLS
