"""Ray's replicas as slices, its head and its RayJob: what KubeRay leaves on pods, and refusals."""

from typing import Any

import pytest

from shared.edges.pods import read_template
from shared.kinds.raycluster import (
    CLUSTER,
    GROUP,
    NODE_TYPE,
    RAYCLUSTER,
    REPLICA_INDEX,
    REPLICA_NAME,
    REPLICA_OF_WEBHOOK,
    judge_rayjob,
)
from shared.kinds.read import UnexpectedValue
from shared.model import labels
from shared.model.decisions import Reason
from shared.model.names import ObjectName
from shared.model.workloads import PodView, WorkloadView
from tests.demands import expect_demand, want
from tests.refusals import expect_words, refuses
from tests.rows import rows
from tests.rules.workloads import (
    Json,
    a_body,
    a_gpu_body,
    a_group,
    a_raycluster,
    a_worker,
    change,
    decide,
    indexed,
    webhooked,
)
from tests.slices import list_slices

ONE_HOST = a_group(numOfHosts=1, topology="2x2")
ONLY_REPLICA = a_group(replicas=1, maxReplicas=1)
ONLY_POD = a_group(replicas=1, maxReplicas=1, numOfHosts=1, topology="2x2")
GAP = a_group(replicas=2)


def name_of(pod: PodView, workload: WorkloadView | None = None) -> str | None:
    """The name of a pod's slice; None for none."""
    found = RAYCLUSTER.find_slice(pod, workload or a_raycluster())
    return found.name if found else None


# --- the four ways to know a replica ---


@rows(
    "group pod_labels affinity name",
    {
        "KubeRay 1.6, two hosts": (a_group(), indexed(1), True, "train-tpu-1"),
        "a replica comes again": (a_group(), indexed(1, replica="tpu-vwxyz"), True, "train-tpu-1"),
        "above the replicas: a gap": (GAP, indexed(3), True, "train-tpu-3"),
        "KubeRay's index is preferred": (a_group(), indexed(1) | webhooked(0), True, "train-tpu-1"),
        "KubeRay 1.6, one host": (ONE_HOST, {REPLICA_INDEX: "3"}, False, "train-tpu-3"),
        "one host, with the webhook": (ONE_HOST, {REPLICA_INDEX: "3"} | webhooked(0), False, "train-tpu-3"),
        "KubeRay 1.5 with the webhook": (a_group(), webhooked(1), True, "train-tpu-1"),
        "KubeRay 1.5 with the webhook, one host": (ONE_HOST, webhooked(2), False, "train-tpu-2"),
        "neither, one host: the pod itself": (ONE_HOST, {}, False, "train-tpu-x7f2k"),
        "neither, the only replica there can be": (ONLY_REPLICA, {}, False, "train-tpu-0"),
        "the only pod there can be: its successor keeps the pool": (ONLY_POD, {}, False, "train-tpu-0"),
        "a group that is suspended": (a_group(suspend=True), indexed(0), True, None),
        "a group of none": (a_group(replicas=0), indexed(0), True, None),
        "a group that the spec no longer has": (a_group("new"), indexed(0), True, None),
        **{
            f"no slot: {text}": (a_group(), text, True, None)
            for text in (
                *({REPLICA_INDEX: index} for index in ("x", "", "-1", "01", "٣")),
                {REPLICA_INDEX: "x", **webhooked(1)},
                *({REPLICA_OF_WEBHOOK: replica} for replica in ("gpu-1", "tpu", "1")),
            )
        },
    },
)
def test_a_replica_is_known_by(group: Json, pod_labels: dict[str, str], affinity: bool, name: str | None) -> None:
    assert name_of(a_worker(pod_labels=pod_labels, affinity=affinity), a_raycluster(group)) == name


def test_hosts_that_say_nothing_of_their_replica_are_refused_with_what_to_install() -> None:
    with refuses(Reason.SLICE_UNKNOWN, match=r"2 hosts.*names its replica.*webhook.*KubeRay 1\.6.*maxReplicas"):
        RAYCLUSTER.find_slice(a_worker(affinity=True), a_raycluster())


@pytest.mark.parametrize("owner", [{"name": "other"}, {"kind": "Job"}, {"controller": False}])
def test_a_pod_is_ray_s_only_when_the_cluster_of_its_label_controls_it(owner: Json) -> None:
    pod, own = a_worker(pod_labels=indexed(0), affinity=True, **owner), a_worker(uid="an-earlier-uid")

    assert (RAYCLUSTER.find_owner(pod), RAYCLUSTER.find_owner_uid(pod), name_of(pod)) == ("", "", None)
    assert (RAYCLUSTER.find_owner(own), RAYCLUSTER.find_owner_uid(own)) == ("train", "an-earlier-uid")


