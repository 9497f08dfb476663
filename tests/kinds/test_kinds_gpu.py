"""GPUs from the first pod to the last pool.

Each workload and shape has one elastic pool, whose size follows demand.
"""

import pytest

from tests.kinds.living import places
from tests.kinds.plain import L4, Plain, a_gpu_pod
from tests.lives.cloud import Cloud

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]


def test_the_pods_of_a_job_share_one_pool_that_goes_when_the_job_is_over(cloud: Cloud) -> None:
    life = Plain(cloud, "six", "Job")
    life.submit(a_gpu_pod("six"), 6)
    pods = life.wait_running(6)
    assert len(set(places(pods).values())) == 6
    assert len(life.pools()) == 1
    assert len(life.nodes()) == 6
    life.end(pools=1)
    assert life.accepted("SetNodePoolSize") == 0


def test_a_pool_grows_with_its_job_and_gives_back_only_nodes_that_are_empty(cloud: Cloud) -> None:
    life = Plain(cloud, "waves", "Job")
    life.submit(a_gpu_pod("waves"), 5, parallelism=1)
    life.wait_running(1)
    life.change(parallelism=5)
    before = places(life.wait_running(5))
    assert len(life.pools()) == 1
    assert len(life.nodes()) == 5
    life.change(parallelism=2)
    stay = places(life.wait_running(2))
    life.wait_nodes(2)
    assert places(life.wait_running(2)) == stay
    assert stay.items() <= before.items()
    assert set(life.nodes()) == set(stay.values())
    # It is told once it is done, and the nodes may be gone before that.
    life.wait_told("NodePoolResizeStarted", "pool_shrinks")
    life.change(parallelism=0)
    life.wait_nodes(0)
    assert len(life.pools()) == 1  # the spec may use it again, and without nodes it costs nothing
    life.end(pools=1)
    assert life.accepted("SetNodePoolSize") == 0


def test_several_pods_share_the_gpus_of_a_larger_machine(cloud: Cloud) -> None:
    life = Plain(cloud, "packed", "Job")
    machine = {"node.kubernetes.io/instance-type": "g2-standard-24"}
    life.submit(a_gpu_pod("packed", selector=L4 | machine), 4)
    pods = life.wait_running(4)
    assert len(set(places(pods).values())) == 2
    assert len(life.nodes()) == 2
    life.end()
