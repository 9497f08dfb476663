"""Ray workers with GPUs under KubeRay: one elastic pool for the group follows its replicas."""

from typing import Any

from tests.kinds.controllers import with_controllers
from tests.kinds.living import places
from tests.kinds.rays import Life, a_group
from tests.lives.cloud import Cloud
from tests.lives.jobset_bodies import LIFE

KUBERAY = "kuberay-1.6"
pytestmark = with_controllers(KUBERAY)

Json = dict[str, Any]


def a_gpu_group(life: str, **fields: Any) -> Json:
    """A worker group of one L4 for each worker."""
    group = a_group(life, "2x2", apart=False, **fields)
    pod = group["template"]["spec"]
    pod["nodeSelector"] = {"cloud.google.com/gke-accelerator": "nvidia-l4", LIFE: life}
    pod["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    # GKE's API server adds this to pods that ask for GPUs; not every stand-in does.
    pod["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    return group


def test_the_workers_share_a_pool_that_follows_their_number_up_and_down(cloud: Cloud) -> None:
    life = Life(cloud, "gpus")
    life.submit(a_gpu_group("gpus", maxReplicas=5))
    life.wait_running(1)
    (pool,) = life.pools()

    life.scale(5)
    five = places(life.wait_running(5))
    assert life.pools() == [pool]
    assert len(set(five.values())) == 5

    life.scale(2)
    two = places(life.wait_running(2))
    life.wait_nodes(2)
    assert set(life.nodes()) == set(two.values())
    assert two.items() <= five.items(), "the workers that stay were not moved"
    assert life.pools() == [pool]

    life.scale(0)
    life.wait_nothing_left()
    life.expect_given_back(1)
    assert life.accepted("SetNodePoolSize") == 1
    life.delete()