@pytest.mark.parametrize(
    ("pod_labels", "is_leader"),
    [
        (indexed(1, host=0), True),
        (indexed(1, host=1), False),
        ({REPLICA_INDEX: "2"}, True),
        (webhooked(1), True),
        ({}, True),
        ({REPLICA_INDEX: "x"}, True),
    ],
)
def test_the_first_host_is_the_leader_and_where_none_knows_all_are(
    pod_labels: dict[str, str], is_leader: bool
) -> None:
    assert RAYCLUSTER.is_leader(a_worker(pod_labels=pod_labels)) is is_leader


# --- two replicas never share a pool ---


OTHER_SHAPE = a_group("more", maxReplicas=1, topology="4x4", numOfHosts=4)


def pin(value: str, key: str = "example.com/slice") -> Json:
    return {"template": change(a_body("2x4"), {key: value})}


@rows(
    "groups pod mixes",
    {
        "labels alone keep nothing apart": ([a_group()], {}, True),
        "the webhook's affinities do": ([a_group()], {"affinity": True}, False),
        "a pin to the slice": ([a_group()], pin("train-tpu-1"), False),
        "with its namespace": ([a_group()], pin("default_train-tpu-1"), False),
        "a pin to another slice": ([a_group()], pin("train-tpu-0"), True),
        "a pin that the next has not": ([a_group()], pin("tpu-abcde", REPLICA_NAME), True),
        "a pin that others share": ([a_group()], pin("1", REPLICA_INDEX), True),
        "one replica now, more allowed": ([a_group(replicas=1)], {}, True),
        "one replica for ever": ([ONLY_REPLICA], {}, False),
        "two groups of one shape": ([ONLY_REPLICA, a_group("more", maxReplicas=1)], {}, True),
        "two shapes": ([ONLY_REPLICA, OTHER_SHAPE], {}, False),
        "a group that can never have any": ([ONLY_REPLICA, a_group("off", maxReplicas=0)], {}, False),
        "no upper bound": ([a_group(maxReplicas=None)], {}, True),
        "one host cannot be shared": ([ONE_HOST], {}, False),
    },
)
def test_hosts_of_two_replicas_are_kept_apart_or_refused(groups: list[Json], pod: Json, mixes: bool) -> None:
    worker, workload = a_worker(pod_labels=indexed(1), **pod), a_raycluster(*groups)
    if not mixes:
        assert name_of(worker, workload) == "train-tpu-1"
        return
    with refuses(
        Reason.SLICES_MAY_MIX, match=r"two replicas on separate node pools.*webhook.*podAntiAffinity.*train-tpu-1"
    ):
        RAYCLUSTER.find_slice(worker, workload)


# --- the spec ---


def test_a_cluster_without_a_spec_has_no_groups_and_a_list_is_no_spec() -> None:
    found = RAYCLUSTER.read({"metadata": {"name": "train"}}, read_template)

    assert (found.groups, found.name, found.suspended) == ((), "train", False)
    with pytest.raises(UnexpectedValue):
        RAYCLUSTER.read({"spec": []}, read_template)


def test_all_wanted_slices_are_listed_with_the_labels_of_all_their_hosts() -> None:
    solo = ONE_HOST | {"groupName": "solo", "replicas": 1}
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


def test_a_head_with_tpus_is_refused_and_no_worker_gets_a_pool_for_it() -> None:
    workload = a_cluster(ONLY_REPLICA, head=a_body("2x4"))

    for pod in (a_worker(**HEAD), a_worker()):
        expect_words(decide(pod, workload), Reason.SLICE_UNKNOWN, "no TPUs in the head; move its work")


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


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ({"kind": "RayJob", "controller": True}, True),
        ({"kind": "RayJob"}, False),
        ({"kind": "RayService", "controller": True}, False),
    ],
)
def test_only_the_rayjob_that_controls_a_cluster_is_its_parent(reference: Json, found: bool) -> None:
    owners = [{"name": "other", "uid": "v"}, {"name": "train", "uid": "u"} | reference]
    parent = a_raycluster(owners=owners).parent
    rayjob = ObjectName(kind="RayJob", namespace="default", name="train", uid="u")
    assert parent == (rayjob if found else None)
