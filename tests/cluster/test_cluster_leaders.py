"""The deployed client reads waiting pods and their JobSets from a real API server."""

import pytest

from cli.access.kubeconfig import connection_from_kubeconfig
from shared.edges.cluster import KubernetesCluster
from shared.edges.kubernetes import KubernetesApi
from shared.edges.pods import Pod, view_pod
from standins.controlplane.plane import ControlPlane
from standins.controlplane.tests.controlplane_worlds import World, jobset, wait_for

pytestmark = pytest.mark.cluster


def test_what_is_deployed_reads_pods_from_it(plane: ControlPlane, world: World) -> None:
    world.submit(jobset("train"))
    wait_for("two leaders", lambda: len(world.unschedulable()) == 2)
    api = KubernetesApi(connection_from_kubeconfig(plane.kubeconfig))
    cluster = KubernetesCluster(api)
    leaders = [pod for pod in cluster.list_accelerator_pods() if pod.namespace == world.namespace]

    assert len(leaders) == 2
    assert {pod.name for pod in leaders} == {pod["metadata"]["name"] for pod in world.pods()}
    same = api.get(f"/api/v1/namespaces/{world.namespace}/pods/{leaders[0].name}", Pod)
    assert view_pod(same) == leaders[0]
    assert cluster.get_workload("JobSet", world.namespace, "train") is not None
    assert cluster.get_workload("JobSet", world.namespace, "another") is None
