"""Kueue's objects, read from JSON as Kueue 0.15 writes it, and what is written back."""

import copy
from typing import Any

import pytest

from shared.edges.kueue import (
    CONTROLLER,
    format_active,
    format_state,
    inject_flavors,
    read_check,
    read_flavor,
    read_queued,
)
from shared.kinds.objects import UnexpectedValue
from shared.kinds.table import KIND_NAMES, get_kind
from shared.model import labels
from shared.model.decisions import Reason
from shared.model.kueue import Check, CheckState, QueuedWorkload
from shared.model.times import parse_time
from tests.refusals import refuses

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
        "spec": {
            "active": True,
            "podSets": [
                {"name": "workers", "template": {"metadata": {}}},
                {"name": "marked", "template": {"metadata": {"labels": {labels.CAPACITY_CHECKED: "mine"}}}},
            ],
        },
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
    assert queued.unmarked == ("workers",)
    assert queued.find_pending(["capacity"]) == queued.checks[1]
    assert queued.find_pending(["other", "unknown"]) is None


@pytest.mark.parametrize(
    ("body", "holds"),
    [
        (a_workload(), True),
        (a_workload(conditions={"QuotaReserved": "True", "Admitted": "True"}), True),
        (a_workload(conditions={"QuotaReserved": "True", "Evicted": "False"}), True),
        (a_workload(conditions={}), False),
        (a_workload(conditions={"QuotaReserved": "False"}), False),
        (a_workload(conditions={"QuotaReserved": "True", "Evicted": "True"}), False),
        (a_workload(conditions={"QuotaReserved": "True", "Finished": "True"}), False),
        (a_workload(deletionTimestamp="2026-11-23T11:00:00Z"), False),
        (a_workload(checks=[CHECKS[0], CHECKS[1] | {"state": "Retry"}]), False),
        (a_workload(checks=[CHECKS[0] | {"state": "Rejected"}, CHECKS[1]]), False),
        (a_workload() | {"spec": a_workload()["spec"] | {"active": False}}, False),
    ],
)
def test_quota_counts_until_it_is_about_to_be_lost(body: Json, holds: bool) -> None:
    assert read_queued(body).holds_quota is holds


@pytest.mark.parametrize(
    ("conditions", "since"),
    [
        ({"QuotaReserved": "True"}, None),
        ({"QuotaReserved": "True", "Evicted": "False"}, None),
        ({"QuotaReserved": "False"}, "2026-11-23T11:00:00Z"),
        ({"QuotaReserved": "True", "Evicted": "True"}, "2026-11-23T11:00:00Z"),
    ],
)
def test_the_loss_of_quota_has_its_time(conditions: dict[str, str], since: str | None) -> None:
    assert read_queued(a_workload(conditions=conditions)).lost_at == parse_time(since)


def test_a_workload_of_a_wrong_type_is_an_error_that_names_the_field() -> None:
    with pytest.raises(UnexpectedValue, match=r"status\.admissionChecks"):
        read_queued(a_workload() | {"status": {"admissionChecks": "x"}})


def test_a_check_of_another_controller_is_not_ours() -> None:
    spec = {"metadata": {"name": "x"}, "spec": {"controllerName": CONTROLLER}}
    active = {"status": {"conditions": [{"type": "Active", "status": "True", "message": "answered"}]}}

    assert read_check(spec) == Check(name="x", active=False)
    assert read_check(spec | active) == Check(name="x", active=True, words="answered")
    assert read_check({"metadata": {"name": "x"}, "spec": {"controllerName": "kueue.x-k8s.io/multikueue"}}) is None


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


BODIES: dict[str, tuple[Json, str, tuple[str | int, ...]]] = {
    "Job": ({"spec": {"template": a_template()}}, "main", ("spec", "template")),
    "JobSet": (
        {"spec": {"replicatedJobs": [{"name": "Workers", "template": {"spec": {"template": a_template()}}}]}},
        "workers",
        ("spec", "replicatedJobs", 0, "template", "spec", "template"),
    ),
    "RayCluster": (
        {
            "spec": {
                "headGroupSpec": {"template": {"spec": {}}},
                "workerGroupSpecs": [{"groupName": "Group", "template": a_template()}],
            }
        },
        "group",
        ("spec", "workerGroupSpecs", 0, "template"),
    ),
}


