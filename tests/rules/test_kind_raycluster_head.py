"""The head of a RayCluster: GPUs give it an elastic pool, TPUs are refused."""

from typing import Any

from shared.edges.pods import read_template
from shared.kinds.raycluster import CLUSTER, GROUP, NODE_TYPE, RAYCLUSTER
from shared.model import labels
from shared.model.decisions import Reason
from shared.model.errors import SliceUnknown
from shared.model.workloads import PodView, WorkloadView
from shared.needs.nodepool import Demand
from tests.builders import expect_decision
from tests.demands import want
from tests.refusals import refuses
from tests.rules.live_pods import a_pod_of, decide, plan
from tests.rules.rayclusters import UID, a_body, a_group
from tests.slices import list_slices

Json = dict[str, Any]
HEAD_GROUP = "headgroup"
L4, T4 = ({labels.GPU_ACCELERATOR: f"nvidia-{name}"} for name in ("l4", "tesla-t4"))
CPU: Json = {"spec": {"containers": [{"name": "c"}]}}


def a_template(gpus: int = 1, selector: dict[str, str] | None = None) -> Json:
    resources = {"limits": {labels.GPU_RESOURCE: gpus}}
    return {"spec": {"nodeSelector": selector or L4, "containers": [{"name": "c", "resources": resources}]}}


def a_cluster(*groups: Json, head: Json, **spec: Any) -> WorkloadView:
    body = a_body(*groups, headGroupSpec={"template": head}, **spec)
    if not groups:
        body["spec"]["workerGroupSpecs"] = []
    return RAYCLUSTER.read(body, read_template)


def gpu_workers(selector: dict[str, str] | None = None) -> Json:
    return a_group("gpu", numOfHosts=1, replicas=2, template=a_template(selector=selector))


def a_pod(template: Json, node_type: str = "head", group: str = HEAD_GROUP) -> PodView:
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "llm", "uid": UID}
    pod_labels = {CLUSTER: "llm", GROUP: group, NODE_TYPE: node_type}
    return a_pod_of(owner, template, name="llm-head", labels=pod_labels)


def pools(workload: WorkloadView) -> dict[str, int]:
    """The number of nodes by GPU type."""
    found = plan(workload)
    assert all(isinstance(each, Demand) for each in found), found
    return {each.shape.family.accelerator: each.shape.node_count for each in found if isinstance(each, Demand)}


def test_a_head_of_the_workers_shape_is_counted_with_them_and_any_other_has_its_own_pool() -> None:
    l4, t4 = a_template(), a_template(selector=T4)

    assert pools(a_cluster(gpu_workers(), head=l4)) == {"nvidia-l4": 3}
    assert pools(a_cluster(gpu_workers(), head=t4)) == {"nvidia-l4": 2, "nvidia-tesla-t4": 1}
    assert pools(a_cluster(a_group(), head=l4)) == {"tpu-v6e-slice": 2, "nvidia-l4": 1}


def test_a_head_alone_is_a_complete_cluster() -> None:
    workload = a_cluster(head=a_template())
    found = decide(a_pod(a_template()), workload)

    assert pools(workload) == {"nvidia-l4": 1}
    assert isinstance(found, Demand)
    assert (found.need.elastic, found.shape.node_count) == (True, 1)


def test_head_and_workers_of_one_shape_lead_to_one_pool() -> None:
    workload = a_cluster(gpu_workers(), head=a_template())

    found = want(workload, a_pod(a_template()), a_pod(a_template(), "worker", "gpu"))

    assert [need.nodes for need in found.needs] == [3]
    assert {pod.need for pod in found.pods} == {found.needs[0].key}


def test_a_worker_group_may_have_the_name_of_the_head_s() -> None:
    group = gpu_workers(T4) | {"groupName": HEAD_GROUP}
    workload = a_cluster(group, head=a_template())
    of_worker = RAYCLUSTER.find_slice(a_pod(a_template(selector=T4), "worker"), workload)

    assert of_worker is not None
    assert of_worker.group.replicas == 2
    assert pools(workload) == {"nvidia-tesla-t4": 2, "nvidia-l4": 1}


def test_a_head_with_tpus_is_refused_and_no_worker_gets_a_pool_for_it() -> None:
    head = {"spec": a_group()["template"]["spec"]}
    workload = a_cluster(a_group(maxReplicas=1, replicas=1), head=head)
    worker = a_pod(head, "worker", "tpu")

    with refuses(SliceUnknown, match="no TPUs in the head; move its work"):
        list_slices(workload)
    for pod in (a_pod(head), worker):
        found = expect_decision(decide(pod, workload))
        assert found.reason == Reason.SLICE_UNKNOWN
        assert "no TPUs in the head" in found.message
