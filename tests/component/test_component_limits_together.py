"""Pools that are of use only together get through a limit together, or none of them does."""

import dataclasses
from typing import Any

import pytest

from shared.core import labels
from shared.core.errors import NoCapacity
from shared.core.ports import Ledger
from shared.core.workloads import PodView
from tests.builders import CLUSTER, NOW, a_demand_event, a_jobset, a_pod
from tests.component.test_component_elastic import a_demand
from tests.component.world import World
from tests.unit.test_elastic import a_gpu_body
from tests.unit.test_kind_leaderworkerset import a_pod as a_pod_of_set
from tests.unit.test_kind_leaderworkerset import a_set

LEADER = a_gpu_body(1)
WORKER = a_gpu_body(1, selector={labels.GPU_ACCELERATOR: "nvidia-tesla-t4"})
WHOLE = 6
"""GPUs of both pools: a leader and two workers in each of two groups."""


def a_waiting_pod(worker: int) -> PodView:
    found = a_pod_of_set(worker, size=3, template=WORKER if worker else LEADER)
    return dataclasses.replace(found, unschedulable=True, unschedulable_since=NOW - 60)


@pytest.fixture
def pods(world: World) -> tuple[PodView, PodView]:
    """The first leader and the first worker of a set whose shapes differ."""
    world.cluster.empty()
    found = a_waiting_pod(0), a_waiting_pod(1)
    world.cluster.add(a_set(size=3, worker=WORKER, leader=LEADER), *found)
    return found


@pytest.mark.parametrize("first", [0, 1], ids=["the leader first", "a worker first"])
@pytest.mark.parametrize("limit", [{"limit_chips": WHOLE - 1}, {"limit_slices": 1}], ids=["chips", "slices"])
def test_where_both_are_too_many_neither_is_made(
    world: World, pods: tuple[PodView, PodView], limit: dict[str, Any], first: int
) -> None:
    world.use(**limit)
    for pod in (pods[first], pods[1 - first]):
        world.deliver(a_demand(pod))
        assert world.says() == ("refuse", "limit_reached")
    world.sweep()

    assert world.pools.count("create") == 0
    assert all("1 more that its workload needs with it" in each.message for each in world.cluster.notices)


def test_where_both_fit_both_are_made(world: World, pods: tuple[PodView, PodView]) -> None:
    world.use(limit_chips=WHOLE, limit_slices=2)
    for pod in pods:
        world.deliver(a_demand(pod))
        assert world.says() == ("create", "pool_absent")

    assert len(world.pools.names(CLUSTER)) == 2


def test_nobody_takes_the_chips_of_the_second_between_the_two(world: World, pods: tuple[PodView, PodView]) -> None:
    world.use(limit_chips=20)
    world.deliver(a_demand(pods[0]))
    world.cluster.add(a_jobset(), a_pod())
    world.deliver(a_demand_event())  # of 16 chips, which fit beside the leaders alone
    assert world.says() == ("refuse", "limit_reached")
    world.deliver(a_demand(pods[1]))

    assert world.says() == ("create", "pool_absent")


def test_both_reservations_are_given_back_if_the_first_pool_is_refused(
    world: World, pods: tuple[PodView, PodView]
) -> None:
    world.use(limit_chips=WHOLE)
    world.pools.fail_next("create", NoCapacity("quota"))
    world.deliver(a_demand(pods[0]))

    assert world.pools.names(CLUSTER) == []
    assert world.cluster.read_ledger(world.ports.settings.own_namespace) == Ledger(version="2", entries={})


def test_where_one_could_grow_and_not_the_other_neither_grows(world: World, pods: tuple[PodView, PodView]) -> None:
    world.cluster.add(a_set(size=3, worker=WORKER, leader=LEADER, replicas=1))
    world.use(limit_chips=WHOLE - 1)
    for pod in pods:
        world.deliver(a_demand(pod))
        assert world.says() == ("create", "pool_absent")
    for name in world.pools.names(CLUSTER):
        world.pools.move(CLUSTER, name, "RUNNING")
    world.cluster.add(a_set(size=3, worker=WORKER, leader=LEADER, replicas=2))
    for pod in pods:
        world.deliver(a_demand(pod))
        assert world.says() == ("refuse", "limit_reached")

    assert world.pools.count("resize") == 0
