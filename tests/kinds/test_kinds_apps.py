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
    life.wait_nodes(0)
    assert len(life.pools()) == 1  # the spec may use it again, and without nodes it costs nothing
    life.end(pools=1)


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


def test_a_parallel_stateful_set_of_as_many_pods_as_hosts_is_one_slice(cloud: Cloud) -> None:
    life = Plain(cloud, "handmade", "StatefulSet")
    life.submit(a_tpu_pod("handmade", "2x4"), 2, serviceName="handmade", podManagementPolicy="Parallel")
    life.expect_one_pool(life.wait_running(2))
    life.end()


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
