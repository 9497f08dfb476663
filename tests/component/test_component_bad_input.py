"""Each mistake of a workload's author is reported to them and in a record; nothing is made."""

import dataclasses
from typing import Any

import pytest

from shared.core import labels
from shared.core.workloads import PodView, WorkloadView
from tests.builders import CLUSTER, a_jobset, a_pod, a_template
from tests.component.fake_queues import reserve_quota
from tests.component.world import World
from tests.unit import rayclusters
from tests.unit import test_kind_deployment as deployments
from tests.unit import test_kind_job as jobs
from tests.unit import test_kind_pod as pods
from tests.unit import test_kind_statefulset as sets
from tests.unit.live_pods import a_pod_body

Objects = tuple["PodView | WorkloadView", ...]
SEVERAL_HOSTS = "4x4"


def a_replica(**group: Any) -> Objects:
    """A Ray worker that waits, of a group with these fields."""
    cluster = rayclusters.a_raycluster(rayclusters.a_group(**group))
    answer = rayclusters.indexed(0)
    return rayclusters.a_worker(pod_labels=answer, affinity=True, unschedulable=True), cluster


def an_unindexed_job() -> Objects:
    return _wait(jobs.a_pod(None), a_pod()), jobs.a_job(completionMode=None)


def a_part_of_something() -> Objects:
    owner = {"apiVersion": "example.com/v1", "kind": "Sweep", "name": "grid", "controller": True}
    return _wait(jobs.a_pod("0"), a_pod()), jobs.a_job(metadata={"ownerReferences": [owner]})


def a_left_pod() -> Objects:
    """A pod whose workload has been made again under the name, twice."""
    return a_pod(pod_labels={"jobset.sigs.k8s.io/jobset-uid": "the-first"}), a_jobset(uid="the-third")


def one_of(kind: Any, template: dict[str, Any], **spec: Any) -> Objects:
    """A waiting pod and its workload, of the same pod template."""
    if kind is deployments:
        return deployments.a_pod(template=template), deployments.a_deployment(template=template, **spec)
    return sets.a_pod(template=template), sets.a_set(template=template, **spec)


def _wait(pod: PodView, like: PodView) -> PodView:
    return dataclasses.replace(pod, uid=like.uid, unschedulable=True, unschedulable_since=like.unschedulable_since)


def gpus_of(amount: Any, kind: str = "nvidia-l4") -> Objects:
    """A bare pod that asks for GPUs."""
    body = pods.a_body()
    body["spec"]["nodeSelector"] = {labels.GPU_ACCELERATOR: kind}
    body["spec"]["containers"][0]["resources"]["limits"] = {labels.GPU_RESOURCE: amount}
    return pods.both(body)


def chips_of(amount: str) -> Objects:
    """A bare pod that asks for chips."""
    body = pods.a_body()
    body["spec"]["containers"][0]["resources"]["limits"][labels.TPU_RESOURCE] = amount
    return pods.both(body)


