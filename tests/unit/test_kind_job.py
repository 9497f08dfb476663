"""The plain Job as one slice, or one per index: which pods lead, what is over, what is refused."""

from typing import Any

import pytest

from shared.edges.pods import read_template
from shared.kinds.job import JOB, JOB_NAME_ON_POD
from shared.kinds.objects import UnexpectedValue
from shared.model import labels
from shared.model.errors import SliceUnknown
from shared.model.workloads import PodView, WorkloadView
from tests.refusals import refuses
from tests.rows import rows
from tests.slices import list_slices
from tests.unit.live_pods import a_pod_body, a_pod_of, require

SEVERAL_HOSTS = a_pod_body(topology="4x4")
UID = "7a1c52d0-5b0e-4d62-8a52-3d9f0f0c1a07"
SINCE, SINCE_SECONDS = "2027-01-15T08:00:00Z", 1_800_000_000.0


def a_job(
    *,
    template: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    **spec: Any,
) -> WorkloadView:
    """An indexed Job of four pods on a 4x4 slice, unless overridden; a None takes a field away."""
    plain = {
        "parallelism": 4,
        "completions": 4,
        "completionMode": "Indexed",
        "template": template or SEVERAL_HOSTS,
    }
    body = {
        "metadata": {"namespace": "default", "name": "train", "uid": UID} | (metadata or {}),
        "spec": {key: value for key, value in (plain | spec).items() if value is not None},
        "status": status or {},
    }
    return JOB.read(body, read_template)


def a_pod(index: str | None = "0", *, template: dict[str, Any] | None = None, **owner: Any) -> PodView:
    pod_labels = {JOB_NAME_ON_POD: "train"} | ({} if index is None else {labels.COMPLETION_INDEX: index})
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": UID} | owner
    body = template or SEVERAL_HOSTS
    return a_pod_of(controller, body, name="train-0-abcde", uid="", labels=pod_labels, status={})


