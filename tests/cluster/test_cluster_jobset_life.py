"""The life of a JobSet, from submission to its end, as a watcher of its objects sees it."""

from __future__ import annotations

import pytest
from cluster_objects import (
    TPU_SELECTOR,
    World,
    jobset,
    replicated_job,
)

from local.cluster.deletion import DeleteOptions, delete
from local.cluster.store.kinds import JOB, JOBSET, POD, SERVICE


def test_a_jobset_completes_when_all_its_jobs_have(world: World):
    world.submit(JOBSET, jobset("train", replicated_job(replicas=2)))
    world.add_pool("a")
    world.add_pool("b")
    world.set_phase("Running")
    assert world.jobset()["status"]["replicatedJobsStatus"][0]["ready"] == 2

    world.set_phase("Succeeded", job="train-slice-0")
    assert world.condition("Completed") is None
    world.set_phase("Succeeded", job="train-slice-1")

    status = world.jobset()["status"]
    assert status["terminalState"] == "Completed"
    condition = world.condition("Completed")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "AllJobsCompleted")
    assert status["replicatedJobsStatus"][0] == {
        "name": "slice",
        "ready": 0,
        "succeeded": 2,
        "failed": 0,
        "active": 0,
        "suspended": 0,
    }
    assert [[c["type"] for c in job["status"]["conditions"]] for job in world.jobs()] == [
        ["SuccessCriteriaMet", "Complete"],
    ] * 2
    assert len(world.pods()) == 4, "the pods of finished Jobs stay"


def test_a_success_policy_with_a_target_completes_while_other_jobs_run(world: World):
    policy = {"operator": "Any", "targetReplicatedJobs": ["head"]}
    world.submit(
        JOBSET,
        jobset(
            "train", replicated_job("head", pods=1), replicated_job("slice"), exclusive=False, successPolicy=policy
        ),
    )
    world.add_pool("a", nodes=3)
    world.set_phase("Running")
    changes: list[str] = []
    world.store.subscribe(lambda change: changes.append(f"{change.kind.kind} {change.type} {change.subject.name}"))

    world.set_phase("Succeeded", job="train-head-0")

    assert world.jobset()["status"]["terminalState"] == "Completed"
    terminal = changes.index("JobSet MODIFIED train")
    deleted = changes.index("Job MODIFIED train-slice-0", terminal)
    assert terminal < deleted, "terminal comes one pass before the active Jobs are deleted"
    terminating = [p for p in world.pods() if "deletionTimestamp" in p["metadata"]]
    assert len(terminating) == 2, "the pods of the slice are still within their grace"
    world.remove_terminating_pods()
    assert world.names(JOB) == ["train-head-0"]


def test_without_a_failure_policy_the_first_failed_job_fails_the_jobset(world: World):
    world.submit(JOBSET, jobset())
    world.add_pool("a")
    world.set_phase("Running")

    world.set_phase("Failed")

    condition = world.condition("Failed")
    assert condition is not None
    assert condition["reason"] == "FailedJobs"
    assert (
        condition["message"] == "jobset failed due to one or more job failures (first failed job: train-slice-0)"
    )
    assert world.jobset()["status"]["terminalState"] == "Failed"
    assert [c["type"] for c in world.jobs()[0]["status"]["conditions"]] == ["FailureTarget", "Failed"]


