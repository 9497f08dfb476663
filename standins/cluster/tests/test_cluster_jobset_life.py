"""The life of a JobSet, from submission to its end, as a watcher of its objects sees it."""

from datetime import datetime
from typing import Any

import pytest

from standins.cluster.store.kinds import JOB, JOBSET, POD, SERVICE
from standins.cluster.tests.cluster_objects import TPU_SELECTOR, jobset, replicated_job
from standins.cluster.tests.cluster_world import Change, World

Json = dict[str, Any]
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
JOB_KEY = "jobset.sigs.k8s.io/job-key"


def run(world: World, body: Json, *, pools: int = 1, pods: int = 2) -> None:
    """Submit a JobSet and let all its pods run on pools of two nodes."""
    for pool in "abc"[:pools]:
        world.add_pool(pool)
    world.submit(JOBSET, body)
    world.start(pods)


def counters(world: World) -> Json:
    """The counters of the only replicated job."""
    (found,) = world.jobset()["status"]["replicatedJobsStatus"]
    return dict(found)


def attempts(world: World) -> list[str]:
    return [job["metadata"]["labels"][ATTEMPT] for job in world.jobs()]


def test_a_jobset_completes_when_all_its_jobs_have(world: World) -> None:
    run(world, jobset("train", replicated_job(replicas=2)), pools=2, pods=4)
    world.eventually(lambda: counters(world)["ready"], 2)

    world.set_phase("Succeeded", job="train-slice-0")
    world.eventually(lambda: counters(world)["succeeded"], 1)
    assert world.condition("Completed") is None
    world.set_phase("Succeeded", job="train-slice-1")

    world.eventually(world.terminal_state, "Completed")
    assert world.condition("Completed") == ("True", "AllJobsCompleted")
    over = {"name": "slice", "ready": 0, "succeeded": 2, "failed": 0, "active": 0, "suspended": 0}
    world.eventually(lambda: counters(world), over)
    assert [[c["type"] for c in job["status"]["conditions"]] for job in world.jobs()] == [
        ["SuccessCriteriaMet", "Complete"]
    ] * 2
    assert len(world.pods()) == 4, "the pods of finished Jobs stay"


def test_a_success_policy_with_a_target_completes_while_other_jobs_run(world: World) -> None:
    policy = {"operator": "All", "targetReplicatedJobs": ["head"]}
    jobs = (replicated_job("head", pods=1), replicated_job("slice"))
    run(world, jobset("train", *jobs, exclusive=False, successPolicy=policy), pools=2, pods=3)
    changes = world.record(JOBSET, JOB)

    world.set_phase("Succeeded", job="train-head-0")

    world.eventually(world.terminal_state, "Completed")
    world.eventually(lambda: len(world.terminating()), 2)
    seen = changes()
    terminal = next(c.version for c in seen if c.body.get("status", {}).get("terminalState"))
    going = next(c.version for c in seen if c.kind == "Job" and "deletionTimestamp" in c.body["metadata"])
    assert terminal < going, "terminal comes one pass before the active Jobs are deleted"
    assert world.names(JOB) == ["train-head-0", "train-slice-0"], "its pods are still within their grace"
    world.remove_terminating_pods(2)
    world.eventually(lambda: world.names(JOB), ["train-head-0"])


def test_without_a_failure_policy_the_first_failed_job_fails_the_jobset(world: World) -> None:
    run(world, jobset())

    world.set_phase("Failed")

    world.eventually(world.terminal_state, "Failed")
    condition = next(c for c in world.jobset()["status"]["conditions"] if c["type"] == "Failed")
    assert condition["reason"] == "FailedJobs"
    assert (
        condition["message"] == "jobset failed due to one or more job failures (first failed job: train-slice-0)"
    )
    assert [c["type"] for c in world.jobs()[0]["status"]["conditions"]] == ["FailureTarget", "Failed"]


def test_a_restart_recreates_every_job_under_the_same_name_with_another_uid(world: World) -> None:
    body = jobset("train", replicated_job(replicas=2), failurePolicy={"maxRestarts": 1})
    run(world, body, pools=2, pods=4)
    before = world.uids(JOB)
    keys = {p["metadata"]["labels"][JOB_KEY] for p in world.pods()}

    world.set_phase("Failed", job="train-slice-0")
    world.remove_terminating_pods(2, job="train-slice-1")

    world.eventually(lambda: attempts(world), ["1", "1"])
    world.start(pods=4)
    after = world.uids(JOB)
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values())
    assert world.jobset()["status"]["restarts"] == 1
    labels = [p["metadata"]["labels"] for p in world.pods()]
    assert {found[ATTEMPT] for found in labels} == {"1"}
    assert {found[JOB_KEY] for found in labels} == keys
    message = "applying RestartJobSet failure policy action (first failed job: train-slice-0)"
    world.eventually(lambda: ("RestartJobSetFailurePolicyAction", message) in world.events(), wanted=True)
    assert "conditions" not in world.jobset()["status"], "a restart is told by a counter and an Event only"


def test_a_live_slice_can_have_no_pods_during_a_restart(world: World) -> None:
    run(world, jobset("train", replicated_job(), failurePolicy={"maxRestarts": 3}))
    changes = world.record(POD)

    world.set_phase("Failed")
    world.eventually(lambda: attempts(world), ["1"])
    world.eventually(world.phases, ["Pending", "Pending"])

    assert fewest(2, changes()) == 0
    assert "terminalState" not in world.jobset()["status"]


