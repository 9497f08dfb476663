"""What the engine expects of GKE's node pools, asked of the edge over the fake GKE.

What only HTTP has (codes, lost connections, answers that cannot be read) is in `test_gke_edge`.
"""

from typing import Any

import pytest

from shared.model import labels
from shared.model.errors import AlreadyExists, Busy, ClusterNotFound, NoCapacity, NotFound
from shared.model.pools import Machines, NodePool, PoolStatus
from tests.builders import CLUSTER
from tests.contract.gke_world import NO_CLUSTER, Gke, a_body, a_gpu_pool_body, call_port

CALLS = ("create", "delete", "raise")


def get(gke: Gke, name: str) -> NodePool:
    found = gke.edge.get(CLUSTER, name)
    assert found is not None, f"no pool {name}"
    return found


def running(gke: Gke, body: dict[str, Any]) -> str:
    """Create a pool, wait until it runs, and return its name."""
    gke.edge.create(CLUSTER, body)
    gke.advance(5000)
    name = str(body["name"])
    assert get(gke, name).status == PoolStatus.RUNNING
    return name


def test_a_pool_lives_and_ends_as_the_rules_expect(gke: Gke) -> None:
    body = a_body()
    name = str(body["name"])
    assert gke.edge.get(CLUSTER, name) is None

    gke.edge.create(CLUSTER, body)
    made = get(gke, name)
    assert made.status == PoolStatus.PROVISIONING
    assert made.labels == body["config"]["labels"]
    assert (made.node_count, made.machine_type, made.topology) == (4, "ct6e-standard-4t", "4x4")
    assert made.owner is not None

    gke.advance(5000)
    assert [(pool.name, pool.status) for pool in gke.edge.list(CLUSTER) if pool.name == name] == [
        (name, PoolStatus.RUNNING)
    ]
    gke.edge.delete(CLUSTER, name)
    assert get(gke, name).status == PoolStatus.STOPPING

    gke.advance(5000)
    assert gke.edge.get(CLUSTER, name) is None
    assert name not in [pool.name for pool in gke.edge.list(CLUSTER)]


def test_the_deletion_of_an_absent_pool_is_success(gke: Gke) -> None:
    gke.edge.delete(CLUSTER, "no-such-pool")

    assert gke.edge.get(CLUSTER, "no-such-pool") is None


def test_a_failed_create_leaves_a_pool_that_says_why_and_keeps_its_name(gke: Gke) -> None:
    gke.fault("outcome", kind="stockout")
    body = a_body()
    name = str(body["name"])
    gke.edge.create(CLUSTER, body)
    gke.advance(5000)

    assert get(gke, name).status == PoolStatus.ERROR
    assert "STOCKOUT" in get(gke, name).error
    with pytest.raises(AlreadyExists):
        gke.edge.create(CLUSTER, body)

    gke.edge.delete(CLUSTER, name)
    gke.advance(5000)
    gke.edge.create(CLUSTER, body)
    assert get(gke, name).status == PoolStatus.PROVISIONING


@pytest.mark.parametrize("error", ["", "GCE_STOCKOUT"])
def test_the_creations_of_pools_are_listed_with_what_became_of_them(gke: Gke, error: str) -> None:
    if error:
        gke.fault("outcome", kind="stockout")
    body = a_body()

    def find() -> list[tuple[bool, bool]]:
        made = [each for each in gke.edge.list_operations(CLUSTER) if each.pool == body["name"]]
        assert all(each.creates and each.began_at for each in made)
        return [(each.ended, bool(each.error) and error in each.error) for each in made]

    assert find() == []
    gke.edge.create(CLUSTER, body)
    assert find() == [(False, False)]
    gke.advance(5000)
    assert find() == [(True, bool(error))]


def test_a_name_is_taken_while_its_pool_runs(gke: Gke) -> None:
    body = a_body()
    running(gke, body)

    with pytest.raises(AlreadyExists):
        gke.edge.create(CLUSTER, body)


