"""No pool is bought that cannot help: its nodes lack a resource, or a claim is not bound."""

from typing import Any

import pytest
import yaml

from shared.model.workloads import Disk
from tests.field.field_world import FieldWorld, read_input
from tests.field.planned import plan, plan_needs

CLAIMS, RESOURCES = "claims.yaml", "unknown-resources.yaml"
OF_JOB = {"apiVersion": "batch/v1", "kind": "Job"}
Json = dict[str, Any]


def list_decisions(name: str, **environ: str) -> dict[str, tuple[str, str]]:
    return {key: (need["decision"], need["reason"]) for key, need in plan_needs(name, **environ).items()}


# --- what can a new node have? --------------------------------------------------------------------


def test_a_resource_that_no_new_node_has_is_refused_by_its_name() -> None:
    needs, refused = plan_needs(RESOURCES), ("refuse", "resource_unknown")

    assert list_decisions(RESOURCES) == {
        "sky-fuse": refused,
        "of-another-cloud": refused,
        "in-an-init-container": refused,
        "of-gkes-networks": ("create", "pool_absent"),
    }
    assert "resources.smarter-devices/fuse" in needs["sky-fuse"]["message"]
    assert "resources.devices.example/kvm" in needs["in-an-init-container"]["message"]


def test_an_operator_lists_what_the_cluster_gives_to_every_node() -> None:
    listed = {"TPU_PROVISIONER_NODE_RESOURCES": "smarter-devices/*"}

    assert list_decisions(RESOURCES, **listed)["sky-fuse"] == ("create", "pool_absent")


# --- can a node help this pod now? ----------------------------------------------------------------


def test_plan_says_which_claim_a_workload_waits_for() -> None:
    assert list_decisions(CLAIMS) == {
        "missing": ("create", "pool_absent"),
        "at-once": ("wait", "claim_unbound"),
        "second-part": ("wait", "claim_unbound"),
        "bound": ("create", "pool_absent"),
        "first-pod": ("create", "pool_absent"),
    }
    needs = plan_needs(CLAIMS)
    assert needs["at-once"]["message"] == "PersistentVolumeClaim default/open is not bound to a volume yet"
    assert needs["bound"]["zone"] == "us-east5-b"
    assert needs["missing"]["requires"] == ["the PersistentVolumeClaim datasets of namespace default"]
    assert plan(CLAIMS)["summary"].endswith("; 3 waiting")


class ClaimWorld(FieldWorld):
    """A world of which a person or a driver changes the claims."""

    def __init__(self, name: str) -> None:
        super().__init__(read_input(CLAIMS, name))
        self.disks: dict[str, Disk | None] = {}
        self.cluster.find_disk = lambda namespace, claim: self.disks.get(claim)  # type: ignore[method-assign]

    def list_zones(self) -> list[tuple[str, ...]]:
        return [pool.zones for pool in self.gke.pools.values()]


def test_nothing_is_bought_while_a_claim_is_missing_and_a_pool_comes_with_it() -> None:
    world = ClaimWorld("missing")
    world.disks = {"datasets": Disk(claim="datasets", unbound="does not exist")}
    world.add_pods_of_jobset()

    world.provisioner.work("missing")

    assert world.gke.pools == {}
    (event,) = world.cluster.notices
    assert "PersistentVolumeClaim default/datasets does not exist [claim_unbound]" in event.message
    world.disks = {"datasets": Disk(claim="datasets", zones=("us-east5-c",))}
    world.clock.pause(60)
    world.tick("provision")
    assert world.list_zones() == [("us-east5-c",)]


def test_a_pool_waits_for_the_disk_that_binds_at_once_and_is_in_its_zone() -> None:
    world = ClaimWorld("at-once")
    world.disks = {"open": Disk(claim="open", unbound="is not bound to a volume yet")}
    spec = world.body["spec"]["template"]["spec"]
    world.add_pod(
        "at-once-x",
        spec,
        {**OF_JOB, "name": "at-once", "uid": "uid-of-at-once"},
        {"batch.kubernetes.io/job-name": "at-once"},
    )

    world.provision()
    before = world.list_zones()
    world.disks = {"open": Disk(claim="open", zones=("us-east5-c",))}
    world.provision()

    assert (before, world.list_zones()) == ([], [("us-east5-c",)])


SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: shards}
spec:
  replicas: 2
  podManagementPolicy: Parallel
  template:
    spec:
      nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
      containers: [{name: c, image: "registry.example/c:1", resources: {limits: {nvidia.com/gpu: 1}}}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: standard, accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}
"""


def test_a_pool_waits_for_the_claims_that_a_controller_makes_for_its_pods() -> None:
    world = FieldWorld(yaml.safe_load(SET))
    spec, disks = world.body["spec"]["template"]["spec"], {"data-shards-0", "data-shards-1"}
    for name in ("shards-0", "shards-1"):
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}}]
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "shards", "uid": "uid-of-shards"}
        own = {"statefulset.kubernetes.io/pod-name": name}
        world.add_pod(name, {**spec, "volumes": volumes}, owner, own)
    world.cluster.find_disk = lambda namespace, claim: (  # type: ignore[method-assign]
        Disk(claim=claim, unbound="is not bound to a volume yet") if claim in disks else None
    )

    answers = world.provision().plan.answers
    disks.clear()
    world.provision()

    assert [str(each.reason) for each in answers] == ["claim_unbound"]
    assert len(world.gke.pools) == 1


def test_no_part_is_bought_that_waits_for_the_pods_of_a_claim() -> None:
    world = ClaimWorld("second-part")
    world.disks = {"by-hand": Disk(claim="by-hand", unbound="is not bound to a volume yet")}
    world.add_pods_of_jobset()

    world.provision()
    before = world.list_zones()
    world.disks = {}
    world.provision()

    assert (before, len(world.list_zones())) == ([], 2)


@pytest.mark.parametrize("unbound", ["cannot be judged: GET persistentvolumeclaims/datasets: 403 Forbidden"])
def test_a_right_that_is_missing_is_said_by_an_event(unbound: str) -> None:
    world = ClaimWorld("missing")
    world.disks = {"datasets": Disk(claim="datasets", unbound=unbound)}
    world.add_pods_of_jobset()

    world.provisioner.work("missing")

    assert [unbound in each.message for each in world.cluster.notices] == [True]
