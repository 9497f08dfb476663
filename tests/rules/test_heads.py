"""Leaders and heads of slices: on other nodes than their workers, without chips, beside them."""

import copy
from typing import Any

import pytest
from msgspec import structs

from shared.kinds import jobset as jobset_keys
from shared.kinds.jobset import JOBSET
from shared.kinds.leaderworkerset import LEADERWORKERSET, SET_NAME, WORKER_INDEX
from shared.model import labels
from shared.model.decisions import Decision, Reason
from shared.model.workloads import SPOT_TAINT, PodView, WorkloadView
from shared.needs.ways import Demand
from tests.builders import a_pod, a_template
from tests.demands import expect_demand, want
from tests.refusals import expect_words
from tests.rows import rows
from tests.rules.kind_bodies import CHIPLESS, OF_CPU, SEVERAL_HOSTS, Json, a_leaderworkerset, a_member
from tests.rules.kind_bodies import read as read_kind
from tests.rules.live_pods import a_body, a_gpu_body, a_workload, change, plan
from tests.slices import list_slices

# --- leaders and workers ---


@rows(
    "pod is_leader",
    {
        "a leader with chips": (a_member(0), True),
        "worker 1 of a leader with chips": (a_member(1, leader_asks=True), False),
        "a chipless leader that selects the slice": (a_member(0, template=CHIPLESS), True),
        "a leader on a CPU node": (a_member(0, template=OF_CPU), False),
        "worker 1 of a leader without chips": (a_member(1), True),
        "worker 2 of a leader without chips": (a_member(2), True),
        "the leader of two sub-groups": (a_member(0, subgroup=0), True),
        "its first worker": (a_member(1, subgroup=0, leader_asks=True), False),
        "first of the second sub-group": (a_member(2, subgroup=1, leader_asks=True), True),
        "first worker below an extra leader": (a_member(1, subgroup=0), True),
        "no index": (a_member(1, labels={SET_NAME: "serve", WORKER_INDEX: "first"}), False),
        "no label of the controller": (a_member(1, labels={SET_NAME: "serve"}), False),
    },
)
def test_which_pod_is_the_leader_of_a_slice(pod: PodView, is_leader: bool) -> None:
    assert LEADERWORKERSET.is_leader(pod) is is_leader


OF_SPOT = change(SEVERAL_HOSTS, {labels.SPOT: "true"})
TOLERANT = {"spec": OF_SPOT["spec"] | {"tolerations": [{"key": labels.SPOT, "operator": "Exists"}]}}


def test_a_slice_asks_for_what_serves_leader_and_workers() -> None:
    """They share a pool, so one that no worker can use would be bought in vain."""
    (group,) = a_leaderworkerset(leader=TOLERANT, worker=change(OF_SPOT, {})).groups
    worker = change(SEVERAL_HOSTS, {})
    worker["spec"]["containers"][0]["resources"]["limits"]["example.com/fpga"] = "1"
    worker["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "shards"}}]
    asking = a_leaderworkerset(worker=worker, leader=SEVERAL_HOSTS)
    (need,) = want(asking).needs

    assert not group.template.tolerates(SPOT_TAINT)
    expect_words(need.never, Reason.RESOURCE_UNKNOWN, "example.com/fpga")
    assert asking.groups[0].template.volume_claims == ("shards",)


# --- JobSets of Pathways: a head without chips beside slices of workers ---


EXCLUSIVE = {jobset_keys.EXCLUSIVE_TOPOLOGY: labels.NODE_POOL}
PINNED = EXCLUSIVE | {jobset_keys.NODE_SELECTOR_STRATEGY: "true"}
WORKERS, HEAD = ["train-worker-0", "train-worker-1"], "train-pathways-head-0"


def a_replicated_job(name: str, template: Json, *, pods: int = 1, replicas: int = 1) -> Json:
    spec = {"parallelism": pods, "completions": pods, "template": template}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def a_pathways(
    head: Json | None = None,
    *,
    heads: int = 1,
    pods: int = 1,
    of_workers: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> WorkloadView:
    """The annotations of the workers stand on their pods, where Pathways writes them."""
    tolerant = change(CHIPLESS, {})
    tolerant["spec"]["tolerations"] = [{"key": labels.TPU_RESOURCE, "operator": "Exists"}]
    workers = {"metadata": {"annotations": of_workers or {}}, **SEVERAL_HOSTS}
    jobs = [
        a_replicated_job("pathways-head", head or tolerant, replicas=heads, pods=pods),
        a_replicated_job("worker", workers, pods=4, replicas=2),
    ]
    return read_kind(JOBSET, "train", {"replicatedJobs": jobs}, annotations=annotations or {})


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


# --- pods without chips that select TPU nodes must be able to run there ---


CLAIMS = [{"name": "chips", "resourceClaimTemplateName": "all-chips"}]
MESSAGES = (
    *("resources.google.com/tpu: missing; ", " needs 4 chips; ", "google.com/tpu=present:NoSchedule"),
    *("google.com/tpu in the limits", "operator Exists"),
)


def having(body: Json, **spec: Any) -> Json:
    """Return a pod template with other fields of its pods' spec."""
    return {**body, "spec": copy.deepcopy(body["spec"]) | spec}


def expect_refusals(found: list[Demand | Decision], *words: str) -> None:
    for each in found:
        expect_words(each, Reason.SHAPE_UNSUPPORTED, *words)


def led(head: Json) -> WorkloadView:
    """A LeaderWorkerSet of four workers with chips and this leader on their slice."""
    return a_workload("LeaderWorkerSet", a_body(), leader=head)


def headed(head: Json) -> WorkloadView:
    """A JobSet whose head is on the slice of its workers, as Pathways makes it."""
    workers = a_workload("JobSet", a_body()).groups[0]
    guest = a_workload("JobSet", head, hosts=1).groups[0]
    groups = (structs.replace(guest, name="head", beside=workers.name), workers)
    return structs.replace(a_workload("JobSet", a_body()), groups=groups)


@pytest.mark.parametrize("make", [led, headed])
def test_a_slice_is_bought_only_if_its_head_could_run_there(make: Any) -> None:
    head = a_body(chips=0)
    (refusal,) = plan(make(having(head, tolerations=[])))

    expect_refusals([refusal], *MESSAGES)
    for claims in ([], CLAIMS):
        assert expect_demand(*plan(make(having(head, resourceClaims=claims)))).shape.node_count == 4


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
    (found,) = plan(a_workload("LeaderWorkerSet", a_gpu_body(), leader=chipless))

    if served:
        expect_demand(found)
    else:
        expect_refusals([found], "nvidia.com/gpu=present:NoSchedule", "nvidia.com/gpu in the limits")
