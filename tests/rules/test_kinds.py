"""Workloads of every kind as rules see them: their slices and hosts, and which pod is whose."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec
import pytest

from shared.edges.pods import Pod, read_template, view_pod
from shared.kinds.job import JOB
from shared.kinds.leaderworkerset import GROUP_INDEX, LEADERWORKERSET, SET_NAME, WORKER_INDEX
from shared.kinds.read import UnexpectedValue
from shared.kinds.replicas import DEPLOYMENT, STATEFULSET, TEMPLATE_HASH
from shared.kinds.table import KINDS, find_kind_of_pod, get_kind, select_pods, select_pods_of
from shared.model import labels
from shared.model.decisions import Decision, Reason
from shared.model.workloads import PodView, WorkloadView
from shared.needs.ways import Demand
from tests.demands import expect_demand, plan_demands, want
from tests.refusals import expect_words, refuses
from tests.rows import read_rows, rows
from tests.rules.workloads import (
    CHIPLESS,
    OF_CPU,
    ONE_HOST,
    SEVERAL_HOSTS,
    UID,
    WAITS,
    Json,
    a_body,
    a_deployment,
    a_gpu_body,
    a_group,
    a_job,
    a_jobset,
    a_leaderworkerset,
    a_member,
    a_pod_of_job,
    a_raycluster,
    a_server,
    a_shard,
    a_stateful_set,
    change,
    decide,
    having,
    require,
)
from tests.slices import list_slices

OF_SPOT = change(SEVERAL_HOSTS, {labels.SPOT: "true"})
TEMPLATES = {
    "4x4": SEVERAL_HOSTS,
    "2x2": ONE_HOST,
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
BUILDERS: dict[str, Callable[..., WorkloadView]] = {
    "Job": a_job,
    "LeaderWorkerSet": a_leaderworkerset,
    "Deployment": a_deployment,
    "StatefulSet": a_stateful_set,
    "JobSet": a_jobset,
}


def read(of: str, has: Json, group: Json, conditions: dict[str, str], owner: Json) -> WorkloadView:
    held = [
        {"type": each, "status": status, "lastTransitionTime": "2027-01-15T08:00:00Z"}
        for each, status in conditions.items()
    ]
    fields: Json = {key: TEMPLATES[value] if key in PARTS else value for key, value in has.items()}
    if of == "RayCluster":
        group = {key: TEMPLATES[value] if key in PARTS else value for key, value in group.items()}
        if "head" in fields:
            fields["headGroupSpec"] = {"template": fields.pop("head")}
        return a_raycluster(a_group(**group), conditions=held, **fields)
    if held:
        fields["status"] = {"conditions": held, "replicas": 2}
    if owner:
        fields["metadata"] = {"ownerReferences": [owner]}
    return BUILDERS[of](**fields)


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
}
"""What rules see of a workload, in the words of a row; else it is a field."""


@read_rows("kinds.yaml", "of has group conditions owner reads refused", section="of")
def test_a_workload_reads_as_its_controller_has_it(
    of: str, has: Json, group: Json, conditions: dict[str, str], owner: Json, reads: Any, refused: list[str]
) -> None:
    if reads == "unreadable":
        with pytest.raises(UnexpectedValue):
            read(of, has, group, conditions, owner)
        return
    workload = read(of, has, group, conditions, owner)
    if refused:
        reason, *words = refused
        for found in plan_demands(workload):
            expect_words(found, Reason(reason), *words)

    assert refused or reads
    assert {what: VIEWS.get(what, attrgetter(what))(workload) for what in reads} == reads


# --- the slice of a pod ---


SUBGROUPS: Json = {"subgroups": {"subGroupSize": 2, "subGroupPolicyType": "LeaderWorker"}}
WITHOUT_LEADER: Json = {"subgroups": {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}, "size": 5}
BY_HOST, BY_LEADER = a_job(template=ONE_HOST), a_leaderworkerset()
BY_SUBGROUP = a_leaderworkerset(**SUBGROUPS)
OTHERS = [{"kind": "StatefulSet", "name": "other", "controller": True}]
OF_ZERO_ONE = {SET_NAME: "train", GROUP_INDEX: "01", WORKER_INDEX: "0"}
OF_GROUPS: dict[str, tuple[PodView, WorkloadView, str | None]] = {
    "a leader": (a_member(0, group=1), BY_LEADER, "train-1"),
    "a worker": (a_member(1, group=1), a_leaderworkerset(leader=OF_CPU), "train-1"),
    "a leader of sub-groups": (a_member(0, subgroup=0), BY_SUBGROUP, "train-0-0"),
    "a worker of a sub-group": (a_member(2, subgroup=1), BY_SUBGROUP, "train-1-0"),
    "a chipless leader of no sub-group waits for the first": (
        a_member(0, template=CHIPLESS),
        a_leaderworkerset(leader=CHIPLESS, **WITHOUT_LEADER),
        "train-0-0",
    ),
    "a group that was scaled away": (a_member(0, group=2), BY_LEADER, None),
    "a sub-group that is none": (a_member(2, subgroup=2), BY_SUBGROUP, None),
    "a leader under another's name": (a_member(0, name="train-1"), BY_LEADER, None),
    "a worker under another's name": (a_member(1, name="train-0-2"), BY_LEADER, None),
    "of another StatefulSet": (a_member(0, ownerReferences=OTHERS), BY_LEADER, None),
    "made by hand": (a_member(0, ownerReferences=[]), BY_LEADER, None),
    "its live spec asks for nothing": (a_member(0), a_leaderworkerset(leader=OF_CPU, worker=OF_CPU), None),
    "no index": (a_member(0, name="train-01", labels=OF_ZERO_ONE), BY_LEADER, None),
}
OF_JOBS: dict[str, tuple[PodView, WorkloadView, str | None]] = {
    "several hosts": (a_pod_of_job(), a_job(), "train"),
    "a single host": (a_pod_of_job("3"), BY_HOST, "train-3"),
    "an index of later": (a_pod_of_job("57"), a_job(template=ONE_HOST, completions=100), "train-57"),
    "an index that the spec has not": (a_pod_of_job("4"), BY_HOST, None),
    "no index of Kubernetes'": (a_pod_of_job("00"), BY_HOST, None),
    "a number beyond all numbers": (a_pod_of_job("1" * 5000), BY_HOST, None),
    "no ASCII number": (a_pod_of_job("٣"), BY_HOST, None),
    "an index is missing where all have one": (a_pod_of_job(None), BY_HOST, None),
    "the live Job asks for no accelerators": (a_pod_of_job(), a_job(template=OF_CPU), None),
    "scaled to nothing": (a_pod_of_job(), a_job(parallelism=0), None),
    "another Job's": (a_pod_of_job(name="other"), a_job(), None),
}


@rows("pod workload name", {f"LWS, {row}": each for row, each in OF_GROUPS.items()} | OF_JOBS)
def test_a_pod_leads_to_its_slice(pod: PodView, workload: WorkloadView, name: str | None) -> None:
    found = get_kind(workload.kind).find_slice(pod, workload)
    assert (found.name if found else None) == name


@rows(
    "owner name uid",
    {
        "a Job": ({}, "train", UID),
        "a Job of another API": ({"apiVersion": "batch.volcano.sh/v1alpha1"}, "", ""),
        "no Job": ({"kind": "ReplicaSet", "apiVersion": "apps/v1"}, "", ""),
        "an owner that does not control": ({"controller": False}, "", ""),
    },
)
def test_only_the_controller_is_believed(owner: Json, name: str, uid: str) -> None:
    pod = a_pod_of_job(**owner)
    assert (JOB.find_owner(pod), JOB.find_owner_uid(pod)) == (name, uid)
    assert (JOB.find_slice(pod, a_job()) is not None) is bool(name)


@rows(
    "pod name",
    {
        "the set and the hash": (a_server(), "train"),
        "no hash: a set of its own": (a_server(pod_labels={}), ""),
        "another hash than the set's": (a_server(pod_labels={TEMPLATE_HASH: "other"}), ""),
        "an empty hash": (a_server(pod_labels={TEMPLATE_HASH: ""}, name="train-"), ""),
        "no ReplicaSet": (a_server(kind="StatefulSet"), ""),
        "a ReplicaSet of another API": (a_server(apiVersion="extensions/v1beta1"), ""),
    },
)
def test_a_pod_leads_to_its_deployment_by_the_name_of_its_set_and_its_hash(pod: PodView, name: str) -> None:
    assert (DEPLOYMENT.find_owner(pod), DEPLOYMENT.find_owner_uid(pod)) == (name, "")


def test_each_kind_knows_its_own_pods() -> None:
    assert (find_kind_of_pod(a_server()), find_kind_of_pod(a_shard())) == (DEPLOYMENT, STATEFULSET)
    assert STATEFULSET.find_owner(a_shard(apiVersion="apps.kruise.io/v1")) == ""
    assert STATEFULSET.find_owner(a_shard(kind="ReplicaSet")) == ""
    assert (LEADERWORKERSET.find_owner(a_member(1)), LEADERWORKERSET.find_owner(a_member(1, labels={}))) == (
        "train",
        "",
    )
    assert LEADERWORKERSET.find_owner_uid(a_member(1)) == ""
    assert select_pods_of(a_leaderworkerset()) == f"{SET_NAME}=train"
    of_deployments = select_pods(DEPLOYMENT).split(",")
    assert of_deployments[0] == TEMPLATE_HASH
    assert "!batch.kubernetes.io/job-name" in of_deployments


# --- what cannot be a slice ---


PARALLEL: Json = {"template": SEVERAL_HOSTS, "podManagementPolicy": "Parallel"}


def test_single_hosts_share_one_pool_and_parallel_pods_of_all_hosts_are_a_slice() -> None:
    server = expect_demand(decide(a_server(), a_deployment()))
    shards = [expect_demand(decide(a_shard(ordinal), a_stateful_set())) for ordinal in range(4)]
    whole = expect_demand(decide(a_shard(3, template=SEVERAL_HOSTS), a_stateful_set(**PARALLEL)))

    assert server.need.elastic
    assert (server.shape.node_count, server.shape.chips, server.shape.machine.name) == (3, 12, "ct6e-standard-4t")
    assert {(each.need.elastic, each.shape.node_count) for each in shards} == {(True, 4)}
    assert (whole.need.elastic, whole.shape.node_count) == (False, 4)
    with refuses(Reason.SLICE_UNKNOWN):
        list_slices(a_stateful_set(template=SEVERAL_HOSTS))


# --- the bare pod, and pods that belong to nobody who is known here ---


POD = get_kind("Pod")
UNKNOWN = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "train", "uid": "u", "controller": True}


def bare(
    *owners: Json, topology: str = "2x2", phase: str = "Pending", **meta: Any
) -> tuple[PodView, WorkloadView]:
    """A bare pod, and the workload that it is."""
    plain = {"namespace": "default", "name": "lab", "uid": "of-lab", "ownerReferences": list(owners)}
    body = a_body(topology) | {"metadata": plain | meta, "status": WAITS | {"phase": phase}}
    return view_pod(msgspec.convert(body, Pod)), POD.read(body, read_template)


def ask(*owners: Json, **options: Any) -> Demand | Decision:
    return decide(*bare(*owners, **options))


def test_a_bare_pod_is_its_own_workload_with_a_pool_of_one_node() -> None:
    found = expect_demand(ask())

    assert (found.shape.node_count, found.shape.machine.name) == (1, "ct6e-standard-4t")
    assert len(list_slices(bare()[1])) == 1
    expect_demand(ask({"kind": "Workflow", "name": "w", "uid": "w"}))  # an owner that does not control it


def test_flex_start_of_a_pool_that_grows_and_shrinks_waits_without_end() -> None:
    """Its nodes come and go with its pods, so that it has none is no failure."""
    annotations = {labels.CAPACITY: "[{flexStart: {enabled: true}}, {}]", labels.FLEX_START_WAIT: "600"}

    assert expect_demand(ask(annotations=annotations)).need.flex_wait_seconds == 0


def test_a_slice_of_several_hosts_is_no_pod_s() -> None:
    expect_words(ask(topology="4x4"), Reason.HOSTS_DIFFER, "a kind of workload that has slices")


@rows(
    "owner",
    {
        "an unknown kind": UNKNOWN,
        "another pod": UNKNOWN | {"kind": "Pod", "apiVersion": "v1", "name": "driver"},
        "itself": UNKNOWN | {"kind": "Pod", "apiVersion": "v1", "name": "lab", "uid": "of-lab"},
        "a ReplicaSet of nobody": UNKNOWN | {"kind": "ReplicaSet", "apiVersion": "apps/v1"},
        "another's namesake": UNKNOWN | {"kind": "StatefulSet", "apiVersion": "apps.kruise.io/v1"},
    },
)
def test_a_pod_of_an_unknown_controller_is_told_which_kinds_are_served(owner: Json) -> None:
    served = [kind.name for kind in KINDS if kind is not POD]

    expect_words(ask(owner), Reason.OWNER_KIND_UNKNOWN, owner["kind"], *served)
    assert list_slices(bare(owner)[1]) == []


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_what_belongs_to_a_node_asks_for_none(kind: str) -> None:
    pod, workload = bare(UNKNOWN | {"kind": kind})

    assert find_kind_of_pod(pod) is None
    assert want(workload).needs == ()


@pytest.mark.parametrize(
    ("phase", "terminal"), [("Succeeded", "Succeeded"), ("Failed", "Failed"), ("Running", "")]
)
def test_it_is_over_with_its_phase(phase: str, terminal: str) -> None:
    assert bare(phase=phase)[1].terminal == terminal


def test_only_pods_that_no_other_kind_marks_are_watched_and_none_of_them_as_a_workload() -> None:
    assert set(select_pods(POD).split(",")) == {f"!{kind.mark}" for kind in KINDS if kind.mark}
    assert not POD.watched
    assert POD.path_of("default", "lab") == "/api/v1/namespaces/default/pods/lab"
