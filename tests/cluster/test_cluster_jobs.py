"""The Job controller and the garbage collector."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_objects import INDEX, World, node, pod

from local.cluster.controllers.indexes import format_indexes, parse_indexes
from local.cluster.deletion import BACKGROUND, BACKGROUND_NOW, DeleteOptions, delete
from local.cluster.errors import ApiError
from local.cluster.store.kinds import BY_PATH, JOB, NODE, POD

Json = dict[str, Any]

CONFIG_MAP = BY_PATH[("", "v1", "configmaps")]


def job(name: str = "j", **spec: Any) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c"}]}}
    return {"metadata": {"name": name}, "spec": {"template": template} | spec}


def indexed(pods: int, **spec: Any) -> Json:
    return job(completionMode="Indexed", parallelism=pods, completions=pods, **spec)


def set_phase(world: World, name: str, phase: str, **status: Any) -> None:
    body = {"status": world.body(POD, name)["status"] | {"phase": phase} | status}
    world.registry.replace(POD, "default", name, body, status_only=True)
    world.settle()


def conditions(world: World) -> dict[str, str]:
    found = world.body(JOB, "j")["status"].get("conditions", [])
    return {c["type"]: c.get("reason", "") for c in found if c["status"] == "True"}


def test_an_indexed_job_names_and_marks_its_pods(world: World):
    world.submit(JOB, indexed(2))

    first, second = world.pods()
    assert [p["metadata"]["name"].rsplit("-", 1)[0] for p in (first, second)] == ["j-0", "j-1"]
    labels = second["metadata"]["labels"]
    uid = world.body(JOB, "j")["metadata"]["uid"]
    assert labels["batch.kubernetes.io/controller-uid"] == labels["controller-uid"] == uid
    assert labels["batch.kubernetes.io/job-name"] == labels["job-name"] == "j"
    assert labels[INDEX] == second["metadata"]["annotations"][INDEX] == "1"
    assert second["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert second["metadata"]["ownerReferences"][0]["controller"] is True
    assert world.body(JOB, "j")["status"]["active"] == 2


def test_completed_indexes_are_not_run_again(world: World):
    world.submit(JOB, job(completionMode="Indexed", parallelism=2, completions=4))
    for name in world.names(POD):
        set_phase(world, name, "Succeeded")

    assert world.body(JOB, "j")["status"]["completedIndexes"] == "0,1"
    running = [p for p in world.pods() if p["status"]["phase"] == "Pending"]
    assert [p["metadata"]["annotations"][INDEX] for p in running] == ["2", "3"]
    assert all("finalizers" not in p["metadata"] for p in world.pods() if p["status"]["phase"] == "Succeeded")


def test_a_job_without_indexes_counts_completions(world: World):
    world.submit(JOB, job(parallelism=2, completions=3))
    while "Complete" not in conditions(world):
        pending = [p["metadata"]["name"] for p in world.pods() if p["status"]["phase"] == "Pending"]
        assert 0 < len(pending) <= 2
        set_phase(world, pending[0], "Succeeded")

    status = world.body(JOB, "j")["status"]
    assert status["succeeded"] == 3
    assert len(world.pods()) == 3
    assert status["completionTime"]


def test_a_failed_pod_is_replaced_after_a_back_off_up_to_the_limit(world: World):
    world.submit(JOB, indexed(1, backoffLimit=1))
    set_phase(world, world.names(POD)[0], "Failed")
    assert len(world.pods()) == 1, "the back-off is ten virtual seconds"
    world.settle(seconds=11)
    assert len(world.pods()) == 2

    waiting = next(p["metadata"]["name"] for p in world.pods() if p["status"]["phase"] == "Pending")
    set_phase(world, waiting, "Failed")

    assert conditions(world) == {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
    assert world.body(JOB, "j")["status"]["failed"] == 2


def test_a_failed_job_waits_for_its_other_pods_before_it_is_failed(world: World):
    world.submit(NODE, node("a", 0, taints=[]) | {"spec": {}})
    world.submit(JOB, indexed(2, backoffLimit=0))
    set_phase(world, world.names(POD)[0], "Failed")

    assert conditions(world) == {"FailureTarget": "BackoffLimitExceeded"}
    world.remove_terminating_pods()
    assert "Failed" in conditions(world)


def test_restarts_in_place_count_against_the_limit(world: World):
    body = indexed(1, backoffLimit=2)
    body["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    world.submit(JOB, body)
    (name,) = world.names(POD)
    for restarts, failed in ((1, False), (2, True)):
        container = {"name": "c", "image": "c", "imageID": "", "ready": True, "restartCount": restarts}
        set_phase(world, name, "Running", containerStatuses=[container])
        assert ("FailureTarget" in conditions(world)) == failed


def test_a_deleted_pod_counts_as_failed_and_is_replaced(world: World):
    world.submit(JOB, indexed(1, backoffLimit=3))
    uid = world.pods()[0]["metadata"]["uid"]
    delete(world.registry, world.registry.get(POD, "default", world.names(POD)[0]), BACKGROUND)
    world.settle(seconds=11)

    assert world.body(JOB, "j")["status"]["failed"] == 1
    assert [p["metadata"]["uid"] == uid for p in world.pods()] == [False]


def test_replacement_can_wait_until_the_old_pod_is_gone(world: World):
    world.submit(NODE, node("a", 0) | {"spec": {}})
    world.submit(JOB, indexed(1, podReplacementPolicy="Failed", backoffLimit=3))
    delete(world.registry, world.registry.get(POD, "default", world.names(POD)[0]), BACKGROUND)
    world.settle(seconds=20)
    assert len(world.pods()) == 1
    assert world.body(JOB, "j")["status"]["terminating"] == 1

    set_phase(world, world.names(POD)[0], "Failed")
    world.remove_terminating_pods()
    world.settle(seconds=20)

    assert [p["status"]["phase"] for p in world.pods()] == ["Pending"]


def test_a_deadline_fails_the_job(world: World):
    world.submit(JOB, indexed(1, activeDeadlineSeconds=100))
    world.settle(seconds=90)
    assert conditions(world) == {}
    world.settle(seconds=15)

    assert conditions(world)["Failed"] == "DeadlineExceeded"


def test_a_time_to_live_removes_the_job(world: World):
    world.submit(JOB, indexed(1, ttlSecondsAfterFinished=10))
    set_phase(world, world.names(POD)[0], "Succeeded")
    world.settle(seconds=12)

    assert world.names(JOB) == world.names(POD) == []


def test_scaling_down_removes_the_highest_indexes(world: World):
    world.submit(JOB, indexed(4))
    body = world.body(JOB, "j")
    body["spec"] |= {"parallelism": 2, "completions": 2}
    world.registry.replace(JOB, "default", "j", body)
    world.settle()

    assert world.indexes() == ["0", "1"]


def test_deleting_a_job_through_the_bare_api_orphans_its_pods(world: World):
    world.submit(JOB, indexed(1))
    delete(world.registry, world.registry.get(JOB, "default", "j"), DeleteOptions())
    world.settle()

    (left,) = world.pods()
    assert world.names(JOB) == []
    assert "ownerReferences" not in left["metadata"]
    assert "finalizers" not in left["metadata"]


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"completionMode": "Indexed"}, "spec.completions: Required value"),
        ({"parallelism": "two"}, "spec.parallelism"),
        ({"template": {"spec": {"containers": [{"name": "c"}]}}}, 'Unsupported value: "Always"'),
        ({"template": {"spec": {"restartPolicy": "Never"}}}, "at least one container"),
    ],
)
def test_a_wrong_job_is_refused(world: World, spec: Json, complaint: str):
    body = job()
    body["spec"] |= {"parallelism": 1} | spec

    with pytest.raises(ApiError) as refusal:
        world.registry.create(JOB, body, "default")
    assert complaint in refusal.value.message


def test_dependents_of_a_missing_owner_are_collected(world: World):
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "never-was"}
    body = {"metadata": {"name": "a", "ownerReferences": [owner]}}
    foreign = {
        "metadata": {"name": "b", "ownerReferences": [owner | {"kind": "RayCluster", "apiVersion": "ray.io/v1"}]}
    }
    world.registry.create(CONFIG_MAP, body, "default")
    world.registry.create(CONFIG_MAP, foreign, "default")
    world.settle()

    assert world.names(CONFIG_MAP) == ["b"], "an owner of a kind that is not served may well exist"


def test_an_object_with_two_owners_outlives_the_first(world: World):
    owners = []
    for name in ("x", "y"):
        created = world.submit(CONFIG_MAP, {"metadata": {"name": name}})
        uid = created["metadata"]["uid"]
        owners.append({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid})
    world.submit(CONFIG_MAP, {"metadata": {"name": "child", "ownerReferences": owners}})

    delete(world.registry, world.registry.get(CONFIG_MAP, "default", "x"), BACKGROUND)
    world.settle()
    assert [o["name"] for o in world.body(CONFIG_MAP, "child")["metadata"]["ownerReferences"]] == ["y"]
    delete(world.registry, world.registry.get(CONFIG_MAP, "default", "y"), BACKGROUND)
    world.settle()
    assert world.names(CONFIG_MAP) == []


def test_a_forced_delete_cuts_the_grace_short(world: World):
    world.submit(NODE, node("a", 0) | {"spec": {}})
    world.submit(POD, pod("p", terminationGracePeriodSeconds=60))
    going, gone = delete(world.registry, world.registry.get(POD, "default", "p"), BACKGROUND)
    assert (going.body()["metadata"]["deletionGracePeriodSeconds"], gone) == (60, False)

    assert delete(world.registry, world.registry.get(POD, "default", "p"), BACKGROUND_NOW)[1] is True


@pytest.mark.parametrize("text", ["", "0", "0,1", "0-2", "0,1,3-5,9"])
def test_completed_indexes_are_read_and_written_alike(text: str):
    assert format_indexes(parse_indexes(text)) == text
