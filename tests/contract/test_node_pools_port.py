"""What the engine expects of GKE's node pools, asked of the edge over the fake GKE.

What only HTTP has (codes, lost connections, answers that cannot be read) is in `test_gke_edge`.
"""

from typing import Any

import pytest

from shared.model import labels
from shared.model.errors import AlreadyExists, Busy, ClusterNotFound, NoCapacity, NotFound
from shared.model.pools import Machines, NodePool, PoolStatus
from tests.builders import CLUSTER
from tests.contract.gke_world import NO_CLUSTER, Edge, Gke, a_body, a_gpu_pool_body, call_port

CALLS = ("create", "delete", "raise")


class World:
    """The edge over the REST API of the fake GKE, and what a test arranges around it."""

    def __init__(self, gke: Gke) -> None:
        self._gke = gke
        self.port: Edge = gke.edge

    def end_operations(self) -> None:
        self._gke.advance(5000)

    def let_creation_fail(self) -> None:
        self._gke.fault("outcome", kind="stockout")

    def upgrade_cluster(self) -> None:
        self._gke.fault("cluster_busy", seconds=60)

    def exhaust_quota(self) -> None:
        text = "Insufficient regional quota to satisfy request"
        self._gke.fault("fail_sync", code="PERMISSION_DENIED", text=text, reason="INSUFFICIENT_QUOTA_REGIONAL")


@pytest.fixture
def world(gke: Gke) -> World:
    return World(gke)


def get(world: World, name: str) -> NodePool:
    found = world.port.get(CLUSTER, name)
    assert found is not None, f"no pool {name}"
    return found


def running(world: World, body: dict[str, Any]) -> str:
    """Create a pool, wait until it runs, and return its name."""
    world.port.create(CLUSTER, body)
    world.end_operations()
    name = str(body["name"])
    assert get(world, name).status == PoolStatus.RUNNING
    return name


def test_a_pool_lives_and_ends_as_the_rules_expect(world: World) -> None:
    body = a_body()
    name = str(body["name"])
    assert world.port.get(CLUSTER, name) is None

    world.port.create(CLUSTER, body)
    made = get(world, name)
    assert made.status == PoolStatus.PROVISIONING
    assert made.labels == body["config"]["labels"]
    assert (made.node_count, made.machine_type, made.topology) == (4, "ct6e-standard-4t", "4x4")
    assert made.owner is not None

    world.end_operations()
    assert [(pool.name, pool.status) for pool in world.port.list(CLUSTER) if pool.name == name] == [
        (name, PoolStatus.RUNNING)
    ]
    world.port.delete(CLUSTER, name)
    assert get(world, name).status == PoolStatus.STOPPING

    world.end_operations()
    assert world.port.get(CLUSTER, name) is None
    assert name not in [pool.name for pool in world.port.list(CLUSTER)]


def test_the_deletion_of_an_absent_pool_is_success(world: World) -> None:
    world.port.delete(CLUSTER, "no-such-pool")

    assert world.port.get(CLUSTER, "no-such-pool") is None


def test_a_failed_create_leaves_a_pool_that_says_why_and_keeps_its_name(world: World) -> None:
    world.let_creation_fail()
    body = a_body()
    name = str(body["name"])
    world.port.create(CLUSTER, body)
    world.end_operations()

    assert get(world, name).status == PoolStatus.ERROR
    assert "STOCKOUT" in get(world, name).error
    with pytest.raises(AlreadyExists):
        world.port.create(CLUSTER, body)

    world.port.delete(CLUSTER, name)
    world.end_operations()
    world.port.create(CLUSTER, body)
    assert get(world, name).status == PoolStatus.PROVISIONING


@pytest.mark.parametrize("error", ["", "GCE_STOCKOUT"])
def test_the_creations_of_pools_are_listed_with_what_became_of_them(world: World, error: str) -> None:
    if error:
        world.let_creation_fail()
    body = a_body()

    def find() -> list[tuple[bool, bool]]:
        made = [each for each in world.port.list_operations(CLUSTER) if each.pool == body["name"]]
        assert all(each.creates and each.began_at for each in made)
        return [(each.ended, bool(each.error) and error in each.error) for each in made]

    assert find() == []
    world.port.create(CLUSTER, body)
    assert find() == [(False, False)]
    world.end_operations()
    assert find() == [(True, bool(error))]