def test_a_restart_recreates_every_job_under_the_same_name_with_another_uid(world: World):
    policy = {"maxRestarts": 1}
    world.submit(JOBSET, jobset("train", replicated_job(replicas=2), failurePolicy=policy))
    world.add_pool("a")
    world.add_pool("b")
    world.set_phase("Running")
    before = {job["metadata"]["name"]: job["metadata"]["uid"] for job in world.jobs()}
    keys = {p["metadata"]["labels"]["jobset.sigs.k8s.io/job-key"] for p in world.pods()}

    world.set_phase("Failed", job="train-slice-0")
    restarting = world.condition("RestartingJobSet")
    assert restarting is not None
    assert (restarting["status"], restarting["reason"]) == ("True", "DefaultFailurePolicy")
    world.remove_terminating_pods()

    after = {job["metadata"]["name"]: job["metadata"]["uid"] for job in world.jobs()}
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values())
    assert world.jobset()["status"]["restarts"] == 1
    labels = [p["metadata"]["labels"] for p in world.pods()]
    assert {found["jobset.sigs.k8s.io/restart-attempt"] for found in labels} == {"1"}
    assert {found["jobset.sigs.k8s.io/job-key"] for found in labels} == keys

    world.set_phase("Running")
    restarting = world.condition("RestartingJobSet")
    assert restarting is not None
    assert (restarting["status"], restarting["reason"]) == ("False", "JobsReady")


def test_a_live_slice_can_have_no_pods_during_a_restart(world: World):
    world.submit(JOBSET, jobset("train", replicated_job(), failurePolicy={"maxRestarts": 3}))
    world.add_pool("a")
    world.set_phase("Running")
    fewest = len(world.pods())

    def count_pods(_: object) -> None:
        nonlocal fewest
        fewest = min(fewest, world.store.count(POD))

    world.store.subscribe(count_pods)
    world.set_phase("Failed")
    world.remove_terminating_pods()

    assert fewest == 0
    assert len(world.pods()) == 2
    assert "terminalState" not in world.jobset()["status"]


def test_max_restarts_reached_is_a_failure(world: World):
    world.submit(JOBSET, jobset("train", replicated_job(), failurePolicy={"maxRestarts": 1}))
    world.add_pool("a")
    for _ in range(2):
        world.set_phase("Running")
        world.set_phase("Failed")
        world.remove_terminating_pods()

    condition = world.condition("Failed")
    assert condition is not None
    assert condition["reason"] == "ReachedMaxRestarts"


@pytest.mark.parametrize(
    ("action", "restarts", "counted", "failed"),
    [
        ("FailJobSet", 0, 0, "FailJobSetFailurePolicyAction"),
        ("RestartJobSet", 1, 1, None),
        ("RestartJobSetAndIgnoreMaxRestarts", 1, 0, None),
    ],
)
def test_the_first_matching_rule_decides(
    world: World, action: str, restarts: int, counted: int, failed: str | None
):
    rules = [
        {"name": "other", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]},
        {"action": action, "targetReplicatedJobs": ["slice"], "onJobFailureReasons": ["BackoffLimitExceeded"]},
    ]
    world.submit(JOBSET, jobset("train", replicated_job(), failurePolicy={"maxRestarts": 5, "rules": rules}))
    world.add_pool("a")
    world.set_phase("Running")
    world.set_phase("Failed")

    status = world.jobset()["status"]
    assert status.get("restarts", 0) == restarts
    assert status.get("restartsCountTowardsMax", 0) == counted
    condition = world.condition("Failed")
    assert (condition["reason"] if condition else None) == failed
    if failed is None:
        restarting = world.condition("RestartingJobSet")
        assert restarting is not None
        assert restarting["reason"] == "FailurePolicy_failurePolicyRule1"


