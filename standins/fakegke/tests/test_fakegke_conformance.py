"""What every skin of the fake GKE answers: one set of scenarios in process and by REST."""

import re

import pytest
from google.cloud import container_v1

from standins.fakegke.tests.fakegke_worlds import LOCATION, LONG, PROJECT, ZONE, World, cpu_pool, slice_pool

Pool = container_v1.NodePool.Status
Operation = container_v1.Operation.Status
Kind = container_v1.Operation.Type


def test_a_new_pool_is_visible_at_once_and_runs_when_its_operation_is_done(world: World) -> None:
    operation = world.create()
    assert (operation.status, operation.operation_type) == (Operation.PENDING, Kind.CREATE_NODE_POOL)
    assert world.pool().status == Pool.PROVISIONING
    world.advance(5)
    assert world.operation(operation).status == Operation.RUNNING
    world.advance(700)
    done = world.operation(operation)
    assert (done.status, done.error.code, done.status_message) == (Operation.DONE, 0, "")
    assert world.pool().status == Pool.RUNNING


def test_operations_are_named_and_linked_as_gke_does_it(world: World) -> None:
    operation = world.create()
    assert re.fullmatch(r"operation-\d{13}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", operation.name)
    assert re.search(rf"/projects/\d+/locations/{LOCATION}/operations/{operation.name}$", operation.self_link)
    assert re.search(
        rf"/projects/\d+/locations/{LOCATION}/clusters/{world.cluster}/nodePools/pool-1$", operation.target_link
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", operation.start_time)
    assert world.pool().self_link.endswith(f"{world.parent}/nodePools/pool-1")


def test_defaults_are_filled_in_and_an_omitted_node_count_stays_zero(world: World) -> None:
    pool = cpu_pool(initial_node_count=0)
    world.client.create_node_pool(parent=world.parent, node_pool=pool)
    stored = world.pool()
    assert stored.initial_node_count == 0
    assert (stored.config.disk_size_gb, stored.config.image_type) == (100, "COS_CONTAINERD")
    assert stored.config.resource_labels["goog-gke-node-pool-provisioning-model"] == "on-demand"
    assert stored.management.auto_repair
    assert stored.max_pods_constraint.max_pods_per_node == 110
    assert stored.etag


def test_labels_and_taints_come_back_as_they_were_sent(world: World) -> None:
    taint = container_v1.NodeTaint(key="cloud.google.com/gke-spot", value="true", effect="NO_SCHEDULE")
    world.create(config={"labels": {"example.com/claim": "a-b_c.1"}, "taints": [taint]})
    config = world.pool().config
    assert dict(config.labels) == {"example.com/claim": "a-b_c.1"}
    assert list(config.taints) == [taint]


@pytest.mark.parametrize("call", ["create", "delete"])
@pytest.mark.parametrize("begun", ["create", "delete"], ids=["being created", "being deleted"])
def test_a_pool_that_comes_or_goes_refuses_a_call_with_the_blocking_operation(
    world: World, begun: str, call: str
) -> None:
    if begun == "delete":
        world.created()
    operation = getattr(world, begun)()
    refusal = world.refusal(getattr(world, call))
    assert (refusal.code, refusal.reason) == ("FAILED_PRECONDITION", "CLUSTER_ALREADY_HAS_OPERATION")
    assert "Cluster is running incompatible operation" in refusal.text
    assert operation.name in refusal.text


def test_a_second_create_of_a_running_pool_already_exists_whatever_its_specification(world: World) -> None:
    world.created()
    refusal = world.refusal(lambda: world.client.create_node_pool(parent=world.parent, node_pool=cpu_pool()))
    assert (refusal.code, refusal.reason) == ("ALREADY_EXISTS", "")
    assert refusal.text.endswith(f"Already exists: {world.parent}/nodePools/pool-1.")


def test_a_failed_create_keeps_its_name_and_says_why_in_operation_and_pool(world: World) -> None:
    world.add_fault(switch="outcome", kind="stockout")
    done = world.created()
    assert (done.status, done.error.code) == (Operation.DONE, 8)
    assert "Atomic resize failed with [GCE_STOCKOUT]" in done.status_message
    assert done.detail == done.status_message
    assert done.error.message in done.status_message
    assert [condition.canonical_code for condition in done.cluster_conditions] == [8, 8]
    assert list(done.nodepool_conditions) == []
    pool = world.pool()
    assert (pool.status, pool.conditions[0].code.name) == (Pool.ERROR, "GCE_STOCKOUT")
    assert world.refusal(world.create).code == "ALREADY_EXISTS"
    world.delete()
    world.advance(LONG)
    assert world.pools() == []


def test_a_deleted_pool_is_stopping_and_then_gone(world: World) -> None:
    world.created()
    operation = world.delete()
    assert operation.operation_type == Kind.DELETE_NODE_POOL
    assert world.pool().status == Pool.STOPPING
    world.advance(400)
    assert world.operation(operation).status == Operation.DONE
    assert world.refusal(world.pool).code == "NOT_FOUND"


def test_absent_pools_and_absent_clusters_are_told_apart(world: World) -> None:
    assert world.refusal(world.pool).text.endswith('Not found: node pool "pool-1" not found.')
    assert world.refusal(world.delete).text.endswith('Not found: node pool "pool-1" not found.')
    elsewhere = f"projects/{PROJECT}/locations/us-west1/clusters/{world.cluster}"
    refusal = world.refusal(lambda: world.client.list_node_pools(parent=elsewhere))
    assert refusal.code == "NOT_FOUND"
    assert refusal.text.endswith(f"Not found: {elsewhere}.")


def test_a_zonal_cluster_is_spelled_with_zones_in_links(world: World) -> None:
    parent = f"projects/{PROJECT}/locations/{ZONE}/clusters/{world.zonal}"
    operation = world.client.create_node_pool(parent=parent, node_pool=slice_pool())
    assert (operation.zone, operation.location) == (ZONE, "")
    assert f"/zones/{ZONE}/clusters/{world.zonal}/nodePools/pool-1" in operation.target_link


def test_an_update_replaces_labels_as_a_whole_under_a_new_etag(world: World) -> None:
    world.created(config={"labels": {"a": "1", "b": "2"}})
    before = world.pool()
    request = {
        "name": f"{world.parent}/nodePools/pool-1",
        "etag": before.etag,
        "labels": container_v1.NodeLabels(labels={"c": "3"}),
    }
    operation = world.client.update_node_pool(request=request)
    assert operation.operation_type == Kind.UPGRADE_NODES
    assert world.pool().status == Pool.RECONCILING
    assert world.refusal(world.delete).code == "FAILED_PRECONDITION"
    world.advance(30)
    after = world.pool()
    assert (dict(after.config.labels), after.status) == ({"c": "3"}, Pool.RUNNING)
    assert after.etag != before.etag
    assert world.refusal(lambda: world.client.update_node_pool(request=request)).code == "ABORTED"


def test_an_update_of_anything_else_is_refused_loudly(world: World) -> None:
    world.created()
    request = {"name": f"{world.parent}/nodePools/pool-1", "machine_type": "ct6e-standard-8t"}
    refusal = world.refusal(lambda: world.client.update_node_pool(request=request))
    assert refusal.code == "UNIMPLEMENTED"
    assert "machine_type" in refusal.text


def test_a_slice_cannot_be_resized_but_independent_hosts_can(world: World) -> None:
    world.created()
    request = {"name": f"{world.parent}/nodePools/pool-1", "node_count": 3}
    refusal = world.refusal(lambda: world.client.set_node_pool_size(request=request))
    assert refusal.code == "UNIMPLEMENTED"
    assert "manual resize is not supported" in refusal.text
    world.client.create_node_pool(parent=world.parent, node_pool=cpu_pool("pool-2"))
    world.advance(LONG)
    request["name"] = f"{world.parent}/nodePools/pool-2"
    assert world.client.set_node_pool_size(request=request).operation_type == Kind.SET_NODE_POOL_SIZE


def test_a_cluster_operation_excludes_pool_operations_and_is_listed(world: World) -> None:
    world.add_fault(switch="cluster_busy", seconds=100, type="UPGRADE_MASTER")
    refusal = world.refusal(world.create)
    assert (refusal.code, refusal.reason) == ("FAILED_PRECONDITION", "CLUSTER_ALREADY_HAS_OPERATION")
    assert [operation.operation_type for operation in _operations(world)] == [Kind.UPGRADE_MASTER]
    world.advance(200)
    world.create()


def test_above_the_ceiling_a_call_is_refused_with_the_concurrent_operations_quota(world: World) -> None:
    world.add_fault(switch="max_inflight_ops", value=2)
    world.create("pool-1")
    world.create("pool-2")
    refusal = world.refusal(lambda: world.create("pool-3"))
    assert refusal.code == "RESOURCE_EXHAUSTED"
    assert "hits the concurrent operations quota 2" in refusal.text


def test_a_scripted_refusal_carries_code_reason_and_text(world: World) -> None:
    text = 'Required "container.clusters.update" permission(s) for "projects/demo".'
    world.add_fault(switch="fail_sync", code="PERMISSION_DENIED", reason="IAM_PERMISSION_DENIED", text=text)
    refusal = world.refusal(world.create)
    assert (refusal.code, refusal.reason) == ("PERMISSION_DENIED", "IAM_PERMISSION_DENIED")
    assert refusal.text.endswith(text)
    world.create()


def test_a_lost_reply_leaves_the_pool_behind(world: World) -> None:
    world.add_fault(switch="lose_reply", how="unavailable")
    assert world.refusal(world.create).code == "UNAVAILABLE"
    assert [pool.name for pool in world.pools()] == ["pool-1"]


def test_clusters_can_be_read(world: World) -> None:
    world.created()
    cluster = world.client.get_cluster(name=world.parent)
    assert (cluster.location, [pool.name for pool in cluster.node_pools]) == (LOCATION, ["pool-1"])
    assert cluster.current_node_count == 4
    found = world.client.list_clusters(parent=f"projects/{PROJECT}/locations/-").clusters
    assert {world.cluster, world.zonal} <= {cluster.name for cluster in found}


def _operations(world: World) -> list[container_v1.Operation]:
    listed = world.client.list_operations(parent=f"projects/{PROJECT}/locations/-").operations
    return [operation for operation in listed if f"/clusters/{world.cluster}" in operation.target_link]