def test_a_name_is_taken_while_its_pool_runs(world: World) -> None:
    body = a_body()
    running(world, body)

    with pytest.raises(AlreadyExists):
        world.port.create(CLUSTER, body)


@pytest.mark.parametrize(
    ("state", "method"),
    [*(("being created", method) for method in CALLS), *(("being deleted", method) for method in CALLS)],
)
def test_a_pool_on_which_gke_works_is_busy(world: World, state: str, method: str) -> None:
    body = a_gpu_pool_body()
    if state == "being created":
        world.port.create(CLUSTER, body)
    else:
        world.port.delete(CLUSTER, running(world, body))

    with pytest.raises(Busy):
        call_port(world.port, method, body)


@pytest.mark.parametrize("method", CALLS)
def test_a_cluster_on_which_gke_itself_works_is_busy(world: World, method: str) -> None:
    body, another = a_gpu_pool_body(), a_gpu_pool_body()
    running(world, body)
    world.upgrade_cluster()

    with pytest.raises(Busy):
        call_port(world.port, method, another if method == "create" else body)
    assert get(world, body["name"]).status == PoolStatus.RUNNING
    assert world.port.get(CLUSTER, another["name"]) is None


@pytest.mark.parametrize("method", ["create", "get", "list", "delete"])
def test_a_cluster_that_is_not_there_is_never_taken_for_an_empty_one(world: World, method: str) -> None:
    with pytest.raises(ClusterNotFound):
        call_port(world.port, method, a_body(), cluster=NO_CLUSTER)


def test_a_create_that_quota_refuses_makes_nothing(world: World) -> None:
    body = a_body()
    world.exhaust_quota()

    with pytest.raises(NoCapacity):
        world.port.create(CLUSTER, body)
    assert world.port.get(CLUSTER, body["name"]) is None


def test_a_pool_that_may_grow_counts_what_it_may_grow_to(world: World) -> None:
    """Flex-start pools start empty; limits must count them all the same."""
    body = a_body(selectors={labels.FLEX_START: "true"})
    world.port.create(CLUSTER, body)

    assert get(world, body["name"]).node_count == 4


def test_the_gpus_of_a_node_are_read(world: World) -> None:
    body = a_gpu_pool_body()
    world.port.create(CLUSTER, body)

    assert get(world, body["name"]).gpus_per_node == 1


def test_the_bounds_of_the_autoscaler_are_raised_lowered_and_taken_away(world: World) -> None:
    name = running(world, a_gpu_pool_body())
    assert (get(world, name).autoscaled, get(world, name).node_count) == (True, 3)

    world.port.raise_maximum(CLUSTER, name, 5, least=5)
    world.end_operations()
    assert get(world, name).node_count == 5
    world.port.lower_maximum(CLUSTER, name, 2)
    world.end_operations()
    assert (get(world, name).autoscaled, get(world, name).node_count) == (True, 2)
    world.port.lower_maximum(CLUSTER, name, 0)
    world.end_operations()
    assert not get(world, name).autoscaled


def test_the_bounds_of_an_absent_pool_cannot_be_changed(world: World) -> None:
    with pytest.raises(NotFound):
        world.port.raise_maximum(CLUSTER, "no-such-pool", 2)


def test_a_delete_is_among_the_operations(world: World) -> None:
    name = running(world, a_body())
    world.port.delete(CLUSTER, name)

    kinds = [each.creates for each in world.port.list_operations(CLUSTER) if each.pool == name]
    assert sorted(kinds) == [False, True]


def test_the_machines_of_a_pool_that_runs_are_made(world: World) -> None:
    pool = get(world, running(world, a_gpu_pool_body()))

    assert world.port.read_machines(pool) == Machines(present=1)
