"""The label of a namespace, and whether the API that was read is the pool's cluster's."""

import pytest

from shared.model.pools import PoolStatus
from tests.builders import a_go_pool
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


# --- the proof of the cluster


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
