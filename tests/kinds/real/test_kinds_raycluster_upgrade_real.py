"""A RayCluster that lives through an upgrade of KubeRay from 1.5.1 to 1.6.1.

The new version does not count the pods that it finds.

The control plane is one of its own: the operator is replaced on it. GKE's Ray TPU webhook, which
tells and keeps apart the slices under both versions, is a stand-in (`tests.kinds.ray_webhook`).
"""

from collections.abc import Iterator

import pytest

from standins.controlplane.plane import ControlPlane
from tests.kinds.controllers import with_controllers
from tests.kinds.ray_webhook import RayWebhook
from tests.kinds.rays import REPLICA_INDEX, Life, a_group
from tests.lives.cloud import Cloud, wait_for

BEFORE, AFTER = "kuberay-1.5", "kuberay-1.6"
pytestmark = with_controllers(BEFORE, AFTER)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(BEFORE) as plane, RayWebhook(plane):
        yield plane


def test_the_doubled_demand_of_an_operator_upgrade_is_explained_and_not_bought(
    plane: ControlPlane, cloud: Cloud
) -> None:
    whole, one_host = Life(cloud, "doubled"), Life(cloud, "counted")
    whole.submit(a_group("doubled", apart=False, replicas=2))
    one_host.submit(a_group("counted", "2x2", apart=False, replicas=2))
    old, kept = whole.wait_running(4), one_host.wait_running(2)
    pools = whole.pools()
    assert len(pools) == 2

    plane.replace_controller(BEFORE, AFTER)
    wait_for("a second set", lambda: len(whole.workers()) == 8)
    second = [pod for pod in whole.workers() if REPLICA_INDEX in pod["metadata"]["labels"]]
    assert len(second) == 4
    assert "[slice_doubled]" in whole.wait_refusal()
    assert (whole.pools(), whole.accepted("CreateNodePool")) == (pools, 2)

    whole.lose(*old)
    taken = whole.pools_by_replica(whole.wait_running(4))
    assert (sorted(taken.values()), whole.accepted("CreateNodePool")) == (pools, 2)

    # Single hosts it counts as it finds them.
    assert _uids(one_host.wait_running(2)) == _uids(kept)
    assert (one_host.refusals(), one_host.accepted("CreateNodePool")) == ([], 2)
    for life in (whole, one_host):
        life.end()
        assert life.accepted("DeleteNodePool") == 2


def _uids(pods: list[dict[str, dict[str, str]]]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}
