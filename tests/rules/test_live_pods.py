"""Leaders, heads and live pods of every kind: they buy what the spec says, and no more."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from shared.kinds import jobset as jobset_keys
from shared.model import labels
from shared.model.decisions import Reason, Verdict
from shared.model.workloads import SPOT_TAINT, PodView, WorkloadView
from shared.needs.ways import Demand
from tests.builders import a_pod, a_template, settings
from tests.demands import decide, expect_demand, expect_words, plan_demands, want
from tests.rows import rows
from tests.rules.workloads import (
    ALL,
    CHIPLESS,
    HOSTS,
    OF_CPU,
    ONE_HOST,
    SEVERAL_HOSTS,
    SLICED,
    Json,
    a_body,
    a_gpu_body,
    a_group,
    a_jobset,
    a_leader,
    a_leaderworkerset,
    a_member,
    a_pod_of_job,
    a_pod_of_jobset,
    a_raycluster,
    a_replicated_job,
    a_server,
    a_shard,
    a_worker,
    a_workload,
    change,
    having,
    indexed,
    list_slices,
    webhooked,
)

CLAIMS = [{"name": "chips", "resourceClaimTemplateName": "all-chips"}]
CONTROLLED = tuple(kind for kind in ALL if kind != "Pod")


def refused(kind: str, spec: Json, pod: Json, *words: str, hosts: int = HOSTS, **use: Any) -> None:
    """Expect that a pod is told that it contradicts its spec."""
    found = decide(a_leader(kind, pod), a_workload(kind, spec, hosts=hosts), settings(**use))
    expect_words(found, Reason.POD_CONTRADICTS_SPEC, *words)


def accepted(kind: str, spec: Json, pod: Json, *, hosts: int = HOSTS, **use: Any) -> Demand:
    return expect_demand(decide(a_leader(kind, pod), a_workload(kind, spec, hosts=hosts), settings(**use)))


@pytest.mark.parametrize("kind", CONTROLLED)
def test_a_workload_without_accelerators_buys_nothing_for_a_forged_leader_or_a_selector(kind: str) -> None:
    forged = a_body("16x16")
    refused(kind, OF_CPU, forged, "(got '4 chips, 0 GPUs')", "valid: 0 chips", f"{kind} default/train")

    for key in (labels.ACCELERATOR, labels.TOPOLOGY):
        found = decide(a_leader(kind, change(OF_CPU, {key: "16x16"})), a_workload(kind, OF_CPU))
        expect_words(found, Reason.IDENTITY_MISMATCH, verdict=Verdict.NOTHING)


@pytest.mark.parametrize("kind", ALL)
def test_a_pod_as_its_spec_has_it_is_a_demand_and_one_with_other_words_is_none(kind: str) -> None:
    body = a_body() if kind in SLICED else ONE_HOST

    assert accepted(kind, body, body).shape.node_count == (1 if kind == "Pod" else HOSTS)
    if kind != "Pod":
        refused(kind, body, change(body, {labels.TOPOLOGY: "16x16"}), "(got '16x16')")


def test_a_sidecar_changes_no_shape() -> None:
    pod = a_body()
    pod["spec"]["containers"].append({"name": "proxy", "resources": {"requests": {"cpu": "100m"}}})
    pod["spec"]["initContainers"] = [{"name": "wait", "resources": {"requests": {"cpu": "1"}}}]

    assert accepted("JobSet", a_body(), pod).shape == accepted("JobSet", a_body(), a_body()).shape


@pytest.mark.parametrize("kind", ["JobSet", "LeaderWorkerSet"])
def test_a_leader_without_chips_agrees_with_its_own_template(kind: str) -> None:
    head, workers = a_body(chips=0), a_body()
    workload = a_workload(kind, workers, leader=head)
    if kind == "JobSet":
        first, rest = (a_workload(kind, body, hosts=hosts).groups[0] for body, hosts in ((head, 1), (workers, 4)))
        groups = (structs.replace(first, beside="rest"), structs.replace(rest, name="rest"))
        workload = structs.replace(a_workload(kind, head, hosts=1), groups=groups)
    found = expect_demand(decide(a_leader(kind, head), workload))

    assert (found.shape.machine.name, found.shape.node_count) == ("ct6e-standard-4t", HOSTS)
    expect_words(decide(a_leader(kind, workers), workload), Reason.POD_CONTRADICTS_SPEC)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "LeaderWorkerSet"])
def test_a_pod_of_an_earlier_template_waits_for_its_rollout_unless_only_the_image_is_new(kind: str) -> None:
    old, new = (ONE_HOST, a_body("1x1", chips=1))
    of_image = change(ONE_HOST, {}, labels={"version": "2"})
    of_image["spec"]["containers"][0]["image"] = "server:2"
    hosts = 1 if kind == "LeaderWorkerSet" else HOSTS

    refused(kind, new, old, "a rollout replaces a pod of an earlier template", hosts=hosts)
    assert accepted(kind, new, new, hosts=hosts).shape.machine.name == "ct6e-standard-1t"
    assert accepted(kind, of_image, old, hosts=hosts) == accepted(kind, of_image, of_image, hosts=hosts)


# --- one pool for several templates ---


def test_pods_of_two_groups_with_one_elastic_pool_need_the_same_machine() -> None:
    small = a_workload("RayCluster", a_gpu_body(cpu="3", memory="8Gi"), hosts=1)
    (group,) = small.groups
    large = structs.replace(group.template, cpu_millis=20_000)
    workload = structs.replace(small, groups=(group, structs.replace(group, name="large", template=large)))
    pod = a_leader("RayCluster", a_gpu_body())
    template = structs.replace(large, labels=pod.template.labels | {"ray.io/group": "large"})
    pods = (pod, structs.replace(pod, template=template))
    one, other = (expect_demand(decide(each, workload)) for each in pods)

    assert (one.need.key, one.shape, one.need.asks) == (other.need.key, other.shape, other.need.asks)
    assert one.shape.machine.name == "g2-standard-32"


@pytest.mark.parametrize("labelled", [True, False])
def test_a_slice_of_several_gpu_hosts_is_no_part_of_another_group_s_elastic_pool(*, labelled: bool) -> None:
    sliced, free = (a_workload("RayCluster", a_gpu_body(), hosts=hosts).groups[0] for hosts in (2, 1))
    groups = (sliced, structs.replace(free, name="free"))
    workload = structs.replace(a_workload("RayCluster", a_gpu_body()), groups=groups)
    pod = a_leader("RayCluster", a_gpu_body())
    if not labelled:  # KubeRay before 1.6 does not say which host of a replica a pod is
        del pod.template.labels["ray.io/replica-host-index"]
    wanted = want(workload, pod)

    assert [each.slice for each in wanted.pods] == ["train-tpu-0"]
    assert wanted.demands[wanted.pods[0].need].shape.node_count == 2


# --- forged, doubled and old pods get no pool beyond the spec ---


FORGED_PODS, SLICES = 60, 3


def forge_all(kind: str, body: Json) -> list[PodView]:
    """Pods each of which says wherever it can that its slice has another index."""
    forged: dict[str, Callable[[int], PodView]] = {
        "JobSet": lambda index: a_pod_of_jobset(body, index=index),
        "RayCluster": lambda index: a_worker(body, pod_labels=indexed(index)),
        "LeaderWorkerSet": lambda index: a_member(0, body, group=index),
        "Job": lambda index: a_pod_of_job(str(index), body),
        "StatefulSet": lambda index: a_shard(index, body),
        "Deployment": lambda _index: a_server(body),
        "Pod": lambda _index: a_leader("Pod", body),
    }
    return [forged[kind](index) for index in range(FORGED_PODS)]


def count(pods: list[PodView], workload: WorkloadView) -> tuple[int, int]:
    """How many pools the needs of a workload may have, and how many nodes elastic ones have."""
    needs = want(workload, *pods).needs
    return sum(need.most if need.nodes is None else 1 for need in needs), sum(need.nodes or 0 for need in needs)


@pytest.mark.parametrize("kind", ["JobSet", "RayCluster", "LeaderWorkerSet", "Job"])
def test_pods_of_no_index_make_more_pools_than_the_spec(kind: str) -> None:
    workload = a_workload(kind, ONE_HOST, hosts=SLICES if kind == "Job" else 1)
    if kind != "Job":
        groups = tuple(structs.replace(group, replicas=SLICES) for group in workload.groups)
        workload = structs.replace(workload, groups=groups)

    assert count(forge_all(kind, ONE_HOST), workload) == (SLICES, 0)


@pytest.mark.parametrize("kind", ALL)
def test_one_shape_is_one_pool_with_the_nodes_of_the_spec_for_any_number_of_pods(kind: str) -> None:
    body, nodes = a_gpu_body(), 1 if kind in ("Pod", "RayCluster") else 4

    assert count(forge_all(kind, body), a_workload(kind, body, hosts=nodes)) == (1, nodes)


def test_a_replica_index_far_beyond_the_spec_makes_no_more_pools_than_it() -> None:
    workload = a_raycluster(a_group(topology="2x2", numOfHosts=1, replicas=2, maxReplicas=10**9))
    pods = [a_worker(ONE_HOST, pod_labels=text) for text in (indexed(4), webhooked(5), indexed(10**9))]

    assert count(pods, workload) == (2, 0)


# --- leaders and workers ---


OF_SPOT = change(SEVERAL_HOSTS, {labels.SPOT: "true"})
TOLERANT = having(OF_SPOT, tolerations=[{"key": labels.SPOT, "operator": "Exists"}])


def test_a_slice_asks_for_what_serves_leader_and_workers() -> None:
    """They share a pool, so one that no worker can use would be bought in vain."""
    (group,) = a_leaderworkerset(OF_SPOT, leader=TOLERANT).groups
    worker = change(SEVERAL_HOSTS, {})
    worker["spec"]["containers"][0]["resources"]["limits"]["example.com/fpga"] = "1"
    worker["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "shards"}}]
    asking = a_leaderworkerset(worker, leader=SEVERAL_HOSTS)
    (need,) = want(asking).needs

    assert not group.template.tolerates(SPOT_TAINT)
    expect_words(need.never, Reason.RESOURCE_UNKNOWN, "example.com/fpga")
    assert asking.groups[0].template.volume_claims == ("shards",)


# --- JobSets of Pathways: a head without chips beside slices of workers ---


EXCLUSIVE = {jobset_keys.EXCLUSIVE_TOPOLOGY: labels.NODE_POOL}
PINNED = EXCLUSIVE | {jobset_keys.NODE_SELECTOR_STRATEGY: "true"}
WORKERS, HEAD = ["train-worker-0", "train-worker-1"], "train-pathways-head-0"


def a_pathways(
    head: Json | None = None,
    *,
    heads: int = 1,
    pods: int = 1,
    of_workers: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> WorkloadView:
    """The annotations of the workers stand on their pods, where Pathways writes them."""
    workers = change(SEVERAL_HOSTS, {}, annotations=of_workers or {})
    jobs = [
        a_replicated_job("pathways-head", head or CHIPLESS, replicas=heads, pods=pods),
        a_replicated_job("worker", workers, pods=4, replicas=2),
    ]
    return a_jobset(*jobs, annotations=annotations)


@rows(
    "workload slices",
    {
        "a head on the nodes of its workers": (a_pathways(), WORKERS),
        "the annotation of exclusive workers": (a_pathways(of_workers=EXCLUSIVE), WORKERS),
        "the head selects other nodes": (a_pathways(change(CHIPLESS, {"team": "a"})), [HEAD, *WORKERS]),
        "the head asks for chips itself": (a_pathways(SEVERAL_HOSTS, pods=4), [HEAD, *WORKERS]),
        "several heads": (a_pathways(heads=2), [HEAD, "train-pathways-head-1", *WORKERS]),
        "each Job is pinned to its nodes": (a_pathways(annotations=PINNED), [HEAD, *WORKERS]),
        "a head on a CPU node": (a_pathways(OF_CPU), WORKERS),
    },
)
def test_a_head_that_cannot_share_nodes_with_workers_has_a_slice_of_its_own(
    workload: WorkloadView, slices: list[str]
) -> None:
    assert [each.name for each in list_slices(workload)] == slices


def test_a_head_on_the_nodes_of_its_workers_is_of_their_first_slice() -> None:
    head = a_pod(job="pathways-head", template=a_template(chips=0))
    wanted, of_cpu = want(a_pathways(), head, a_pod(job="worker")), a_pathways(OF_CPU)

    assert {(pod.need, pod.slice) for pod in wanted.pods} == {(wanted.needs[0].key, "train-worker-0")}
    assert [(need.most, need.hosts) for need in wanted.needs] == [(2, 4)]
    assert [(need.most, need.hosts, need.never) for need in want(of_cpu).needs] == [(2, 4, None)]
    assert [group.beside for group in of_cpu.groups] == [""]


# --- heads without chips that select the nodes of their workers must be able to run there ---


def led(head: Json) -> WorkloadView:
    """A LeaderWorkerSet of four workers with chips and this leader on their slice."""
    return a_workload("LeaderWorkerSet", a_body(), leader=head)


@pytest.mark.parametrize("make", [led, a_pathways])
def test_a_slice_is_bought_only_if_its_head_could_run_there(make: Callable[[Json], WorkloadView]) -> None:
    (refusal,) = plan_demands(make(having(CHIPLESS, tolerations=[])))

    expect_words(refusal, Reason.SHAPE_UNSUPPORTED, "google.com/tpu=present:NoSchedule")
    for claims in ([], CLAIMS):
        assert expect_demand(*plan_demands(make(having(CHIPLESS, resourceClaims=claims)))).shape.node_count == 4


@rows(
    "head served",
    {
        "it could not run there": ({}, False),
        "it tolerates the nodes": ({"tolerations": [{"operator": "Exists"}]}, True),
        "it runs elsewhere": ({"nodeSelector": {}}, True),
    },
)
def test_gpus_are_not_bought_if_the_head_selects_them_and_could_not_run_there(head: Json, *, served: bool) -> None:
    chipless = having(a_gpu_body(), containers=[{"name": "c"}], **head)
    (found,) = plan_demands(a_workload("LeaderWorkerSet", a_gpu_body(), leader=chipless))

    if served:
        expect_demand(found)
    else:
        words = ("nvidia.com/gpu=present:NoSchedule", "nvidia.com/gpu in the limits")
        expect_words(found, Reason.SHAPE_UNSUPPORTED, *words)