def fewest(count: int, changes: list[Change]) -> int:
    """The smallest number of objects that there was at any time."""
    found = [count]
    for change in changes:
        found.append(found[-1] + {"ADDED": 1, "DELETED": -1}.get(change.type, 0))
    return min(found)


def test_max_restarts_reached_is_a_failure(world: World) -> None:
    run(world, jobset("train", replicated_job(), failurePolicy={"maxRestarts": 1}))
    world.set_phase("Failed")
    world.eventually(lambda: attempts(world), ["1"])
    world.start(pods=2)
    world.set_phase("Failed")

    world.eventually(lambda: world.condition("Failed"), ("True", "ReachedMaxRestarts"))


def test_blocking_recreate_waits_until_every_old_job_is_gone(world: World) -> None:
    policy = {"maxRestarts": 1, "restartStrategy": "BlockingRecreate"}
    body = jobset("train", replicated_job(replicas=2), failurePolicy=policy)
    run(world, body, pools=2, pods=4)

    world.set_phase("Failed", job="train-slice-0")

    world.eventually(lambda: len(world.terminating()), 2)
    world.eventually(lambda: attempts(world), ["0"])
    world.settle()
    assert attempts(world) == ["0"], "slice 1 is still terminating, so slice 0 must not be back yet"
    world.remove_terminating_pods(2, job="train-slice-1")
    world.eventually(lambda: attempts(world), ["1", "1"])


def test_a_suspended_jobset_has_jobs_but_no_pods(world: World) -> None:
    world.submit(JOBSET, jobset("train", replicated_job(), suspend=True))

    world.eventually(lambda: [job["spec"]["suspend"] for job in world.jobs()], [True])
    world.eventually(lambda: world.condition("Suspended"), ("True", "SuspendedJobs"))
    world.eventually(lambda: counters(world)["suspended"], 1)
    world.settle()
    assert world.pods() == []


def test_suspending_stops_pods_and_resuming_brings_them_back(world: World) -> None:
    run(world, jobset("train", replicated_job()))
    job_uids = world.uids(JOB)

    world.edit_jobset(suspend=True)
    world.remove_terminating_pods(2)
    world.eventually(world.pods, [])
    assert world.jobs()[0]["status"].get("failed", 0) == 0

    world.edit_jobset(suspend=False)
    world.eventually(world.indexes, ["0", "1"])
    assert world.uids(JOB) == job_uids
    assert world.pods()[0]["metadata"]["labels"][ATTEMPT] == "0"
    assert world.condition("Suspended") == ("False", "ResumeJobs")


def test_resuming_merges_selectors_and_never_removes_one(world: World) -> None:
    world.submit(JOBSET, jobset("train", replicated_job(), suspend=True))
    # The controller creates the Job first. A JobSet that resumes before it has the condition gets
    # none.
    world.eventually(lambda: world.condition("Suspended"), ("True", "SuspendedJobs"))

    def resume_with(selector: dict[str, str]) -> None:
        def change(body: Json) -> None:
            body["spec"]["suspend"] = False
            template = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
            template["spec"]["nodeSelector"] = selector

        world.edit(JOBSET, "train", change)
        world.eventually(lambda: world.condition("Suspended"), ("False", "ResumeJobs"))

    resume_with(TPU_SELECTOR | {"flavor": "a"})
    world.edit_jobset(suspend=True)
    world.eventually(lambda: world.condition("Suspended"), ("True", "SuspendedJobs"))
    resume_with(TPU_SELECTOR | {"zone": "b"})

    def selector() -> dict[str, str]:
        return dict(world.jobs()[0]["spec"]["template"]["spec"]["nodeSelector"])

    world.eventually(selector, TPU_SELECTOR | {"flavor": "a", "zone": "b"})


def test_a_time_to_live_deletes_the_jobset_in_the_foreground(world: World) -> None:
    run(world, jobset("train", replicated_job(), ttlSecondsAfterFinished=3))
    changes = world.record(JOBSET)
    world.set_phase("Succeeded")
    world.eventually(world.terminal_state, "Completed")
    assert len(world.pods()) == 2

    world.eventually(lambda: world.names(JOBSET) + world.names(JOB) + world.names(POD), [], within_seconds=4)
    going = next(c.body for c in changes() if "deletionTimestamp" in c.body["metadata"])
    assert going["metadata"]["finalizers"] == ["foregroundDeletion"]
    completed = next(c for c in going["status"]["conditions"] if c["type"] == "Completed")
    waited = datetime.fromisoformat(going["metadata"]["deletionTimestamp"]) - datetime.fromisoformat(
        completed["lastTransitionTime"]
    )
    assert waited.total_seconds() >= 3
    assert changes()[-1].type == "DELETED"


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_deleting_a_jobset_follows_the_propagation_policy(world: World, policy: str) -> None:
    run(world, jobset())
    changes = world.record(JOBSET, POD)

    world.delete(JOBSET, "train", propagation=policy)
    world.remove_terminating_pods(2)
    world.eventually(lambda: [world.names(kind) for kind in (JOBSET, JOB, POD, SERVICE)], [[], [], [], []])
    seen = changes()
    of_jobset = [change for change in seen if change.kind == "JobSet"]
    gone = of_jobset[-1]
    pods_then = fewest(2, [change for change in seen if change.kind == "Pod" and change.version < gone.version])
    assert gone.type == "DELETED"
    if policy == "Foreground":
        assert of_jobset[0].type == "MODIFIED"
        assert pods_then == 0, "in the foreground the JobSet goes after its pods"
    else:
        assert len(of_jobset) == 1
        assert pods_then == 2, "in the background the JobSet goes first"