@pytest.mark.parametrize("kind", BODIES)
def test_the_flavors_of_a_pod_set_come_into_its_pod_template(kind: str) -> None:
    body, pod_set, path = BODIES[kind]
    before = copy.deepcopy(body)

    found: Any = inject_flavors(get_kind(kind), body, assign(pod_set, "v6e", "big"), FLAVORS)

    for step in path:
        found = found[step]
    assert found["spec"]["nodeSelector"] == {"tpu": "v6e", "memory": "big"}
    assert found["spec"]["tolerations"] == [{"key": "mine"}, {"key": "spot", "operator": "Exists"}]
    assert body == before


def test_every_kind_with_pod_sets_is_tested_here() -> None:
    with_sets = {name for name in KIND_NAMES if get_kind(name).queued}

    assert with_sets == set(BODIES)


def test_a_flavor_that_contradicts_a_template_is_refused_with_both_values_and_one_may_say_nothing() -> None:
    job = {"spec": {"template": a_template(tpu="v5e")}}

    with refuses(Reason.POD_CONTRADICTS_SPEC, match=r"tpu=v6e.*v5e.*valid: v6e"):
        inject_flavors(get_kind("Job"), job, assign("main", "v6e"), FLAVORS)
    assert read_flavor({"metadata": {"name": "plain"}, "spec": {}}) == {}


@pytest.mark.parametrize(
    ("marks", "pods"),
    [
        ({}, (4, 4)),
        ({"min": "x"}, (4, 4)),
        ({"min": "1"}, (2, 4)),
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
    assert "podSetUpdates" not in check
    assert "retryCount" not in check


def test_pods_that_are_admitted_get_our_label_unless_they_have_it() -> None:
    state = CheckState(name="capacity", state="Ready", since="2026-11-23T11:00:01Z")

    (check,) = format_state(read_queued(a_workload()), state)["status"]["admissionChecks"]

    assert check["podSetUpdates"] == [{"name": "workers", "labels": {labels.CAPACITY_CHECKED: "true"}}]


@pytest.mark.parametrize("text", ["0", "59", "86401", "-60", "30m", "", "9" * 5000])
def test_a_check_whose_time_is_no_time_is_not_active_and_says_what_is_valid(text: str) -> None:
    annotations = {labels.CAPACITY_CHECK_SECONDS: text}
    body = {"metadata": {"name": "x", "annotations": annotations}, "spec": {"controllerName": CONTROLLER}}

    check = read_check(body)

    assert check is not None
    assert not check.is_marked
    (condition,) = format_active(check, "2026-11-23T11:00:00Z")["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "InvalidAnnotation")
    assert "capacity-check-seconds" in condition["message"]
    assert condition["message"].endswith("valid: 60 to 86400 seconds")
    again = read_check(body | {"status": {"conditions": [condition]}})
    assert again is not None
    assert again.is_marked


@pytest.mark.parametrize(("text", "seconds"), [("60", 60), ("86400", 86_400), (None, 1800)])
def test_a_check_says_for_how_long_a_part_of_the_pools_is_held(text: str | None, seconds: int) -> None:
    annotations = {labels.CAPACITY_CHECK_SECONDS: text} if text else {}
    body = {"metadata": {"name": "x", "annotations": annotations}, "spec": {"controllerName": CONTROLLER}}

    check = read_check(body)

    assert check is not None
    assert (check.seconds, check.problem) == (seconds, "")


def test_an_active_check_says_which_generation_of_it_was_seen() -> None:
    body = format_active(Check(name="capacity", active=False, generation=3), "2026-11-23T11:00:00Z")

    (condition,) = body["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["observedGeneration"]) == ("Active", "True", 3)
