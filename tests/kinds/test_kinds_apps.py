"""Deployments, StatefulSets and bare pods from first pod to last pool, through the whole loop.

On the real control plane only: the embedded cluster has no controllers for the first two.
"""

from collections.abc import Callable

import pytest

from tests.clusters import ON_REAL
from tests.kinds.living import places
from tests.kinds.plain import Json, Plain, a_gpu_pod, a_tpu_pod
from tests.lives.cloud import Cloud

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow, ON_REAL]


def a_host_pod(life: str) -> Json:
    return a_tpu_pod(life, "2x2")


def test_all_replicas_of_a_deployment_share_one_pool_until_there_are_none(cloud: Cloud) -> None:
    life = Plain(cloud, "server", "Deployment")
    life.submit(a_tpu_pod("server", "2x2"), 2)
    pods = life.wait_running(2)
    life.expect_one_pool(pods)
    assert len(set(places(pods).values())) == 2
    life.change(replicas=0)
    life.wait_nothing_left()
    assert life.accepted("DeleteNodePool") == 1
    life.end()


@pytest.mark.parametrize(
    ("name", "describe", "most", "least"),
    [("scaled", a_host_pod, 3, 1), ("chat", a_gpu_pod, 4, 2)],
    ids=["single hosts", "GPUs"],
)
def test_the_pool_of_a_deployment_follows_its_replicas_and_goes_with_it(
    cloud: Cloud, name: str, describe: Callable[[str], Json], most: int, least: int
) -> None:
    life = Plain(cloud, name, "Deployment")
    life.submit(describe(name), 1)
    (pool,) = life.pools_of(life.wait_running(1))

    life.change(replicas=most)
    before = places(life.wait_running(most))
    assert life.pools() == [pool]
    assert len(set(before.values())) == most

    life.change(replicas=least)
    after = places(life.wait_running(least))
    life.wait_nodes(least)
    assert set(life.nodes()) == set(after.values())
    assert after.items() <= before.items(), "the replicas that stay were not moved"
    assert life.pools() == [pool]

    life.end(pools=1)
    assert life.accepted("SetNodePoolSize") < most, "one for each pod that waits at most"


def test_the_single_hosts_of_a_stateful_set_share_one_pool_though_they_come_in_turn(cloud: Cloud) -> None:
    life = Plain(cloud, "shards", "StatefulSet")
    life.submit(a_tpu_pod("shards", "2x2"), 2, serviceName="shards")
    life.expect_one_pool(life.wait_running(2))
    life.end()
    assert life.accepted("DeleteNodePool") == 1


def test_a_parallel_stateful_set_of_as_many_pods_as_hosts_is_one_slice(cloud: Cloud) -> None:
    life = Plain(cloud, "handmade", "StatefulSet")
    life.submit(a_tpu_pod("handmade", "2x4"), 2, serviceName="handmade", podManagementPolicy="Parallel")
    life.expect_one_pool(life.wait_running(2))
    assert life.slices() == ["handmade"]
    life.end()


def test_a_slice_whose_pods_would_come_in_turn_is_refused_where_its_owner_looks(cloud: Cloud) -> None:
    life = Plain(cloud, "in-turn", "StatefulSet")
    life.submit(a_tpu_pod("in-turn", "2x4"), 2, serviceName="in-turn")
    life.expect_refusal("podManagementPolicy")


@pytest.mark.parametrize(
    ("name", "describe"), [("lab", a_host_pod), ("notebook", a_gpu_pod)], ids=["a TPU host", "a GPU"]
)
def test_a_bare_pod_has_a_pool_of_one_node_until_it_has_ended(
    cloud: Cloud, name: str, describe: Callable[[str], Json]
) -> None:
    life = Plain(cloud, name, "Pod")
    life.submit_pod(describe(name))
    life.expect_one_pool(life.wait_running(1))
    assert len(life.nodes()) == 1
    life.succeed()
    life.wait_nothing_left()
    life.expect_given_back(1)
    assert life.accepted("SetNodePoolSize") == 0


def test_a_pod_of_an_unknown_controller_is_told_so_and_gets_nothing(cloud: Cloud) -> None:
    life = Plain(cloud, "orphan", "Pod")
    # A live owner of a kind that is not in the table, so that the garbage collector keeps the pod.
    config = cloud.create(f"/api/v1/namespaces/{life.namespace}/configmaps", {"metadata": {"name": "driver"}})
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "driver", "uid": config["metadata"]["uid"]}
    life.submit_pod(a_tpu_pod("orphan", "2x2"), owner | {"controller": True})
    message = life.wait_refusal()
    assert "owner_kind_unknown" in message
    assert "ConfigMap driver" in message
    assert {each["involvedObject"]["name"] for each in life.events("NodePoolRefused")} == {"orphan"}
    assert life.calls() == []
    life.delete()
