"""Workloads of every kind as rules see them: their slices and hosts, and which pod is whose."""

import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pytest
from msgspec import structs

from shared.edges.pods import read_template
from shared.kinds.leaderworkerset import SET_NAME
from shared.kinds.raycluster import (
    CLUSTER,
    GROUP,
    NODE_TYPE,
    RAYCLUSTER,
    REPLICA_INDEX,
    REPLICA_OF_WEBHOOK,
    judge_rayjob,
)
from shared.kinds.read import UnexpectedValue
from shared.kinds.replicas import DEPLOYMENT, STATEFULSET, TEMPLATE_HASH
from shared.kinds.table import (
    KINDS,
    choose_kinds,
    find_kind_of_pod,
    get_kind,
    is_pod_of,
    select_pods,
    select_pods_of,
)
from shared.model import labels
from shared.model.decisions import Reason
from shared.model.workloads import PodView, WorkloadView
from tests.demands import decide, expect_demand, expect_words, plan_demands, refuses, want
from tests.rows import read_table, rows
from tests.rules.workloads import (
    BUILDERS,
    CHIPLESS,
    OF_CPU,
    ONE_HOST,
    PODS,
    SEVERAL_HOSTS,
    Json,
    a_body,
    a_gpu_body,
    a_group,
    a_leaderworkerset,
    a_raycluster,
    a_replicated_job,
    a_server,
    a_shard,
    a_worker,
    change,
    having,
    indexed,
    list_slices,
    require,
)

OF_SPOT = change(SEVERAL_HOSTS, {labels.SPOT: "true"})
TEMPLATES = {
    "4x4": SEVERAL_HOSTS,
    "2x2": ONE_HOST,
    "2x4": a_body("2x4"),
    "2x4 of 8": a_body("2x4", chips=8),
    "1x1 of 1": a_body("1x1", chips=1),
    "none of 8": a_body(None, chips=8),
    "chipless": having(CHIPLESS, tolerations=[]),
    "4 by 4": a_body("4 by 4"),
    "2x2 or 4x4": require(a_body(None), labels.TOPOLOGY, "2x2", "4x4"),
    "2x4 or 4x4": require(a_body(selectors={}), labels.TOPOLOGY, "2x4", "4x4"),
    "cpu": OF_CPU,
    "2x2 of 3": a_body("2x2", chips=3),
    "of a team": change(SEVERAL_HOSTS, {"example.com/team": "red"}),
    "of a zone": change(SEVERAL_HOSTS, {labels.ZONE: "us-east5-a"}),
    "chipless of a zone": change(CHIPLESS, {labels.ZONE: "a"}),
    "zone by affinity": require(SEVERAL_HOSTS, labels.ZONE, "us-east5-a"),
    "spot": OF_SPOT,
    "tolerant": having(OF_SPOT, tolerations=[{"key": labels.SPOT, "operator": "Exists"}]),
    "4x4 by annotation": change(a_body(None), {}, annotations={labels.SLICE_TOPOLOGY: "4x4"}),
    "gpu": a_gpu_body(),
    "t4": a_gpu_body(selectors={labels.GPU_ACCELERATOR: "nvidia-tesla-t4"}),
    "8 of H100": a_gpu_body(8, selectors={labels.GPU_ACCELERATOR: "nvidia-h100-80gb"}),
    "4 of GB200": a_gpu_body(4, selectors={labels.GPU_ACCELERATOR: "nvidia-gb200"}),
}
PARTS = ("template", "leader", "worker", "head")


def read(row: Json) -> WorkloadView:
    """Return the workload of a row; what is `beside` is another group of a RayCluster."""
    held = [
        {"type": each, "status": status, "lastTransitionTime": "2027-01-15T08:00:00Z"}
        for each, status in row.get("conditions", {}).items()
    ]
    owners = [row["owner"]] if "owner" in row else []
    fields = fill(row.get("has", {}))
    if row["of"] == "RayCluster":
        groups = [a_group(**fill(row.get("group", {})))]
        groups += [a_group("more", **row["beside"])] if "beside" in row else []
        if "head" in fields:
            fields["headGroupSpec"] = {"template": fields.pop("head")}
        return a_raycluster(*groups, conditions=held, owners=owners, **fields)
    if held:
        fields["status"] = {"conditions": held, "replicas": 2}
    if owners:
        fields["metadata"] = {"ownerReferences": owners}
    return BUILDERS[row["of"]](*(a_replicated_job(**fill(job)) for job in fields.pop("jobs", ())), **fields)


def fill(fields: Json) -> Json:
    """Return fields with the pod templates that they name."""
    return {key: TEMPLATES.get(value, value) if key in PARTS else value for key, value in fields.items()}


