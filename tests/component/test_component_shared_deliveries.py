"""Deliveries of the same few seconds share a list of pools and namespaces, and never the stop."""

import pytest

from shared.core import labels
from shared.core.times import SHARED_SECONDS
from tests.builders import a_jobset, a_pod, a_workload_demand
from tests.component.world import World

OWN = "tpu-provisioner"
NAMES = ("one", "two", "three")


@pytest.fixture
def crowd(world: World) -> World:
    """Three JobSets of one slice wait, and one instance of the function answers all messages."""
    world.cluster.empty()
    for name in NAMES:
        world.cluster.add(a_jobset(name=name), a_pod(jobset=name, uid=f"pod-{name}"))
    world.share_reads()
    return world


def demand(world: World, name: str) -> list[str]:
    """Return which namespaces were read to answer a message."""
    read, plain = list[str](), world.cluster.get_namespace
    world.cluster.get_namespace = lambda name: read.append(name) or plain(name)  # type: ignore[method-assign,func-returns-value]
    world.deliver(a_workload_demand(name=name))
    world.cluster.get_namespace = plain  # type: ignore[method-assign]
    return read


def test_what_one_delivery_has_read_serves_the_next_one_for_some_seconds(crowd: World) -> None:
    first, second = demand(crowd, "one"), demand(crowd, "two")

    assert first == ["kube-system", "default", OWN, "default"]
    assert second == [OWN, "default"], "the stop is read right before each create"
    assert (crowd.pools.count("list"), crowd.pools.count("create")) == (1, 2)

    crowd.clock.advance(SHARED_SECONDS + 0.1)
    assert demand(crowd, "three") == first
    assert (crowd.pools.count("list"), crowd.pools.count("create")) == (2, 3)


def test_a_stop_that_came_a_moment_ago_is_obeyed(crowd: World) -> None:
    demand(crowd, "one")
    crowd.cluster.namespace_labels[OWN] = {labels.MODE: "no-create"}
    demand(crowd, "two")

    assert crowd.pools.count("create") == 1
