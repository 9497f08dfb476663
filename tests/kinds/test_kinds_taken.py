"""A stranger takes a host of a pool, so the pod that returns waits and is told who it is."""

import pytest

from shared.model import labels
from tests.kinds.plain import Json, Plain, a_tpu_pod
from tests.lives.cloud import Cloud, wait_for

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]


def submit_stranger(cloud: Cloud, life: Plain) -> Plain:
    """Create a bare pod that needs no pool and fits on the life's nodes; return once it waits."""
    stranger = Plain(cloud, f"stranger-of-{life.name}", "Pod")
    template = a_tpu_pod(life.name, "2x4")
    template["metadata"]["labels"][labels.DISABLE_AUTOPROVISIONING] = "true"
    stranger.submit_pod(template)
    wait_for("the stranger to wait", lambda: _waits(stranger.pods()[0]))
    return stranger


def _waits(pod: Json) -> bool:
    return any(each.get("reason") == "Unschedulable" for each in pod["status"].get("conditions", ()))


@pytest.mark.parametrize("index", ["0", "1"], ids=["the first pod", "a later pod"])
def test_a_pod_whose_place_a_stranger_took_says_so_until_it_is_free_again(cloud: Cloud, index: str) -> None:
    life = Plain(cloud, f"robbed{index}", "Job")
    life.submit(a_tpu_pod(life.name, "2x4"), 2, completionMode="Indexed")
    running = life.wait_running(2)
    stranger = submit_stranger(cloud, life)

    lost = next(pod for pod in running if pod["metadata"]["labels"][labels.COMPLETION_INDEX] == index)
    cloud.delete(f"/api/v1/namespaces/{life.namespace}/pods/{lost['metadata']['name']}")

    life.wait_told("NodePoolKept", f"(Pod {stranger.namespace}/{stranger.name}) [pool_taken]")
    assert stranger.wait_running(1)
    stranger.delete()
    life.expect_one_pool(life.wait_running(2))
    life.end(pools=1)