@pytest.mark.parametrize(
    ("state", "method"),
    [*(("being created", method) for method in CALLS), *(("being deleted", method) for method in CALLS)],
)
def test_a_pool_on_which_gke_works_is_busy(gke: Gke, state: str, method: str) -> None:
    body = a_gpu_pool_body()
    if state == "being created":
        gke.edge.create(CLUSTER, body)
    else:
        gke.edge.delete(CLUSTER, running(gke, body))

    with pytest.raises(Busy):
        call_port(gke.edge, method, body)


@pytest.mark.parametrize("method", CALLS)
def test_a_cluster_on_which_gke_itself_works_is_busy(gke: Gke, method: str) -> None:
    body, another = a_gpu_pool_body(), a_gpu_pool_body()
    running(gke, body)
    gke.fault("cluster_busy", seconds=60)

    with pytest.raises(Busy):
        call_port(gke.edge, method, another if method == "create" else body)
    assert get(gke, body["name"]).status == PoolStatus.RUNNING
    assert gke.edge.get(CLUSTER, another["name"]) is None


@pytest.mark.parametrize("method", ["create", "get", "list", "delete"])
def test_a_cluster_that_is_not_there_is_never_taken_for_an_empty_one(gke: Gke, method: str) -> None:
    with pytest.raises(ClusterNotFound):
        call_port(gke.edge, method, a_body(), cluster=NO_CLUSTER)


def test_a_create_that_quota_refuses_makes_nothing(gke: Gke) -> None:
    body = a_body()
    text = "Insufficient regional quota to satisfy request"
    gke.fault("fail_sync", code="PERMISSION_DENIED", text=text, reason="INSUFFICIENT_QUOTA_REGIONAL")

    with pytest.raises(NoCapacity):
        gke.edge.create(CLUSTER, body)
    assert gke.edge.get(CLUSTER, body["name"]) is None


def test_a_pool_that_may_grow_counts_what_it_may_grow_to(gke: Gke) -> None:
    """Flex-start pools start empty; limits must count them all the same."""
    body = a_body(selectors={labels.FLEX_START: "true"})
    gke.edge.create(CLUSTER, body)

    assert get(gke, body["name"]).node_count == 4


def test_the_gpus_of_a_node_are_read(gke: Gke) -> None:
    body = a_gpu_pool_body()
    gke.edge.create(CLUSTER, body)

    assert get(gke, body["name"]).gpus_per_node == 1


def test_the_bounds_of_the_autoscaler_are_raised_lowered_and_taken_away(gke: Gke) -> None:
    name = running(gke, a_gpu_pool_body())
    assert (get(gke, name).autoscaled, get(gke, name).node_count) == (True, 3)

    gke.edge.raise_maximum(CLUSTER, name, 5, least=5)
    gke.advance(5000)
    assert get(gke, name).node_count == 5
    gke.edge.lower_maximum(CLUSTER, name, 2)
    gke.advance(5000)
    assert (get(gke, name).autoscaled, get(gke, name).node_count) == (True, 2)
    gke.edge.lower_maximum(CLUSTER, name, 0)
    gke.advance(5000)
    assert not get(gke, name).autoscaled


def test_the_bounds_of_an_absent_pool_cannot_be_changed(gke: Gke) -> None:
    with pytest.raises(NotFound):
        gke.edge.raise_maximum(CLUSTER, "no-such-pool", 2)


def test_a_delete_is_among_the_operations(gke: Gke) -> None:
    name = running(gke, a_body())
    gke.edge.delete(CLUSTER, name)

    kinds = [each.creates for each in gke.edge.list_operations(CLUSTER) if each.pool == name]
    assert sorted(kinds) == [False, True]


def test_the_machines_of_a_pool_that_runs_are_made(gke: Gke) -> None:
    pool = get(gke, running(gke, a_gpu_pool_body()))

    assert gke.edge.read_machines(pool) == Machines(present=1)