def held(*types: str, status: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": each, "status": status, "lastTransitionTime": SINCE} for each in types]}


ONE_HOST = a_pod_body()
EIGHT_ON_ONE_HOST = a_pod_body(topology="2x4", chips=8)
WITHOUT_TOPOLOGY = a_pod_body(topology=None, chips=8)
WITHOUT_CHIPS = a_pod_body(topology="4x4", chips=0)
MISSHAPEN = a_pod_body(topology="4 by 4")
OF_CPU = {"spec": {"containers": [{"name": "c"}]}}


@rows(
    "spec slices hosts",
    {
        "several hosts, indexed": ({}, ["train"], 4),
        "several hosts, more indexes than at once": ({"completions": 8}, ["train"], 4),
        "parallelism above completions": ({"parallelism": 8}, ["train"], 4),
        "a topology that nobody reads is refused later": ({"template": MISSHAPEN}, ["train"], 4),
        "selectors without chips": ({"template": WITHOUT_CHIPS}, ["train"], 4),
        "scaled to nothing": ({"parallelism": 0}, [], 0),
        "one of one index": ({"template": ONE_HOST, "parallelism": 1, "completions": 1}, ["train-0"], 1),
        "one host per index": ({"template": ONE_HOST}, [f"train-{n}" for n in range(4)], 1),
        "as many as at once": ({"template": ONE_HOST, "completions": 100}, [f"train-{n}" for n in range(4)], 1),
        "eight chips on a host": ({"template": EIGHT_ON_ONE_HOST, "parallelism": 2}, ["train-0", "train-1"], 1),
        "no topology is one host": ({"template": WITHOUT_TOPOLOGY, "parallelism": 2}, ["train-0", "train-1"], 1),
        "a Job of one pod needs no index": (
            {"template": ONE_HOST, "parallelism": None, "completions": None, "completionMode": None},
            ["train"],
            1,
        ),
        "one pod after another": (
            {"template": ONE_HOST, "parallelism": 1, "completionMode": "NonIndexed"},
            ["train"],
            1,
        ),
        "no accelerators": ({"template": OF_CPU}, [], 0),
        "no accelerators and no index": ({"template": OF_CPU, "completionMode": None}, [], 0),
    },
)
def test_the_spec_names_its_slices(spec: dict[str, Any], slices: list[str], hosts: int) -> None:
    found = list_slices(a_job(**spec))
    assert [each.name for each in found] == slices
    assert {each.group.hosts for each in found} <= {hosts}


UNINDEXED = {
    "several hosts": {"completionMode": None},
    "one pod of several hosts": {"completionMode": "NonIndexed", "parallelism": 1},
    "a queue of single hosts": {"completionMode": None, "completions": None, "template": ONE_HOST},
}


@rows("spec", UNINDEXED)
def test_pods_without_index_are_refused_where_they_would_need_one(spec: dict[str, Any]) -> None:
    job = a_job(**spec)
    with refuses(SliceUnknown, match=r"completionMode.*Indexed"):
        JOB.find_slice(a_pod(None), job)
    with refuses(SliceUnknown, match="have no completion index"):
        list_slices(job)


@pytest.mark.parametrize("template", [WITHOUT_CHIPS, MISSHAPEN], ids=["no chips", "no topology"])
def test_a_slice_that_cannot_be_read_is_left_to_the_demand_to_refuse(template: dict[str, Any]) -> None:
    job = a_job(completionMode=None, template=template)
    assert [each.name for each in list_slices(job)] == ["train"]
    assert JOB.find_slice(a_pod(None, template=template), job) is not None


def test_a_queue_that_is_scaled_to_nothing_is_not_refused() -> None:
    job = a_job(completionMode=None, completions=None, parallelism=0, template=SEVERAL_HOSTS)
    assert list_slices(job) == []


def test_an_ambiguous_topology_is_left_to_the_demand_to_refuse() -> None:
    template = require(a_pod_body(topology=None), labels.TOPOLOGY, "2x2", "4x4")
    assert [each.name for each in list_slices(a_job(template=template))] == ["train"]


@rows(
    "spec index name",
    {
        "several hosts": ({}, "0", "train"),
        "a single host": ({"template": ONE_HOST}, "3", "train-3"),
        "an index of later": ({"template": ONE_HOST, "completions": 100}, "57", "train-57"),
        "an index that the spec has not": ({"template": ONE_HOST, "completions": 4}, "4", None),
        "no index of Kubernetes'": ({"template": ONE_HOST}, "00", None),
        "a number beyond all numbers": ({"template": ONE_HOST}, "1" * 5000, None),
        "no ASCII number": ({"template": ONE_HOST}, "٣", None),
        "an index is missing where all have one": ({"template": ONE_HOST}, None, None),
        "the live Job asks for no accelerators": ({"template": OF_CPU}, "0", None),
        "scaled to nothing": ({"parallelism": 0}, "0", None),
    },
)
def test_a_pod_leads_to_its_slice(spec: dict[str, Any], index: str | None, name: str | None) -> None:
    found = JOB.find_slice(a_pod(index), a_job(**spec))
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
def test_only_the_controller_is_believed(owner: dict[str, Any], name: str, uid: str) -> None:
    pod = a_pod(**owner)
    assert (JOB.find_owner(pod), JOB.find_owner_uid(pod)) == (name, uid)
    assert (JOB.find_slice(pod, a_job()) is not None) is bool(name)


def test_a_pod_of_another_job_leads_to_no_slice() -> None:
    assert JOB.find_slice(a_pod(name="other"), a_job()) is None


@rows(
    "status slices",
    {
        "none has ended": ({}, 2),
        "two of four have ended": ({"completedIndexes": "0,2"}, 2),
        "a range": ({"completedIndexes": "0-2"}, 1),
        "failed ones too": ({"completedIndexes": "0-1", "failedIndexes": "3"}, 1),
        "all": ({"completedIndexes": "0-3"}, 0),
        "more than there are": ({"completedIndexes": "0-999999999"}, 2),
        "no range": ({"completedIndexes": "2-"}, 2),
        "a range that runs back": ({"completedIndexes": "3-1"}, 2),
        "no index": ({"completedIndexes": "first"}, 2),
    },
)
def test_no_more_slices_are_wanted_than_indexes_are_left(status: dict[str, Any], slices: int) -> None:
    job = a_job(template=ONE_HOST, parallelism=2, completions=4, status=status)

    assert len(list_slices(job)) == slices


@rows(
    "status terminal",
    {
        "running": ({}, ""),
        "complete": (held("Complete"), "Complete"),
        "failed": (held("Failed"), "Failed"),
        "failed after its pods ended": (held("FailureTarget", "Failed"), "Failed"),
        "about to complete: pods may still run": (held("SuccessCriteriaMet"), ""),
        "about to fail: pods may still run": (held("FailureTarget"), ""),
        "a condition that does not hold": (held("Complete", status="False"), ""),
    },
)
def test_a_job_is_over_when_its_pods_are(status: dict[str, Any], terminal: str) -> None:
    job = a_job(status=status)
    assert (job.terminal, job.terminal_since) == (terminal, SINCE_SECONDS if terminal else None)


def test_a_suspension_has_the_time_of_its_condition() -> None:
    asked, held_back = a_job(suspend=True), a_job(suspend=True, status=held("Suspended"))
    assert (asked.suspended, asked.suspended_since) == (True, None)
    assert (held_back.suspended, held_back.suspended_since) == (True, SINCE_SECONDS)
    assert not a_job(suspend=False).suspended


@rows(
    "owner elsewhere",
    {
        "a part of another workload": ({"kind": "JobSet", "controller": True}, True),
        "another's submitter": ({"kind": "RayJob", "controller": True}, True),
        "a CronJob only says when": ({"kind": "CronJob", "controller": True}, False),
        "an owner that does not control": ({"kind": "Workflow", "controller": False}, False),
        "an owner that does not say so": ({"kind": "Workflow"}, False),
    },
)
def test_a_job_of_another_controller_is_a_part_and_no_workload(owner: dict[str, Any], elsewhere: bool) -> None:
    assert a_job(metadata={"ownerReferences": [owner]}).part_of == (f"{owner['kind']}" if elsewhere else "")


@pytest.mark.parametrize(
    ("manager", "elsewhere"),
    [(None, False), ("", False), ("kubernetes.io/job-controller", False), ("kueue.x-k8s.io/multikueue", True)],
)
def test_a_job_may_run_in_another_cluster(manager: str | None, elsewhere: bool) -> None:
    assert a_job(managedBy=manager).managed_elsewhere is elsewhere


@rows(
    "spec", {"no number": {"parallelism": "many"}, "no text": {"completionMode": 1}, "no flag": {"suspend": "yes"}}
)
def test_an_object_of_another_form_is_unreadable(spec: dict[str, Any]) -> None:
    with pytest.raises(UnexpectedValue):
        a_job(**spec)
