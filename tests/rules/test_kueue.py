"""Kueue's objects, read from JSON as Kueue 0.15 writes it, and what is written back."""

import copy
from typing import Any

import pytest

from shared.edges.kueue import format_state, inject_flavors, read_flavor, read_queued
from shared.kinds.read import UnexpectedValue
from shared.kinds.table import KIND_NAMES, get_kind
from shared.model.decisions import Reason
from shared.model.times import parse_time
from shared.model.workloads import CheckState, QueuedWorkload
from tests.demands import refuses

Json = dict[str, Any]
API = "jobset.x-k8s.io/v1alpha2"
OWNER = {"apiVersion": API, "kind": "JobSet", "name": "train", "uid": "uid-of-train", "controller": True}
CHECKS = [
    {"name": "other", "state": "Ready", "message": "", "lastTransitionTime": "2026-11-23T11:00:00Z"},
    {"name": "capacity", "state": "Pending", "message": "", "lastTransitionTime": "2026-11-23T11:00:01Z"},
]


def a_workload(*, conditions: dict[str, str] | None = None, checks: list[Json] | None = None, **meta: Any) -> Json:
    held = {"QuotaReserved": "True"} if conditions is None else conditions
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "namespace": "default",
            "name": "jobset-train-1234",
            "uid": "uid-of-workload",
            "resourceVersion": "7",
            "ownerReferences": [OWNER],
        }
        | meta,
        "spec": {"active": True, "podSets": [{"name": "workers", "template": {"metadata": {}}}]},
        "status": {
            "admission": {
                "podSetAssignments": [
                    {"name": "workers", "flavors": {"google.com/tpu": "v6e", "cpu": "v6e", "memory": "big"}}
                ]
            },
            "conditions": [
                {"type": name, "status": status, "lastTransitionTime": "2026-11-23T11:00:00Z"}
                for name, status in held.items()
            ],
            "admissionChecks": CHECKS if checks is None else checks,
        },
    }


def test_a_workload_names_its_owner_flavors_and_checks() -> None:
    queued = read_queued(a_workload())

    assert (queued.owner.kind, queued.owner.name) == ("JobSet", "train")
    assert queued.flavors == {"workers": ("v6e", "big")}
    assert queued.find_check(["other", "capacity"]) == queued.checks[1]
    assert queued.find_check(["other"]) == queued.checks[0]
    assert queued.find_check(["unknown"]) is None


@pytest.mark.parametrize(
    ("conditions", "more", "holds"),
    [
        ({"QuotaReserved": "True"}, {}, True),
        ({"QuotaReserved": "True", "Admitted": "True"}, {}, True),
        ({"QuotaReserved": "True", "Evicted": "False"}, {}, True),
        ({}, {}, False),
        ({"QuotaReserved": "False"}, {}, False),
        ({"QuotaReserved": "True", "Evicted": "True"}, {}, False),
        ({"QuotaReserved": "True", "Finished": "True"}, {}, False),
        ({"QuotaReserved": "True"}, {"deletionTimestamp": "2026-11-23T11:00:00Z"}, False),
        ({"QuotaReserved": "True"}, {"checks": [CHECKS[0], CHECKS[1] | {"state": "Retry"}]}, False),
        ({"QuotaReserved": "True"}, {"checks": [CHECKS[0] | {"state": "Rejected"}, CHECKS[1]]}, False),
    ],
)
def test_quota_counts_until_it_is_about_to_be_lost_and_its_loss_has_a_time(
    conditions: dict[str, str], more: Json, holds: bool
) -> None:
    queued = read_queued(a_workload(conditions=conditions, **more))
    lost = conditions.get("Evicted") == "True" or conditions.get("QuotaReserved") == "False"

    assert queued.holds_quota is holds
    assert queued.lost_at == parse_time("2026-11-23T11:00:00Z" if lost else None)


def test_a_workload_that_is_not_active_holds_no_quota() -> None:
    body = a_workload()
    body["spec"]["active"] = False

    assert not read_queued(body).holds_quota


def test_a_workload_of_a_wrong_type_is_an_error_that_names_the_field() -> None:
    with pytest.raises(UnexpectedValue, match=r"status\.admissionChecks"):
        read_queued(a_workload() | {"status": {"admissionChecks": "x"}})


