"""With two endpoints swapped, another cluster's API judges the pools: nothing goes or comes."""

import pytest

from shared.core import labels
from shared.core.identity.names import build_pool_name
from tests.audit_entries import an_entry, as_message
from tests.builders import CLUSTER, NOW, a_claim, a_demand_event, a_foreign_pool, a_pod, a_pool, a_workload_demand
from tests.component.fakes import CLUSTER_UID
from tests.component.looks import Look, by_message
from tests.component.world import NAME, World

HERE, THERE = "gke-main-default-pool-12ab34cd", "gke-main-default-pool-99ff99ff"
"""The instance groups of the default pools of two clusters of one name."""


@pytest.fixture
def swapped(world: World) -> World:
    """The pool runs, its workload and pods are in its cluster; another cluster's API answers."""
    world.cluster.cluster_uid = "uid-of-another"
    world.cluster.empty()
    world.pools.add(CLUSTER, a_pool())
    return world


def test_a_sweep_deletes_nothing_and_raises_the_alarm(swapped: World) -> None:
    assert swapped.sweep() == (200, {"keep": 1, "errors": 0})
    assert swapped.pools.calls == [("list", "")]
    swapped.records.expect_in_order({"severity": "CRITICAL", "reason": "cluster_unproven"})


def test_an_endpoint_that_changes_between_the_two_looks_deletes_nothing(swapped: World) -> None:
    swapped.cluster.cluster_uid = CLUSTER_UID

    def swap() -> None:
        swapped.cluster.cluster_uid = "uid-of-another"

    swapped.pools.before_next("get", swap)
    swapped.sweep()

    assert swapped.pools.count("delete") == 0


def stand_beside_default_pools(world: World, *, group: str) -> None:
    """Let GKE list a default pool, and let the API show a node of it with this group."""
    url = f"https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroupManagers/{HERE}-grp"
    world.pools.add(CLUSTER, a_foreign_pool(node_count=1, machine_type="e2-standard-4", group_urls=(url,)))
    world.cluster.nodes["default-pool"] = [f"{group}-x1y2"]


def sweep(world: World) -> None:
    """Seed 135866 of commit 89af47e, and the reason why wrong labels come into being."""
    assert world.sweep() == (200, {"refuse": 1, "errors": 0})
    world.records.expect_in_order({"severity": "CRITICAL", "reason": "cluster_unproven"})


def settle(world: World) -> None:
    """Seed 8103300 of commit 0b23f02: the leader is found in a list, so no message has its UID."""
    past = build_pool_name(a_claim(name="past"))
    assert world.deliver(as_message(an_entry("Delete", pool=past)), "settle").status == 200


def name_without_uid(world: World) -> None:
    """It may be a workload of the same name in the other cluster."""
    assert world.deliver(a_workload_demand(uid="")).status == 200


def name_with_uid(world: World) -> None:
    assert world.deliver(a_workload_demand()).status == 200


@pytest.mark.parametrize("look", [sweep, settle, name_without_uid, name_with_uid, by_message])
def test_no_look_creates_a_first_pool_for_a_leader_of_the_other_cluster(world: World, look: Look) -> None:
    world.cluster.add(a_pod(unschedulable_since=NOW - 100))
    stand_beside_default_pools(world, group=THERE)
    look(world)

    world.records.expect_in_order({"decision": "refuse", "reason": "cluster_unproven"})
    assert world.pools.bodies == []


def test_each_pool_that_is_created_says_its_cluster(world: World) -> None:
    world.deliver(a_demand_event())

    assert world.pools.bodies[0]["config"]["labels"][labels.CLUSTER_UID] == CLUSTER_UID
    assert world.pools.calls == [("list", ""), ("create", NAME)]
