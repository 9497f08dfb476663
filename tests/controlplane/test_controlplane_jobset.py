"""What a real control plane does where our code looks: leaders, messages, taints, the end of a JobSet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kubernetes
import pytest
from controlplane_worlds import EXCLUSIVE, INDEX, JOB_INDEX, POOL, TPU, World, jobset, wait_for

from shared.edges.cluster import KubernetesCluster
from shared.edges.workload_objects import Pod, view_pod

if TYPE_CHECKING:
    from local.controlplane.plane import ControlPlane

pytestmark = pytest.mark.cluster


def label(pod: dict[str, Any], key: str) -> str:
    return pod["metadata"]["labels"].get(key, "")


def test_an_exclusive_jobset_without_nodes_has_one_unschedulable_leader_per_slice(world: World):
    world.submit(jobset("train"))
    leaders = wait_for("two unschedulable leaders", lambda: (w := world.unschedulable()) and len(w) == 2 and w)

    assert [label(pod, INDEX) for pod in leaders] == ["0", "0"]
    assert {label(pod, JOB_INDEX) for pod in leaders} == {"0", "1"}
    assert len(world.pods()) == 2
    terms = leaders[0]["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms[0]["topologyKey"] == POOL


def test_followers_are_refused_until_their_leader_is_bound(world: World):
    world.submit(jobset("train", slices=1))
    refusals = wait_for("refused followers", lambda: world.events("FailedCreate"))

    assert "follower pod node selector for topology domain not found" in refusals[0]
    assert "vpod.kb.io" in refusals[0]


def test_a_pod_that_asks_for_tpus_tolerates_their_taint(world: World):
    world.submit(jobset("train", slices=1))
    (leader,) = wait_for("the leader", world.pods)

    tolerations = [each for each in leader["spec"]["tolerations"] if each.get("key") == TPU]
    assert tolerations == [{"key": TPU, "operator": "Exists", "effect": "NoSchedule"}]


def test_the_scheduler_says_why(world: World):
    world.add_pool("small", hosts=1)
    body = jobset("train", slices=1)
    pod = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["resources"]["limits"][TPU] = 8
    world.submit(body)

    def why() -> str:
        conditions = [each for pod in world.unschedulable() for each in pod["status"]["conditions"]]
        return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")

    # At first the node still carries the taint of nodes that are not ready.
    wait_for("the reason", lambda: "0/1 nodes are available: 1 Insufficient google.com/tpu" in why())
    assert "preemption: 0/1 nodes are available" in why()


def test_slices_are_bound_to_a_pool_each_and_the_jobset_completes(world: World):
    world.submit(jobset("train"))
    wait_for("two leaders", lambda: len(world.unschedulable()) == 2)
    world.add_pool("a")
    world.add_pool("b")

    def bound() -> list[dict[str, Any]]:
        pods = world.pods()
        return pods if len(pods) == 8 and all(pod["spec"].get("nodeName") for pod in pods) else []

    pods = wait_for("eight bound pods", bound)
    slices: dict[str, set[str]] = {}
    for pod in pods:
        slices.setdefault(label(pod, JOB_INDEX), set()).add(pod["spec"]["nodeName"].rsplit("-", 1)[0])
    assert sorted(map(len, slices.values())) == [1, 1]
    assert slices["0"] != slices["1"]

    for pod in pods:
        world.finish(pod, "Succeeded")
    wait_for("completion", lambda: world.jobset("train").get("status", {}).get("terminalState") == "Completed")
    assert len(world.pods()) == 8


def test_what_is_deployed_reads_leaders_from_it(plane: ControlPlane, world: World):
    world.submit(jobset("train"))
    wait_for("two leaders", lambda: len(world.unschedulable()) == 2)
    cluster = KubernetesCluster(plane.api)
    leaders = [pod for pod in cluster.list_waiting_leaders() if pod.namespace == world.namespace]

    assert len(leaders) == 2
    assert {pod.name for pod in leaders} == {pod["metadata"]["name"] for pod in world.pods()}
    same = plane.api.get(f"/api/v1/namespaces/{world.namespace}/pods/{leaders[0].name}", Pod)
    assert view_pod(same) == leaders[0]
    assert cluster.get_workload("JobSet", world.namespace, "train") is not None
    assert cluster.get_workload("JobSet", world.namespace, "another") is None


def test_the_official_client_accepts_the_kubeconfig(plane: ControlPlane, world: World):
    world.submit(jobset("train", slices=1))
    wait_for("the leader", world.pods)
    with kubernetes.config.new_client_from_config(config_file=str(plane.kubeconfig)) as client:
        version = kubernetes.client.VersionApi(client).get_code()
        pods = kubernetes.client.CoreV1Api(client).list_namespaced_pod(world.namespace).items

    assert version.git_version == "v1.34.4"
    assert len(pods) == 1


def test_jobsets_validation_refuses_what_it_refuses_on_gke(world: World):
    body = jobset("train", slices=1, failurePolicy={"maxRestarts": 1, "rules": [{"action": "Wrong"}]})

    with pytest.raises(Exception, match="Unsupported value"):
        world.submit(body)


def test_a_deleted_jobset_takes_its_pods_with_it(world: World):
    world.submit(jobset("train", slices=1))
    wait_for("the leader", world.pods)
    world.delete("train")

    wait_for("no pods", lambda: not world.pods())


def test_a_pod_of_another_kind_of_workload_is_no_business_of_jobset(plane: ControlPlane, world: World):
    pod = {"metadata": {"name": "other"}, "spec": {"containers": [{"name": "c", "image": "c"}]}}
    stored = plane.api.create(f"/api/v1/namespaces/{world.namespace}/pods", pod, dict)

    assert EXCLUSIVE not in (stored["metadata"].get("annotations") or {})
    plane.api.delete(f"/api/v1/namespaces/{world.namespace}/pods/other", grace_seconds=0)