FLAVORS: dict[str, Json] = {
    "v6e": {"nodeLabels": {"tpu": "v6e"}, "tolerations": [{"key": "spot", "operator": "Exists"}]},
    "big": {"nodeLabels": {"memory": "big"}},
}


def assign(pod_set: str, *flavors: str) -> QueuedWorkload:
    """Return a Workload with quota for two pods of a pod set."""
    body = a_workload()
    assigned = {"name": pod_set, "count": 2, "flavors": dict(zip("abc", flavors, strict=False))}
    body["status"]["admission"]["podSetAssignments"] = [assigned]
    return read_queued(body)


def a_template(**selector: str) -> Json:
    return {"spec": {"nodeSelector": selector, "tolerations": [{"key": "mine"}]}}


OF_JOBSET = {"name": "Workers", "template": {"spec": {"template": a_template()}}}
OF_RAY: Json = {"headGroupSpec": {"template": {"spec": {}}}}
BODIES: dict[str, tuple[Json, str, tuple[str | int, ...]]] = {
    "Job": ({"template": a_template()}, "main", ("template",)),
    "JobSet": ({"replicatedJobs": [OF_JOBSET]}, "workers", ("replicatedJobs", 0, "template", "spec", "template")),
    "RayCluster": (
        OF_RAY | {"workerGroupSpecs": [{"groupName": "Group", "template": a_template()}]},
        "group",
        ("workerGroupSpecs", 0, "template"),
    ),
}


@pytest.mark.parametrize("kind", BODIES)
def test_the_flavors_of_a_pod_set_come_into_its_pod_template(kind: str) -> None:
    spec, pod_set, path = BODIES[kind]
    before = copy.deepcopy(spec)

    found: Any = inject_flavors(get_kind(kind), {"spec": spec}, assign(pod_set, "v6e", "big"), FLAVORS)

    for step in ("spec", *path):
        found = found[step]
    assert found["spec"]["nodeSelector"] == {"tpu": "v6e", "memory": "big"}
    assert found["spec"]["tolerations"] == [{"key": "mine"}, {"key": "spot", "operator": "Exists"}]
    assert spec == before
    assert {name for name in KIND_NAMES if get_kind(name).queued} == set(BODIES), "all kinds with pod sets"


def test_a_flavor_that_contradicts_a_template_is_refused_with_both_values_and_one_may_say_nothing() -> None:
    job = {"spec": {"template": a_template(tpu="v5e")}}

    with refuses(Reason.POD_CONTRADICTS_SPEC, match=r"tpu=v6e.*v5e.*valid: v6e"):
        inject_flavors(get_kind("Job"), job, assign("main", "v6e"), FLAVORS)
    assert read_flavor({"metadata": {"name": "plain"}, "spec": {}}) == {}


@pytest.mark.parametrize(
    ("marks", "pods"),
    [
        *(({}, (4, 4)), ({"min": "x"}, (4, 4)), ({"min": "1"}, (2, 4))),
        ({"min": "1", "completions-equal": "true"}, (2, 2)),
    ],
)
def test_a_job_that_is_admitted_in_part_has_the_pods_with_quota(marks: Json, pods: tuple[int, int]) -> None:
    annotations = {f"kueue.x-k8s.io/job-{key}-parallelism": value for key, value in marks.items()}
    spec = {"parallelism": 4, "completions": 4, "template": a_template()}
    job = {"metadata": {"annotations": annotations}, "spec": spec}

    found: Any = inject_flavors(get_kind("Job"), job, assign("main"), {})

    assert (found["spec"]["parallelism"], found["spec"]["completions"]) == pods


def test_only_our_check_is_written_and_only_on_the_version_that_was_read() -> None:
    state = CheckState(name="capacity", state="Retry", message="x" * 2000, since="2026-11-23T11:00:01Z", retries=2)

    body = format_state(read_queued(a_workload()), state, retry_seconds=60)

    assert (body["metadata"]["uid"], body["metadata"]["resourceVersion"]) == ("uid-of-workload", "7")
    (check,) = body["status"]["admissionChecks"]
    assert (check["name"], check["state"], check["requeueAfterSeconds"]) == ("capacity", "Retry", 60)
    assert len(check["message"]) == 1024
    assert "retryCount" not in check