A_GPU = {
    "spec": {
        "nodeSelector": {labels.GPU_ACCELERATOR: "nvidia-l4"},
        "containers": [{"name": "c", "resources": {"limits": {labels.GPU_RESOURCE: 1}}}],
    }
}
ROWS = [
    pytest.param(chips_of("1500m"), "shape_unsupported", {"Pod"}, id="a fraction of a chip"),
    pytest.param(gpus_of(1, "nvidia-unheard-of"), "gpu_unknown", {"Pod"}, id="a GPU type that is unknown"),
    pytest.param(gpus_of("500m"), "shape_unsupported", {"Pod"}, id="half a GPU"),
    pytest.param(gpus_of(99), "shape_unsupported", {"Pod"}, id="more GPUs than any machine has"),
    pytest.param(a_replica(numOfHosts=3), "hosts_differ", {"RayCluster", "Pod"}, id="numOfHosts"),
    pytest.param(
        (a_pod(shape={"chips": 3}), a_jobset(template=a_template(chips=3))),
        "shape_unsupported",
        {"JobSet", "Pod"},
        id="chips of no machine",
    ),
    pytest.param(
        one_of(deployments, a_pod_body(chips=5)),
        "shape_unsupported",
        {"Deployment", "Pod"},
        id="chips of no machine, on one host",
    ),
    pytest.param(
        one_of(deployments, a_pod_body(topology=SEVERAL_HOSTS)),
        "hosts_differ",
        {"Deployment", "Pod"},
        id="a Deployment of several hosts",
    ),
    pytest.param(
        one_of(sets, a_pod_body(topology=SEVERAL_HOSTS)),
        "slice_unknown",
        {"StatefulSet", "Pod"},
        id="a slice whose pods come in turn",
    ),
    pytest.param(
        pods.both(pods.a_body(topology="4x4")), "hosts_differ", {"Pod"}, id="a bare pod of several hosts"
    ),
    pytest.param(an_unindexed_job(), "slice_unknown", {"Job", "Pod"}, id="pods without index"),
    pytest.param(a_left_pod(), "owner_gone", {"Pod"}, id="three workloads of one name in turn"),
    pytest.param((a_pod(),), "owner_gone", {"Pod"}, id="the owner is gone"),
    pytest.param(pods.both(pods.a_body(pods.UNKNOWN)), "owner_kind_unknown", {"Pod"}, id="an unknown controller"),
    pytest.param(
        pods.both(pods.a_body(pods.UNKNOWN | {"kind": "Pod", "name": "lab", "uid": "of-lab"})),
        "owner_kind_unknown",
        {"Pod"},
        id="a pod that controls itself",
    ),
    pytest.param(a_part_of_something(), "owner_kind_unknown", {"Job", "Pod"}, id="a chain that leads elsewhere"),
]


@pytest.mark.parametrize(("objects", "reason", "told"), ROWS)
def test_bad_input_is_said_where_its_owner_looks_and_makes_nothing(
    world: World, objects: Objects, reason: str, told: set[str]
) -> None:
    world.cluster.empty()
    world.cluster.add(*objects)

    _, counts = world.sweep()

    assert world.pools.count("create") == 0
    assert counts["errors"] == 0
    world.records.expect_in_order({"function": "sweep", "decision": "refuse", "reason": reason})
    assert {(kind, warning) for kind, _, warning in world.notices()} == {(kind, True) for kind in told}
    assert all(reason in notice.message for notice in world.cluster.notices)


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_a_pod_that_belongs_to_its_node_is_not_even_asked_about(world: World, kind: str) -> None:
    world.cluster.empty()
    world.cluster.add(*pods.both(pods.a_body(pods.UNKNOWN | {"kind": kind})))

    world.sweep()

    assert world.notices() == []
    assert world.pools.count("create") == 0


@pytest.mark.parametrize(
    ("objects", "nodes"),
    [(gpus_of(1), 1), (one_of(deployments, A_GPU), 3)],
    ids=["a bare pod", "a Deployment of three replicas"],
)
def test_what_asks_for_gpus_has_one_pool_for_all_its_pods(world: World, objects: Objects, nodes: int) -> None:
    world.cluster.pods.clear()
    world.cluster.add(*objects)

    world.sweep()

    (body,) = world.pools.bodies
    assert (body["config"]["machineType"], body["initialNodeCount"]) == ("g2-standard-4", nodes)


def test_a_gang_of_one_slice_is_no_bad_input_and_is_resumed_when_its_pool_runs(world: World) -> None:
    world.use(kueue_admission_check=True)
    world.cluster.pods.clear()
    queues = reserve_quota(world, a_jobset(suspended=True, replicas=1))
    world.sweep()
    (name,) = world.pools.names(CLUSTER)
    world.pools.move(CLUSTER, name, "RUNNING")
    world.cluster.nodes[name] = [f"{name}-node"]
    world.sweep()

    assert queues.state("train").state == "Ready"
    assert "the slice has its node pool" in queues.state("train").message
