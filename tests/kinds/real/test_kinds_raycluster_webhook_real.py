"""RayClusters of KubeRay 1.5 whose slices GKE's Ray TPU webhook tells and keeps apart: whole loop.

The webhook is a stand-in that the API server calls (`tests.kinds.ray_webhook`). The control plane
is one of its own, for the webhook sees the pods of every RayCluster.
"""

from collections.abc import Iterator

import pytest

from standins.controlplane.cache import Build
from standins.controlplane.commands import Choices
from standins.controlplane.plane import ControlPlane
from tests.kinds.controllers import with_controllers
from tests.kinds.ray_webhook import REPLICA_INDEX, RayWebhook
from tests.kinds.rays import Life, a_group
from tests.lives.cloud import Cloud

KUBERAY = "kuberay-1.5"
pytestmark = with_controllers(KUBERAY)


@pytest.fixture(scope="module")
def plane(build: Build) -> Iterator[ControlPlane]:
    choices = Choices(scheduler_backoff_seconds=1, controllers=(KUBERAY,))
    with ControlPlane(build, choices) as plane, RayWebhook(plane):
        yield plane


def test_the_webhook_s_label_tells_the_replicas_and_only_the_one_that_leaves_gives_its_pool_back(
    cloud: Cloud,
) -> None:
    life = Life(cloud, "hooked")
    life.submit(a_group("hooked", apart=False, replicas=2))
    pods = life.wait_running(4)
    both = life.pools_by_replica(pods, REPLICA_INDEX)
    assert set(both) == {"g-0", "g-1"}
    life.wait_pools(*both.values())

    # This version replaces the host that is lost, not its replica; the webhook finds it the gap.
    life.lose(pods[0])
    pods = life.wait_running(4)
    assert life.pools_by_replica(pods, REPLICA_INDEX) == both

    leaving = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["labels"][REPLICA_INDEX] == "g-1"]
    life.scale(1, without=leaving)
    left = life.pools_by_replica(life.wait_running(2), REPLICA_INDEX)
    assert left == {"g-0": both["g-0"]}
    life.wait_pools(both["g-0"])

    life.end(pools=2)