def see_hardware(workload: WorkloadView) -> dict[str, int]:
    shapes = [expect_demand(each).shape for each in plan_demands(workload)]
    return {shape.family.accelerator: shape.node_count for shape in shapes}


def see_group(workload: WorkloadView) -> list[Any]:
    (group,) = workload.groups
    assert group.template.chips == 4
    return [group.name, group.replicas, group.slots, group.hosts]


def count_nodes(workload: WorkloadView) -> int:
    groups = [each.group for each in list_slices(workload)]
    return sum(each.replicas if each.elastic else each.hosts for each in groups)


VIEWS: dict[str, Callable[[WorkloadView], Any]] = {
    "slices": lambda workload: {each.name: each.group.hosts for each in list_slices(workload)},
    "names": lambda workload: [each.name for each in list_slices(workload)],
    "nodes": count_nodes,
    "groups": lambda workload: list(workload.groups),
    "group": see_group,
    "hardware": see_hardware,
    "jobs": lambda workload: [[each.name, each.replicas, each.pods, each.pinned] for each in workload.groups],
    "flex_wait": lambda workload: expect_demand(*plan_demands(workload)).need.flex_wait_seconds,
}
"""What rules see of a workload, in the words of a row; else it is a field."""


COLUMNS = "of has group beside conditions owner reads refused"


@rows("row", read_table("kinds.yaml", COLUMNS, section="of"))
def test_a_workload_reads_as_its_controller_has_it(row: Json) -> None:
    reads, refused = row.get("reads", {}), row.get("refused", ())
    if reads == "unreadable":
        with pytest.raises(UnexpectedValue):
            read(row)
        return
    workload = read(row)
    if refused:
        reason, *words = refused
        for found in plan_demands(workload):
            expect_words(found, Reason(reason), *words)

    assert refused or reads
    assert {what: VIEWS.get(what, attrgetter(what))(workload) for what in reads} == reads


# --- the slice of a pod ---


def read_pod(of: str, pod: Json) -> PodView:
    """Return a pod of a row; of a RayCluster its labels are written in short."""
    fields = fill(pod)
    if of != "RayCluster":
        return PODS[of](**fields)
    own = indexed(*fields.pop("indexed")) if "indexed" in fields else {}
    own |= {REPLICA_INDEX: fields.pop("index")} if "index" in fields else {}
    own |= {REPLICA_OF_WEBHOOK: fields.pop("webhooked")} if "webhooked" in fields else {}
    template = change(a_body("2x4"), fields.pop("selects", {}))
    return a_worker(fields.pop("template", template), pod_labels=own, **fields)


@rows("row", read_table("pods.yaml", "of pod has group beside slice leader owner refused", section="of"))
def test_a_pod_leads_to_its_owner_and_its_slice(row: Json) -> None:
    kind, pod = get_kind(row["of"]), read_pod(row["of"], row.get("pod", {}))
    workload = read({key: value for key, value in row.items() if key != "owner"})
    if "refused" in row:
        reason, *words = row["refused"]
        with refuses(Reason(reason), match=".*".join(map(re.escape, words))):
            kind.find_slice(pod, workload)
        assert reason != Reason.SLICES_MAY_MIX or not want(workload, pod).refused, "other groups are served"
    if "slice" in row:
        found = kind.find_slice(pod, workload)
        assert (found.name if found else None) == row["slice"]
    if "owner" in row:
        assert [kind.find_owner(pod), kind.find_owner_uid(pod)] == row["owner"]
    assert row.get("leader") in (None, kind.is_leader(pod))


def test_each_kind_knows_its_own_pods() -> None:
    assert (find_kind_of_pod(a_server()), find_kind_of_pod(a_shard())) == (DEPLOYMENT, STATEFULSET)
    served = structs.replace(BUILDERS["Deployment"](), name="another")
    assert (is_pod_of(BUILDERS["Deployment"](), a_server()), is_pod_of(served, a_server())) == (True, False)
    assert choose_kinds(("Deployment", "MPIJob")) == (DEPLOYMENT,)
    assert (RAYCLUSTER.group, RAYCLUSTER.versions) == ("ray.io", ("v1", "v1alpha1"))
    assert select_pods_of(a_leaderworkerset()) == f"{SET_NAME}=train"
    of_deployments = select_pods(DEPLOYMENT).split(",")
    assert of_deployments[0] == TEMPLATE_HASH
    assert "!batch.kubernetes.io/job-name" in of_deployments


POD = get_kind("Pod")


