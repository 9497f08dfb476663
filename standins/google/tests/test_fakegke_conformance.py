"""What the fake GKE answers, as Google's own client reads it over REST."""

import re
from typing import Any

import pytest
from google.cloud import container_v1

from standins.google.tests.fakegke_worlds import LOCATION, LONG, PROJECT, ZONE, ServedWorld, cpu_pool, slice_pool

Pool = container_v1.NodePool.Status
Operation = container_v1.Operation.Status
Kind = container_v1.Operation.Type


def test_a_new_pool_is_visible_at_once_and_runs_when_its_operation_is_done(served: ServedWorld) -> None:
    operation = served.create()
    assert (operation.status, operation.operation_type) == (Operation.PENDING, Kind.CREATE_NODE_POOL)
    assert served.pool().status == Pool.PROVISIONING
    served.advance(5)
    assert served.operation(operation).status == Operation.RUNNING
    served.advance(700)
    done = served.operation(operation)
    assert (done.status, done.error.code, done.status_message) == (Operation.DONE, 0, "")
    assert served.pool().status == Pool.RUNNING


def test_operations_are_named_and_linked_as_gke_does_it(served: ServedWorld) -> None:
    operation = served.create()
    assert re.fullmatch(r"operation-\d{13}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", operation.name)
    assert re.search(rf"/projects/\d+/locations/{LOCATION}/operations/{operation.name}$", operation.self_link)
    assert re.search(
        rf"/projects/\d+/locations/{LOCATION}/clusters/{served.cluster}/nodePools/pool-1$", operation.target_link
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", operation.start_time)
    assert served.pool().self_link.endswith(f"{served.parent}/nodePools/pool-1")


def test_defaults_are_filled_in_and_an_omitted_node_count_stays_zero(served: ServedWorld) -> None:
    pool = cpu_pool(initial_node_count=0)
    served.client.create_node_pool(parent=served.parent, node_pool=pool)
    stored = served.pool()
    assert stored.initial_node_count == 0
    assert (stored.config.disk_size_gb, stored.config.image_type) == (100, "COS_CONTAINERD")
    assert stored.config.resource_labels["goog-gke-node-pool-provisioning-model"] == "on-demand"
    assert stored.management.auto_repair
    assert stored.max_pods_constraint.max_pods_per_node == 110
    assert stored.etag


def test_labels_and_taints_come_back_as_they_were_sent(served: ServedWorld) -> None:
    taint = container_v1.NodeTaint(key="cloud.google.com/gke-spot", value="true", effect="NO_SCHEDULE")
    served.create(config={"labels": {"example.com/claim": "a-b_c.1"}, "taints": [taint]})
    config = served.pool().config
    assert dict(config.labels) == {"example.com/claim": "a-b_c.1"}
    assert list(config.taints) == [taint]


@pytest.mark.parametrize("call", ["create", "delete"])
@pytest.mark.parametrize("begun", ["create", "delete"], ids=["being created", "being deleted"])
def test_a_pool_that_comes_or_goes_refuses_a_call_with_the_blocking_operation(
    served: ServedWorld, begun: str, call: str
) -> None:
    if begun == "delete":
        served.created()
    operation = getattr(served, begun)()
    refusal = served.refusal(getattr(served, call))
    assert (refusal.code, refusal.reason) == ("FAILED_PRECONDITION", "CLUSTER_ALREADY_HAS_OPERATION")
    assert "Cluster is running incompatible operation" in refusal.text
    assert operation.name in refusal.text


def test_a_second_create_of_a_running_pool_already_exists_whatever_its_specification(served: ServedWorld) -> None:
    served.created()
    refusal = served.refusal(lambda: served.client.create_node_pool(parent=served.parent, node_pool=cpu_pool()))
    assert (refusal.code, refusal.reason) == ("ALREADY_EXISTS", "")
    assert refusal.text.endswith(f"Already exists: {served.parent}/nodePools/pool-1.")


def test_a_failed_create_keeps_its_name_and_says_why_in_operation_and_pool(served: ServedWorld) -> None:
    served.add_fault(switch="outcome", kind="stockout")
    done = served.created()
    assert (done.status, done.error.code) == (Operation.DONE, 8)
    assert "Atomic resize failed with [GCE_STOCKOUT]" in done.status_message
    assert done.detail == done.status_message
    assert done.error.message in done.status_message
    assert [condition.canonical_code for condition in done.cluster_conditions] == [8, 8]
    assert list(done.nodepool_conditions) == []
    pool = served.pool()
    assert (pool.status, pool.conditions[0].code.name) == (Pool.ERROR, "GCE_STOCKOUT")
    assert served.refusal(served.create).code == "ALREADY_EXISTS"
    served.delete()
    served.advance(LONG)
    assert served.pools() == []


def test_a_deleted_pool_is_stopping_and_then_gone(served: ServedWorld) -> None:
    served.created()
    operation = served.delete()
    assert operation.operation_type == Kind.DELETE_NODE_POOL
    assert served.pool().status == Pool.STOPPING
    served.advance(400)
    assert served.operation(operation).status == Operation.DONE
    assert served.refusal(served.pool).code == "NOT_FOUND"


def test_absent_pools_and_absent_clusters_are_told_apart(served: ServedWorld) -> None:
    assert served.refusal(served.pool).text.endswith('Not found: node pool "pool-1" not found.')
    assert served.refusal(served.delete).text.endswith('Not found: node pool "pool-1" not found.')
    elsewhere = f"projects/{PROJECT}/locations/us-west1/clusters/{served.cluster}"
    refusal = served.refusal(lambda: served.client.list_node_pools(parent=elsewhere))
    assert refusal.code == "NOT_FOUND"
    assert refusal.text.endswith(f"Not found: {elsewhere}.")


def test_a_zonal_cluster_is_spelled_with_zones_in_links(served: ServedWorld) -> None:
    parent = f"projects/{PROJECT}/locations/{ZONE}/clusters/{served.zonal}"
    operation = served.client.create_node_pool(parent=parent, node_pool=slice_pool())
    assert (operation.zone, operation.location) == (ZONE, "")
    assert f"/zones/{ZONE}/clusters/{served.zonal}/nodePools/pool-1" in operation.target_link


def test_an_update_replaces_labels_as_a_whole_under_a_new_etag(served: ServedWorld) -> None:
    served.created(config={"labels": {"a": "1", "b": "2"}})
    before = served.pool()
    request = {
        "name": f"{served.parent}/nodePools/pool-1",
        "etag": before.etag,
        "labels": container_v1.NodeLabels(labels={"c": "3"}),
    }
    operation = served.client.update_node_pool(request=request)
    assert operation.operation_type == Kind.UPGRADE_NODES
    assert served.pool().status == Pool.RECONCILING
    assert served.refusal(served.delete).code == "FAILED_PRECONDITION"
    served.advance(30)
    after = served.pool()
    assert (dict(after.config.labels), after.status) == ({"c": "3"}, Pool.RUNNING)
    assert after.etag != before.etag
    assert served.refusal(lambda: served.client.update_node_pool(request=request)).code == "ABORTED"


def test_an_update_of_anything_else_is_refused_loudly(served: ServedWorld) -> None:
    served.created()
    request = {"name": f"{served.parent}/nodePools/pool-1", "machine_type": "ct6e-standard-8t"}
    refusal = served.refusal(lambda: served.client.update_node_pool(request=request))
    assert refusal.code == "UNIMPLEMENTED"
    assert "machine_type" in refusal.text


def test_a_slice_cannot_be_resized_but_independent_hosts_can(served: ServedWorld) -> None:
    served.created()
    request = {"name": f"{served.parent}/nodePools/pool-1", "node_count": 3}
    refusal = served.refusal(lambda: served.client.set_node_pool_size(request=request))
    assert refusal.code == "UNIMPLEMENTED"
    assert "manual resize is not supported" in refusal.text
    served.client.create_node_pool(parent=served.parent, node_pool=cpu_pool("pool-2"))
    served.advance(LONG)
    request["name"] = f"{served.parent}/nodePools/pool-2"
    assert served.client.set_node_pool_size(request=request).operation_type == Kind.SET_NODE_POOL_SIZE


def test_the_bounds_of_the_autoscaler_can_be_set_and_turned_off(served: ServedWorld) -> None:
    served.client.create_node_pool(parent=served.parent, node_pool=cpu_pool())
    served.advance(LONG)
    request: dict[str, Any] = {"name": f"{served.parent}/nodePools/pool-1"}
    request["autoscaling"] = {"enabled": True, "max_node_count": 7}
    served.client.set_node_pool_autoscaling(request=request)
    served.advance(30)
    assert (served.pool().status, served.pool().autoscaling.max_node_count) == (Pool.RUNNING, 7)
    request["autoscaling"] = {"enabled": False}
    served.client.set_node_pool_autoscaling(request=request)
    served.advance(30)
    assert not served.pool().autoscaling.enabled
    request["autoscaling"] = {"enabled": True, "min_node_count": 2, "max_node_count": 1}
    refusal = served.refusal(lambda: served.client.set_node_pool_autoscaling(request=request))
    assert refusal.code == "INVALID_ARGUMENT"


def test_a_cluster_operation_excludes_pool_operations_and_is_listed(served: ServedWorld) -> None:
    served.add_fault(switch="cluster_busy", seconds=100, type="UPGRADE_MASTER")
    refusal = served.refusal(served.create)
    assert (refusal.code, refusal.reason) == ("FAILED_PRECONDITION", "CLUSTER_ALREADY_HAS_OPERATION")
    assert [operation.operation_type for operation in _operations(served)] == [Kind.UPGRADE_MASTER]
    served.advance(200)
    served.create()


def test_above_the_ceiling_a_call_is_refused_with_the_concurrent_operations_quota(served: ServedWorld) -> None:
    served.add_fault(switch="max_inflight_ops", value=2)
    served.create("pool-1")
    served.create("pool-2")
    refusal = served.refusal(lambda: served.create("pool-3"))
    assert refusal.code == "RESOURCE_EXHAUSTED"
    assert "hits the concurrent operations quota 2" in refusal.text


def test_a_scripted_refusal_carries_code_reason_and_text(served: ServedWorld) -> None:
    text = 'Required "container.clusters.update" permission(s) for "projects/demo".'
    served.add_fault(switch="fail_sync", code="PERMISSION_DENIED", reason="IAM_PERMISSION_DENIED", text=text)
    refusal = served.refusal(served.create)
    assert (refusal.code, refusal.reason) == ("PERMISSION_DENIED", "IAM_PERMISSION_DENIED")
    assert refusal.text.endswith(text)
    served.create()


def test_a_lost_reply_leaves_the_pool_behind(served: ServedWorld) -> None:
    served.add_fault(switch="lose_reply", how="unavailable")
    assert served.refusal(served.create).code == "UNAVAILABLE"
    assert [pool.name for pool in served.pools()] == ["pool-1"]


def test_clusters_can_be_read(served: ServedWorld) -> None:
    served.created()
    cluster = served.client.get_cluster(name=served.parent)
    assert (cluster.location, [pool.name for pool in cluster.node_pools]) == (LOCATION, ["pool-1"])
    assert cluster.current_node_count == 4
    found = served.client.list_clusters(parent=f"projects/{PROJECT}/locations/-").clusters
    assert {served.cluster, served.zonal} <= {cluster.name for cluster in found}


def _operations(served: ServedWorld) -> list[container_v1.Operation]:
    listed = served.client.list_operations(parent=f"projects/{PROJECT}/locations/-").operations
    return [operation for operation in listed if f"/clusters/{served.cluster}" in operation.target_link]
