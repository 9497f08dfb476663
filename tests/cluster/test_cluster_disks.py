"""The real scheduler binds a pod with a disk only to a node in the zone that its pool gets."""

import pytest
from shared.engine.looks.gather import add_disks
from shared.engine.looks.look import open_look

from shared.edges.clock import SYSTEM_CLOCK
from shared.edges.kubernetes_api import KubernetesApi, connection_from_kubeconfig
from shared.edges.kubernetes_cluster import KubernetesCluster
from shared.engine.outside import Ports
from shared.model import labels
from shared.model.workloads import PodView
from shared.needs.demand import Demand
from standins.controlplane.plane import ControlPlane
from standins.controlplane.tests.controlplane_worlds import World, jobset, wait_for
from tests.builders import CLUSTER, ZONE, settings
from tests.claimed_disks import VOLUMES, list_bound, name_claims
from tests.component.fakes import FakeNodePools
from tests.demands import decide_demand

pytestmark = pytest.mark.cluster

THERE = "us-east5-a"


def test_the_scheduler_takes_a_node_in_the_zone_of_the_pool_and_none_in_the_setting_s(
    plane: ControlPlane, world: World
) -> None:
    for path, body in list_bound(world.namespace, "data", world.namespace, THERE):
        world.api.post(path, json=body)
    train = jobset("train", slices=1)
    pod = train["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    claims = name_claims(world.namespace)
    wait_for("a bound claim", lambda: world.read_all(claims)[0]["status"].get("phase") == "Bound")
    world.submit(train)
    wait_for("a leader", world.unschedulable)
    api = KubernetesApi(connection_from_kubeconfig(plane.kubeconfig))
    cluster = KubernetesCluster(api)
    ports = Ports(settings=settings(), pools=FakeNodePools(), clusters={CLUSTER: cluster}, clock=SYSTEM_CLOCK)

    found = decide(ports, *[each for each in cluster.list_waiting_leaders() if each.namespace == world.namespace])
    assert (found.zone, settings().clusters[CLUSTER].zone) == (THERE, ZONE)

    world.add_pool("bought-blindly", labels={labels.ZONE: ZONE})
    wait_for("its words", lambda: any("PersistentVolume's node affinity" in each for each in told(world)))
    assert world.bound() == []
    world.add_pool("bought", labels={labels.ZONE: found.zone})
    wait_for("four pods on nodes", lambda: len(world.bound()) == 4)
    nodes = {each["spec"]["nodeName"] for each in world.bound()}
    assert all("-bought-" in node and "blindly" not in node for node in nodes)
    world.api.delete(f"{VOLUMES}/{world.namespace}")
    api.close()


def decide(ports: Ports, leader: PodView) -> Demand:
    """Return what the functions would want for a leader."""
    workload = ports.clusters[CLUSTER].get_workload("JobSet", leader.namespace, "train")
    assert workload is not None
    seen = add_disks(open_look(CLUSTER, ports), workload, claims=leader.template.volume_claims)
    found = decide_demand(CLUSTER, leader, seen, ports.settings)
    assert isinstance(found, Demand), found
    return found


def told(world: World) -> list[str]:
    """Return what the scheduler says of the pods that wait."""
    return [
        each.get("message", "") for pod in world.unschedulable() for each in pod["status"].get("conditions", ())
    ]