def test_only_pods_that_no_other_kind_marks_are_watched_and_none_of_them_as_a_workload() -> None:
    assert set(select_pods(POD).split(",")) == {f"!{kind.mark}" for kind in KINDS if kind.mark}
    assert not POD.watched
    assert POD.path_of("default", "lab") == "/api/v1/namespaces/default/pods/lab"


# --- Ray: its groups, the head, and the RayJob


ONE_HOST_GROUP = a_group(numOfHosts=1, topology="2x2")


# --- the spec ---


def test_a_cluster_without_a_spec_has_no_groups_and_a_list_is_no_spec() -> None:
    found = RAYCLUSTER.read({"metadata": {"name": "train"}}, read_template)

    assert (found.groups, found.name, found.suspended) == ((), "train", False)
    with pytest.raises(UnexpectedValue):
        RAYCLUSTER.read({"spec": []}, read_template)


def test_all_wanted_slices_are_listed_with_the_labels_of_all_their_hosts() -> None:
    solo = ONE_HOST_GROUP | {"groupName": "solo", "replicas": 1}
    workload = a_raycluster(a_group(), solo, a_group("off", suspend=True))

    found = {each.name: each.group.template.labels for each in list_slices(workload)}

    base = {CLUSTER: "train", NODE_TYPE: "worker"}
    groups = {"train-tpu-0": "tpu", "train-tpu-1": "tpu", "train-solo-0": "solo"}
    assert found == {name: {**base, GROUP: group} for name, group in groups.items()}


# --- the head: GPUs give it an elastic pool, TPUs are refused ---


HEAD: Json = {"group": "headgroup", "node_type": "head"}
OF_L4, OF_T4 = a_gpu_body(), a_gpu_body(selectors={labels.GPU_ACCELERATOR: "nvidia-tesla-t4"})


def a_cluster(*groups: Json, head: Json) -> WorkloadView:
    return a_raycluster(workerGroupSpecs=list(groups), headGroupSpec={"template": head})


def gpu_workers(template: Json = OF_L4, name: str = "gpu") -> Json:
    return a_group(name, numOfHosts=1, template=template)


def test_head_and_workers_of_one_shape_lead_to_one_pool() -> None:
    found = want(a_cluster(gpu_workers(), head=OF_L4), a_worker(OF_L4, **HEAD), a_worker(OF_L4, group="gpu"))
    alone = expect_demand(decide(a_worker(OF_L4, **HEAD), a_cluster(head=OF_L4)))
    named_head = a_cluster(gpu_workers(OF_T4, "headgroup"), head=OF_L4)
    of_worker = RAYCLUSTER.find_slice(a_worker(OF_T4, group="headgroup"), named_head)

    assert [need.nodes for need in found.needs] == [3]
    assert {pod.need for pod in found.pods} == {found.needs[0].key}
    assert (alone.need.elastic, alone.shape.node_count) == (True, 1)
    assert of_worker is not None
    assert of_worker.group.replicas == 2


# --- a RayJob that has ended and keeps its RayCluster ---


def a_rayjob(deployment: str = "Complete", **spec: Any) -> Json:
    status = {"jobDeploymentStatus": deployment}
    return {"metadata": {"namespace": "default", "name": "train"}, "spec": spec, "status": status}


@rows(
    "body remedy",
    {
        "new": ({"metadata": {"name": "train"}}, ""),
        "running": (a_rayjob("Running"), ""),
        "about to retry": (a_rayjob("Retrying"), ""),
        "suspended": (a_rayjob("Suspended"), ""),
        "its cluster goes with it": (a_rayjob(shutdownAfterJobFinishes=True), ""),
        "its cluster goes in an hour": (a_rayjob(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=3600), ""),
        "its author chose what stays": (a_rayjob(deletionStrategy={"deletionRules": []}), ""),
        "no policy at all": (a_rayjob(), "set shutdownAfterJobFinishes: true"),
        "it failed": (a_rayjob("Failed"), "set shutdownAfterJobFinishes: true"),
        "invalid": (a_rayjob("ValidationFailed", shutdownAfterJobFinishes=True), "delete the RayJob"),
    },
)
def test_a_rayjob_that_keeps_its_cluster_is_told_what_would_release_it(body: Json, remedy: str) -> None:
    answer = judge_rayjob(body)

    if not remedy:
        assert answer == ""
        return
    assert answer.startswith(f"RayJob default/train is {body['status']['jobDeploymentStatus']} and keeps")
    assert remedy in answer
    assert answer.endswith("delete the RayJob or the RayCluster")


def test_a_status_that_is_no_text_is_not_judged() -> None:
    with pytest.raises(UnexpectedValue):
        judge_rayjob(a_rayjob() | {"status": {"jobDeploymentStatus": 1}})
