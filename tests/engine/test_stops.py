"""The label of a namespace, and whether the API that was read is the pool's cluster's."""

import pytest

from shared.model import labels
from shared.model.errors import Unavailable
from shared.model.pools import PoolStatus
from tests.builders import a_go_pool
from tests.engine.test_second_look import over
from tests.engine.world import World, list_reasons


@pytest.mark.parametrize("namespace", ["default", "tpu-provisioner"])
@pytest.mark.parametrize(
    ("value", "creates", "deletes"),
    [("active", True, True), ("no-create", False, True), ("report-only", False, False), ("of", False, False)],
)
def test_a_label_stops_what_it_says(namespace: str, value: str, creates: bool, deletes: bool) -> None:
    world = World()
    world.wait(0)
    world.stop(namespace, value)
    assert list_reasons(world.provisioner.work()) == (["pool_absent"] if creates else ["stopped"])

    world.cluster.labels[namespace] = {}
    (name,) = world.run_all()
    world.finish(replicas=1)
    world.stop(namespace, value)
    world.collector.tick()
    assert world.list_deleted() == ([name] if deletes else [])


@pytest.mark.parametrize(("value", "reason"), [("true", "stopped"), ("false", "pool_absent")])
def test_a_namespace_that_opts_out_gets_no_pool(value: str, reason: str) -> None:
    world = World()
    world.wait(0)
    world.cluster.labels["default"] = {labels.DISABLE_AUTOPROVISIONING: value}

    assert list_reasons(world.provisioner.work()) == [reason]


@pytest.mark.parametrize(("namespace", "kept"), [("default", False), ("tpu-provisioner", True)])
def test_our_own_namespace_must_be_there_and_a_workload_s_may_be_gone(namespace: str, kept: bool) -> None:
    world, name = over()
    if not kept:
        world.cluster.workloads.clear()
    del world.cluster.labels[namespace]

    world.collector.tick()

    assert world.list_deleted() == [name] * (not kept)


def test_a_label_that_cannot_be_read_stops_everything() -> None:
    world = World()
    world.wait(0)
    world.fail("get namespace default", Unavailable("no answer"))

    assert list_reasons(world.provisioner.work()) == ["stopped"]
    assert "could not be read" in world.cluster.notices[0].message


def test_deliveries_share_for_two_seconds_that_nothing_is_stopped() -> None:
    world = World(slices=3)
    world.wait(0)
    world.provisioner.work()
    reads = world.gke.calls.count("get namespace default")

    world.wait(1)
    world.provisioner.work()
    assert world.gke.calls.count("get namespace default") == reads

    world.stop("default", "no-create")
    world.clock.time += 3
    world.wait(2)
    assert list_reasons(world.provisioner.work()) == ["stopped"]
    world.cluster.labels["default"] = {}
    assert list_reasons(world.provisioner.work()) == ["pool_absent", "slices_may_mix"]


# --- the proof of the cluster


def test_a_pool_of_another_cluster_is_kept_and_told() -> None:
    world, name = over()
    world.change(name, labels=world.gke.pools[name].labels | {labels.CLUSTER_UID: "other"})

    assert list_reasons(world.collector.tick()) == ["cluster_unproven"]
    assert not world.list_deleted()


@pytest.mark.parametrize("status", ["RUNNING", "ERROR"])
def test_a_go_pool_is_proven_by_a_node_of_its_own_and_one_that_failed_by_any_node(status: str) -> None:
    world, go = World(), a_go_pool(status=status)
    world.finish(replicas=1)
    for name in (go.name, "static"):
        world.gke.pools[name] = go
        world.change(name, name=name, machine_type="ct6e-standard-4t", topology="4x4", maximum=4)
    world.change("static", status=PoolStatus.RUNNING, labels={})
    assert list_reasons(world.collector.tick()) == ["cluster_unproven"]

    world.come("static", ready=1)
    world.collector.tick()
    assert world.list_deleted() == [go.name] * (status == "ERROR")
    world.cluster.nodes.clear()
    if status == "RUNNING":
        world.come(go.name)
        world.collector.tick()
    assert world.list_deleted() == [go.name]


def test_a_pool_of_another_deployment_is_not_ours() -> None:
    world, name = over()
    world.change(name, deployment="another")

    assert not world.collector.tick().outcomes
    assert not world.list_deleted()
