"""The real scheduler binds a pod with a disk only to a node in the zone that its pool gets."""

import pytest
from msgspec import structs

from cli.access.kubeconfig import connection_from_kubeconfig
from shared.edges.cluster import KubernetesCluster
from shared.edges.kubernetes import KubernetesApi
from shared.engine.budget import Key
from shared.engine.look import Source
from shared.engine.outside import Ports
from shared.engine.reconcile import plan_for
from shared.model import labels
from shared.needs.nodepool import Demand
from standins.controlplane.plane import ControlPlane
from standins.controlplane.tests.controlplane_worlds import World, jobset, wait_for
from tests.builders import CLUSTER, ZONE, settings
from tests.claimed_disks import VOLUMES, list_bound, name_claims
from tests.engine import world as engine_world

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
    ports = structs.replace(engine_world.World().ports, clusters={CLUSTER: KubernetesCluster(api)})

    found = find_demand(ports, world.namespace)
    assert (found.way.zone, settings().clusters[CLUSTER].zone) == (THERE, ZONE)

    world.add_pool("bought-blindly", labels={labels.ZONE: ZONE})
    wait_for("its words", lambda: any("PersistentVolume's node affinity" in each for each in told(world)))
    assert world.bound() == []
    world.add_pool("bought", labels={labels.ZONE: found.way.zone})
    wait_for("four pods on nodes", lambda: len(world.bound()) == 4)
    nodes = {each["spec"]["nodeName"] for each in world.bound()}
    assert all("-bought-" in node and "blindly" not in node for node in nodes)
    world.api.delete(f"{VOLUMES}/{world.namespace}")
    api.close()


def find_demand(ports: Ports, namespace: str) -> Demand:
    """Return what the functions would ask GKE for."""
    look, _ = plan_for(Key(CLUSTER, "JobSet", namespace, "train"), ports, Source())
    (demand,) = look.wanted.demands.values()
    return demand


def told(world: World) -> list[str]:
    """Return what the scheduler says of the pods that wait."""
    return [
        each.get("message", "") for pod in world.unschedulable() for each in pod["status"].get("conditions", ())
    ]
