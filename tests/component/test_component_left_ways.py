"""Faults that the simulator has shown with pools that GKE's autoscaler fills."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from shared.capacity_lists import read_policies
from shared.core import labels
from shared.core.errors import Unavailable
from shared.core.identity.names import build_owner_labels
from shared.core.ports import FillError, Machines
from tests.builders import CLUSTER, NOW, a_claim, a_pod
from tests.component.empty_pools import POLICY, TOLD, begin, name_of, refuse, run_empty, status
from tests.component.looks import by_message, by_sweep

if TYPE_CHECKING:
    from tests.component.world import World


@pytest.fixture(autouse=True)
def _listed(world: World) -> None:
    world.use(capacity_policies=read_policies(POLICY))
    world.cluster.add(a_pod(unschedulable_since=NOW - 20))


def test_a_clock_of_kubernetes_that_is_ahead_hides_no_error(world: World) -> None:
    """Seed 101 of the simulator: what the groups reported seemed older than the wait of the pod."""
    begin(world)
    world.cluster.add(a_pod(unschedulable_since=NOW + 3600))
    refuse(world)
    by_sweep(world)

    assert (status(world, 0), status(world, 1)) == ("STOPPING", "PROVISIONING")


def test_an_error_of_a_time_that_cannot_be_true_brings_no_pool_before_the_pause(world: World) -> None:
    begin(world)
    refuse(world)
    by_sweep(world)
    run_empty(world, 1)
    world.clock.advance(30)
    world.cluster.scale_ups[a_pod().uid] = [FillError(TOLD.replace("east5-a", "east5-b"), NOW + 3700)]
    by_sweep(world)

    assert status(world, 1) == "RUNNING"


def test_a_limit_that_refuses_the_next_way_keeps_the_empty_pool(world: World) -> None:
    """Seed 305 of the simulator: it was deleted, and the list began with the same way again."""
    begin(world)
    refuse(world)
    other = build_owner_labels(replace(a_claim(), name="other"), attempt=0, created_at=0, fingerprint="")
    world.pools.add(CLUSTER, replace(world.pools.pools[CLUSTER, name_of(0)], name="other", labels=other))
    world.use(capacity_policies=read_policies(POLICY), limit_chips=16)
    by_sweep(world)

    assert status(world, 0) == "RUNNING"
    assert "limit_chips" in str(world.cluster.notices)


def test_of_two_empty_pools_one_goes_and_none_is_created(world: World) -> None:
    """Seed 1527 of the simulator: two messages began with two ways, and a third pool came."""
    begin(world)
    first = world.pools.pools[CLUSTER, name_of(0)]
    earlier = {**first.labels, labels.ATTEMPT: "1", labels.CREATED_AT: str(int(NOW - 1))}
    world.pools.add(CLUSTER, replace(first, name=name_of(1), labels=earlier))
    refuse(world)
    by_sweep(world)

    assert (status(world, 0), status(world, 1)) == ("STOPPING", "RUNNING")
    assert len(world.pools.bodies) == 1


def test_nodes_that_could_not_be_read_do_not_serve(world: World) -> None:
    """Seed 1156 of the simulator: an Event said that an empty pool serves."""
    begin(world, seconds=30)
    world.cluster.fail_next("list_pool_nodes", Unavailable("lost"))
    by_message(world)

    world.records.expect_in_order({"decision": "wait", "reason": "pool_in_progress", "pool": name_of(0)})
    assert "pool_serves" not in str(world.cluster.notices)


def test_a_message_that_reads_no_machines_deletes_no_pool(world: World) -> None:
    """Seed 1000958 of the simulator: the first machine was there, and only the sweep reads it."""
    begin(world, seconds=3000)
    world.pools.machines[name_of(0)] = Machines(made=1)
    by_message(world)

    assert status(world, 0) == "RUNNING"