def test_blocking_recreate_waits_until_every_old_job_is_gone(world: World):
    policy = {"maxRestarts": 1, "restartStrategy": "BlockingRecreate"}
    world.submit(JOBSET, jobset("train", replicated_job(replicas=2), failurePolicy=policy))
    world.add_pool("a")
    world.add_pool("b")
    world.set_phase("Running")

    world.set_phase("Failed", job="train-slice-0")

    attempts = [job["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] for job in world.jobs()]
    assert attempts == ["0"], "slice 1 is still terminating, so slice 0 must not be back yet"
    world.remove_terminating_pods()
    attempts = [job["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] for job in world.jobs()]
    assert attempts == ["1", "1"]


def test_a_suspended_jobset_has_jobs_but_no_pods(world: World):
    world.submit(JOBSET, jobset("train", replicated_job(), suspend=True))

    assert world.pods() == []
    assert [job["spec"]["suspend"] for job in world.jobs()] == [True]
    condition = world.condition("Suspended")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "SuspendedJobs")
    assert world.jobset()["status"]["replicatedJobsStatus"][0]["suspended"] == 1


def test_suspending_stops_pods_and_resuming_brings_them_back(world: World):
    world.submit(JOBSET, jobset("train", replicated_job()))
    world.add_pool("a")
    world.set_phase("Running")
    job_uid = world.jobs()[0]["metadata"]["uid"]

    world.edit_jobset(suspend=True)
    world.remove_terminating_pods()
    assert world.pods() == []
    assert world.jobs()[0]["status"].get("failed", 0) == 0

    world.edit_jobset(suspend=False)
    assert world.indexes() == ["0", "1"]
    assert world.jobs()[0]["metadata"]["uid"] == job_uid
    assert world.pods()[0]["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] == "0"
    condition = world.condition("Suspended")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("False", "ResumeJobs")


def test_resuming_merges_selectors_and_never_removes_one(world: World):
    world.submit(JOBSET, jobset("train", replicated_job(), suspend=True))

    def resume_with(selector: dict[str, str]) -> None:
        body = world.jobset()
        body["spec"]["suspend"] = False
        template = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        template["spec"]["nodeSelector"] = selector
        world.registry.replace(JOBSET, "default", "train", body)
        world.settle()

    resume_with(TPU_SELECTOR | {"flavor": "a"})
    world.edit_jobset(suspend=True)
    resume_with(TPU_SELECTOR | {"zone": "b"})

    selector = world.jobs()[0]["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == TPU_SELECTOR | {"flavor": "a", "zone": "b"}


def test_a_time_to_live_deletes_the_jobset_in_the_foreground(world: World):
    world.submit(JOBSET, jobset("train", replicated_job(), ttlSecondsAfterFinished=60))
    world.add_pool("a")
    world.set_phase("Running")
    world.set_phase("Succeeded")
    changes: list[str] = []
    world.store.subscribe(lambda change: changes.append(f"{change.kind.kind} {change.type}"))

    world.settle(seconds=58)
    assert changes == []
    world.settle(seconds=5)

    assert world.names(JOBSET) == world.names(JOB) == world.names(POD) == []
    assert changes[0] == "JobSet MODIFIED"
    assert changes[-1] == "JobSet DELETED"


@pytest.mark.parametrize(
    ("policy", "left"),
    [(None, ""), ("Background", ""), ("Foreground", ""), ("Orphan", "jobs")],
)
def test_deleting_a_jobset_follows_the_propagation_policy(world: World, policy: str | None, left: str):
    world.submit(JOBSET, jobset())
    world.add_pool("a")
    world.set_phase("Running")
    seen: list[tuple[str, str, int]] = []

    def note(change: object) -> None:
        if getattr(change, "kind", None) is JOBSET:
            seen.append((change.type, change.subject.name, world.store.count(POD)))  # type: ignore[attr-defined]

    world.store.subscribe(note)
    stored = world.registry.get(JOBSET, "default", "train")
    delete(world.registry, stored, DeleteOptions(propagation_policy=policy))  # type: ignore[arg-type]
    world.settle()
    world.remove_terminating_pods()

    first, last = seen[0], seen[-1]
    assert last[0] == "DELETED"
    if policy == "Foreground":
        assert first[0] == "MODIFIED"
        assert last[2] == 0, "in the foreground the JobSet goes after its pods"
    if policy in {None, "Background"}:
        assert seen == [("DELETED", "train", 2)], "in the background the JobSet goes first"
    if left == "jobs":
        assert world.names(JOB) == ["train-slice-0"]
        assert len(world.pods()) == 2
        assert "ownerReferences" not in world.jobs()[0]["metadata"]
    else:
        assert world.names(JOB) == world.names(POD) == world.names(SERVICE) == []
