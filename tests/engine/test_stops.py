"""The label of a namespace, and whether the API that was read is the pool's cluster's."""

import pytest
from msgspec import structs

from shared.model import labels
from shared.model.errors import Unavailable
from shared.model.pools import PoolStatus
from tests.builders import a_go_pool
from tests.engine.world import World, list_reasons


def stop(world: World, namespace: str, value: str) -> None:
    world.cluster.labels[namespace] = {labels.MODE: value}


@pytest.mark.parametrize("namespace", ["default", "tpu-provisioner"])
@pytest.mark.parametrize(
    ("value", "creates", "deletes"),
    [("active", True, True), ("no-create", False, True), ("report-only", False, False), ("of", False, False)],
)
def test_a_label_stops_what_it_says(namespace: str, value: str, creates: bool, deletes: bool) -> None:
    world = World()
    world.wait(0)
    stop(world, namespace, value)
    told = list_reasons(world.provisioner.work())
    assert told == (["pool_absent"] if creates else ["stopped"])

    world.cluster.labels[namespace] = {}
    (name,) = world.run_all()
    world.finish(replicas=1)
    stop(world, namespace, value)
    world.collector.tick()
    assert world.list_deleted() == ([name] if deletes else [])


def test_a_namespace_that_opts_out_gets_no_pool() -> None:
    world = World()
    world.wait(0)
    world.cluster.labels["default"] = {labels.DISABLE_AUTOPROVISIONING: "true"}

    assert list_reasons(world.provisioner.work()) == ["stopped"]


def test_a_deleted_namespace_of_a_workload_keeps_no_pool() -> None:
    world = World()
    (name,) = world.run_all()
    world.cluster.workloads.clear()
    world.cluster.pods.clear()
    del world.cluster.labels["default"]

    world.collector.tick()

    assert world.list_deleted() == [name]


def test_without_our_own_namespace_nothing_is_done() -> None:
    world = World()
    world.run_all()
    world.finish(replicas=1)
    del world.cluster.labels["tpu-provisioner"]

    world.collector.tick()

    assert not world.list_deleted()


def test_a_label_that_cannot_be_read_stops_everything() -> None:
    world = World()
    world.wait(0)

    def fail(call: str) -> None:
        if call == "get namespace default":
            raise Unavailable("no answer")

    world.gke.before = fail

    assert list_reasons(world.provisioner.work()) == ["stopped"]
    assert "could not be read" in world.cluster.notices[0].message


def test_a_stop_that_comes_between_the_two_looks_holds() -> None:
    world = World()
    world.run_all()
    world.finish(replicas=1)

    def stop_late(call: str) -> None:
        if call == "list nodes":
            stop(world, "default", "report-only")

    world.gke.before = stop_late
    assert not world.collect().done
    assert not world.list_deleted()


# --- the proof of the cluster


def test_a_pool_of_another_cluster_is_kept_and_told() -> None:
    world = World()
    (name,) = world.run_all()
    world.finish(replicas=1)
    pool = world.gke.pools[name]
    world.gke.pools[name] = structs.replace(pool, labels=pool.labels | {labels.CLUSTER_UID: "other"})

    done = world.collector.tick()

    assert list_reasons(done) == ["cluster_unproven"]
    assert not world.list_deleted()


def go_world(status: str) -> World:
    world = World()
    world.finish(replicas=1)
    pool = a_go_pool(status=status)
    world.gke.pools[pool.name] = structs.replace(
        pool, machine_type="ct6e-standard-4t", topology="4x4", node_count=4
    )
    return world


def test_a_go_pool_is_proven_by_a_node_of_its_own() -> None:
    world = go_world("RUNNING")
    (name,) = world.gke.pools
    assert list_reasons(world.collector.tick()) == ["cluster_unproven"]

    world.come(name)
    world.collector.tick()
    assert world.list_deleted() == [name]


def test_a_failed_go_pool_without_a_node_is_proven_by_any_node() -> None:
    world = go_world("ERROR")
    (name,) = world.gke.pools
    assert list_reasons(world.collector.tick()) == ["cluster_unproven"]

    world.gke.pools["static"] = structs.replace(
        world.gke.pools[name], name="static", status=PoolStatus.RUNNING, labels={}
    )
    world.come("static", ready=1)
    world.collector.tick()
    assert world.list_deleted() == [name]


def test_a_pool_of_another_deployment_is_not_ours() -> None:
    world = World()
    (name,) = world.run_all()
    world.finish(replicas=1)
    world.gke.pools[name] = structs.replace(world.gke.pools[name], deployment="another")

    assert not world.collector.tick().outcomes
    assert not world.list_deleted()


def test_deliveries_share_for_two_seconds_that_nothing_is_stopped() -> None:
    world = World(slices=3)
    world.wait(0)
    world.provisioner.work()
    reads = world.gke.calls.count("get namespace default")

    world.wait(1)
    world.provisioner.work()
    assert world.gke.calls.count("get namespace default") == reads

    stop(world, "default", "no-create")
    world.clock.time += 3
    world.wait(2)
    assert list_reasons(world.provisioner.work()) == ["stopped"]
    world.cluster.labels["default"] = {}
    assert list_reasons(world.provisioner.work()) == ["pool_absent", "slices_may_mix"]
