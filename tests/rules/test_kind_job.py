"""The plain Job as one slice, or one per index: which pods lead, what is over, what is refused."""

from typing import Any

import pytest

from shared.edges.pods import read_template
from shared.kinds.job import JOB, JOB_NAME_ON_POD
from shared.model import labels
from shared.model.errors import SliceUnknown
from shared.model.workloads import PodView, WorkloadView
from tests.refusals import refuses
from tests.rows import rows
from tests.rules.live_pods import a_pod_body, a_pod_of
from tests.slices import list_slices

SEVERAL_HOSTS = a_pod_body(topology="4x4")
UID = "7a1c52d0-5b0e-4d62-8a52-3d9f0f0c1a07"


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


ONE_HOST = a_pod_body()
WITHOUT_CHIPS = a_pod_body(topology="4x4", chips=0)
MISSHAPEN = a_pod_body(topology="4 by 4")
OF_CPU = {"spec": {"containers": [{"name": "c"}]}}


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
