"""What a quiet workload lacks, in whose words: from its Jobs, its pods and the cluster's Events."""

from typing import Any

import pytest

from demo.loop.progress import NO_JOBS, NO_PODS
from demo.loop.standing import Standing, read_standing

Json = dict[str, Any]
JOBSET = {
    "metadata": {"name": "train", "uid": "set"},
    "spec": {"replicatedJobs": [{"name": "driver"}, {"name": "slice", "replicas": 2}]},
}
QUOTA = 'pods "train-slice-0-0-x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1'


def job(name: str, pods: int = 1, **spec: object) -> Json:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"parallelism": pods, "completions": pods, **spec},
    }


def pod(job: str, *, node: str = "", phase: str = "Pending") -> Json:
    labels = {"batch.kubernetes.io/job-name": job}
    return {"metadata": {"labels": labels}, "spec": {"nodeName": node}, "status": {"phase": phase}}


def event(about: str, message: str, *, reason: str = "FailedCreate", at: str = "2026-01-01T00:00:01Z") -> Json:
    return {"involvedObject": {"uid": about}, "reason": reason, "message": message, "lastTimestamp": at}


JOBS = [job("train-driver-0"), job("train-slice-0", 2), job("train-slice-1", 2)]
PODS = [pod(each["metadata"]["name"], node="n") for each in JOBS for _ in range(each["spec"]["parallelism"])]


def lacks(standing: Standing) -> list[tuple[str, str, str]]:
    return [(each.reason, each.job, each.message) for each in standing.lacks]


def test_a_workload_that_has_everything_lacks_nothing() -> None:
    assert read_standing(JOBSET, JOBS, PODS, [event("set", "old news")]).lacks == ()


def test_no_jobs_are_explained_by_the_latest_event_about_the_jobset_in_one_line() -> None:
    events = [
        event("set", "newest:\n  a Job is invalid", reason="JobCreationFailed", at="2026-01-01T00:00:09Z"),
        event("set", "older", reason="JobCreationFailed", at="2026-01-01T00:00:02Z"),
        event("another", "not about it", reason="JobCreationFailed", at="2026-01-01T00:00:10Z"),
    ]
    expected = "no Jobs: JobCreationFailed: newest: a Job is invalid"
    assert lacks(read_standing(JOBSET, [], [], events)) == [(NO_JOBS, "", expected)]


def test_jobs_of_which_some_are_there_are_counted() -> None:
    (lack,) = read_standing(JOBSET, [JOBS[0]], [PODS[0]], [event("set", "why")]).lacks
    assert lack.message == "1 of 3 Jobs: FailedCreate: why"


def test_a_job_without_pods_is_explained_by_its_own_event() -> None:
    events = [event("uid-train-slice-0", f"Error creating: {QUOTA}"), event("set", "another matter")]
    standing = read_standing(JOBSET, JOBS, [pod("train-driver-0"), *PODS[3:]], events)
    expected = f"no pods: FailedCreate: Error creating: {QUOTA}"
    assert lacks(standing) == [(NO_PODS, "train-slice-0", expected)]


def test_followers_that_are_refused_while_their_leader_runs_are_counted() -> None:
    pods = [PODS[0], PODS[1], *PODS[3:]]
    (lack,) = read_standing(JOBSET, JOBS, pods, [event("uid-train-slice-0", QUOTA)]).lacks
    assert (lack.job, lack.missing) == ("train-slice-0", "1 of 2 pods")


def test_followers_that_wait_for_an_unbound_leader_are_not_lacking() -> None:
    pods = [PODS[0], pod("train-slice-0"), *PODS[3:]]
    held_back = event("uid-train-slice-0", "leader pod not yet scheduled, not creating follower pod")
    assert read_standing(JOBSET, JOBS, pods, [held_back]).lacks == ()


@pytest.mark.parametrize("state", ["suspended", "complete"])
def test_a_job_that_is_suspended_or_ends_needs_no_pods(state: str) -> None:
    one = job("train-slice-0", 2, suspend=state == "suspended")
    if state == "complete":
        one["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    standing = read_standing(JOBSET, [JOBS[0], one, JOBS[2]], [PODS[0], *PODS[3:]], [event("set", QUOTA)])
    assert standing.lacks == ()


def test_what_no_event_explains_is_a_lack_without_words() -> None:
    other = event("set", "that is no refusal", reason="BackOff")
    (lack,) = read_standing(JOBSET, [], [], [other]).lacks
    assert (lack.event, lack.message) == ("", "no Jobs, and no Event gives the reason")


def test_an_event_of_the_newer_form_counts_by_its_own_time() -> None:
    newer = event("set", "newer") | {"lastTimestamp": None, "eventTime": "2026-01-01T00:00:05.000000Z"}
    (lack,) = read_standing(JOBSET, [], [], [newer, event("set", "older")]).lacks
    assert lack.event == "FailedCreate: newer"


def test_endless_words_are_cut() -> None:
    (lack,) = read_standing(JOBSET, [], [], [event("set", "x" * 5000)]).lacks
    assert len(lack.event) < 500
    assert lack.event.endswith("…")


@pytest.mark.parametrize(
    ("node", "phase", "runs"),
    [("n", "Running", True), ("n", "Pending", True), ("", "Pending", False), ("n", "Succeeded", False)],
)
def test_a_workload_runs_while_a_pod_of_it_has_a_node_and_is_not_over(node: str, phase: str, runs: bool) -> None:
    assert read_standing(JOBSET, JOBS, [pod("train-driver-0", node=node, phase=phase)], []).runs is runs
