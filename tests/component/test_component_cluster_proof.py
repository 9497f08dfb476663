"""With two endpoints swapped, another cluster's API judges the pools: nothing goes or comes."""

import pytest

from shared.core import labels
from shared.core.identity.names import build_pool_name
from shared.core.identity.pools import PoolSnapshot
from shared.core.workloads import WorkloadView
from tests.audit_entries import an_entry, as_message
from tests.builders import (
    CLUSTER,
    NOW,
    a_claim,
    a_demand_event,
    a_foreign_pool,
    a_go_pool,
    a_jobset,
    a_pod,
    a_pool,
    a_workload_demand,
    an_over_event,
)
from tests.component.fakes import CLUSTER_UID
from tests.component.looks import Look, by_message
from tests.component.world import NAME, World, claim_of

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


def test_a_message_deletes_nothing(swapped: World) -> None:
    assert swapped.collect(an_over_event("deleted")).status == 200

    assert swapped.says() == ("keep", "cluster_unproven")
    assert swapped.pools.count("delete") == 0


def test_an_endpoint_that_changes_between_the_two_looks_deletes_nothing(swapped: World) -> None:
    swapped.cluster.cluster_uid = CLUSTER_UID

    def swap() -> None:
        swapped.cluster.cluster_uid = "uid-of-another"

    swapped.pools.before_next("get", swap)
    swapped.sweep()

    assert swapped.pools.count("delete") == 0


def test_a_workload_of_the_other_cluster_gets_no_pool_here(swapped: World) -> None:
    swapped.cluster.add(a_jobset(uid="theirs"), a_pod(pod_labels={"jobset.sigs.k8s.io/jobset-uid": "theirs"}))
    assert swapped.sweep() == (200, {"keep": 1, "refuse": 1, "errors": 0})
    assert swapped.pools.bodies == []


def stand_beside_default_pools(world: World, *, group: str) -> None:
    """Let GKE list a default pool, and let the API show a node of it with this group."""
    url = f"https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroupManagers/{HERE}-grp"
    world.pools.add(CLUSTER, a_foreign_pool(node_count=1, machine_type="e2-standard-4", group_urls=(url,)))
    world.cluster.nodes["default-pool"] = [f"{group}-x1y2"]


@pytest.mark.parametrize("status", ["RUNNING", "RUNNING_WITH_ERROR", "ERROR"])
@pytest.mark.parametrize("jobset", [None, a_jobset(terminal="Completed", terminal_since=NOW)])
def test_what_the_other_api_says_of_a_pool_that_was_made_during_a_swap_deletes_nothing(
    world: World, jobset: WorkloadView | None, status: str
) -> None:
    """Seeds 59473, 154248 and 196415 of commit 89af47e: the pool has the UID of the wrong cluster.

    Its owner is in the wrong cluster too. Pods of its own cluster run on it, which nobody sees.
    """
    world.cluster.empty()
    world.cluster.add(*[jobset] if jobset else [])
    world.pools.add(CLUSTER, a_pool(status))
    stand_beside_default_pools(world, group=THERE)
    world.sweep()
    assert world.pools.calls == [("list", "")]
    world.records.expect_in_order({"severity": "CRITICAL", "reason": "cluster_unproven"})

    world.collect(an_over_event("deleted"))
    assert world.says() == ("keep", "cluster_unproven")
    assert world.pools.count("delete") == 0


@pytest.mark.parametrize("pool", [a_pool("ERROR", reserved=True), a_pool(fingerprint="1-other")])
def test_a_pool_that_a_leader_of_the_other_cluster_would_replace_stays(world: World, pool: PoolSnapshot) -> None:
    world.use(replace_differing_pools=True)
    world.pools.add(CLUSTER, pool)
    stand_beside_default_pools(world, group=THERE)
    world.deliver(a_demand_event())

    assert world.says() == ("keep", "cluster_unproven")
    assert world.pools.count("delete") == 0


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


def test_a_node_of_any_pool_proves_the_cluster_although_the_label_says_another(world: World) -> None:
    """Seeds 9163 and 28907 of commit 89af47e: a pool without nodes that was made during a swap."""
    wrong: dict[str, str | None] = {labels.CLUSTER_UID: "uid-of-another"}
    orphan = a_claim(name="gone", owner_uid="gone")
    world.pools.add(CLUSTER, a_pool("ERROR", claim=orphan, extra_labels=wrong), a_go_pool(jobset="past"))
    stand_beside_default_pools(world, group=HERE)
    assert world.sweep() == (200, {"delete": 2, "create": 1, "errors": 0})


def test_a_node_of_a_pool_of_ours_proves_the_cluster_of_the_others(world: World) -> None:
    orphan = a_claim(name="gone", owner_uid="gone")
    world.pools.add(CLUSTER, a_pool(), a_pool("ERROR", claim=orphan, extra_labels={labels.CLUSTER_UID: None}))
    stand_beside_default_pools(world, group=THERE)
    world.cluster.nodes[NAME] = ["a-node"]
    assert world.sweep()[1]["delete"] == 1


@pytest.mark.parametrize("nodes", [0, 1])
def test_a_pool_without_the_label_goes_only_if_a_node_of_it_is_in_the_cluster(world: World, nodes: int) -> None:
    world.cluster.empty()
    world.pools.add(CLUSTER, a_pool(extra_labels={labels.CLUSTER_UID: None}), a_go_pool())
    world.cluster.nodes.update({name: [f"node-of-{name}"] * nodes for name in (NAME, "train-12345")})
    assert world.sweep()[1] == ({"delete": 2, "errors": 0} if nodes else {"keep": 2, "errors": 0})


def test_each_pool_that_is_created_says_its_cluster(world: World) -> None:
    world.deliver(a_demand_event())

    assert world.pools.bodies[0]["config"]["labels"][labels.CLUSTER_UID] == CLUSTER_UID
    assert world.pools.calls == [("list", ""), ("create", NAME)]


def test_one_wrong_label_does_not_stop_a_cluster(world: World) -> None:
    wrong: dict[str, str | None] = {labels.CLUSTER_UID: "uid-of-another"}
    world.pools.add(
        CLUSTER, a_pool(claim=claim_of(1)), a_pool(name="wrong", claim=a_claim(name="x"), extra_labels=wrong)
    )
    world.sweep()

    assert len(world.pools.bodies) == 1
