"""The Job controller and the garbage collector."""

from datetime import datetime
from typing import Any

import pytest

from standins.cluster.objects.label_names import JOB_TRACKING
from standins.cluster.store.kinds import CONFIG_MAP, JOB, NODE, POD
from standins.cluster.tests.cluster_objects import INDEX, node
from standins.cluster.tests.cluster_world import Refused, World

Json = dict[str, Any]


def job(name: str = "j", **spec: Any) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c"}]}}
    return {"metadata": {"name": name}, "spec": {"template": template} | spec}


def indexed(pods: int, **spec: Any) -> Json:
    return job(completionMode="Indexed", parallelism=pods, completions=pods, **spec)


def template(**spec: Any) -> Json:
    return {"template": {"spec": {"containers": [{"name": "c", "image": "c"}]} | spec}}


def submit(world: World, body: Json, pods: int) -> None:
    """Create a Job and wait for its pods."""
    world.submit(JOB, body)
    world.eventually(lambda: len(world.pods()), pods)


def conditions(world: World) -> dict[str, str]:
    return world.true_conditions(JOB, "j")


def seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def test_an_indexed_job_names_and_marks_its_pods(world: World) -> None:
    submit(world, indexed(2), pods=2)

    first, second = world.pods()
    assert [p["metadata"]["name"].rsplit("-", 1)[0] for p in (first, second)] == ["j-0", "j-1"]
    labels = second["metadata"]["labels"]
    uid = world.body(JOB, "j")["metadata"]["uid"]
    assert labels["batch.kubernetes.io/controller-uid"] == labels["controller-uid"] == uid
    assert labels["batch.kubernetes.io/job-name"] == labels["job-name"] == "j"
    assert labels[INDEX] == second["metadata"]["annotations"][INDEX] == "1"
    assert second["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert second["metadata"]["ownerReferences"][0]["controller"] is True
    world.eventually(lambda: world.body(JOB, "j")["status"]["active"], 2)


def test_completed_indexes_are_not_run_again(world: World) -> None:
    submit(world, job(completionMode="Indexed", parallelism=2, completions=4), pods=2)
    for name in world.names(POD):
        world.set_phase("Succeeded", pod=name)

    def pending() -> list[str]:
        found = [p for p in world.pods() if p["status"]["phase"] == "Pending"]
        return [p["metadata"]["annotations"][INDEX] for p in found]

    def done() -> list[bool]:
        return ["finalizers" in p["metadata"] for p in world.pods() if p["status"]["phase"] == "Succeeded"]

    world.eventually(lambda: world.body(JOB, "j")["status"]["completedIndexes"], "0,1")
    world.eventually(pending, ["2", "3"])
    world.eventually(done, [False, False])


def test_a_job_without_indexes_counts_completions(world: World) -> None:
    submit(world, job(parallelism=2, completions=3), pods=2)
    for succeeded in (1, 2, 3):
        pending = [p["metadata"]["name"] for p in world.pods() if p["status"]["phase"] == "Pending"]
        assert 0 < len(pending) <= 2
        world.set_phase("Succeeded", pod=pending[0])
        world.eventually(lambda: world.body(JOB, "j")["status"]["succeeded"], succeeded)

    world.eventually(lambda: "Complete" in conditions(world), wanted=True)
    assert len(world.pods()) == 3
    assert world.body(JOB, "j")["status"]["completionTime"]


def test_a_failed_pod_is_replaced_after_a_back_off_up_to_the_limit(world: World) -> None:
    submit(world, indexed(1, backoffLimit=1), pods=1)
    world.set_phase("Failed")
    world.eventually(lambda: sorted(world.phases()), ["Failed", "Pending"], within_seconds=13)
    made = sorted(datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) for pod in world.pods())
    assert (made[1] - made[0]).total_seconds() >= 9, "the back-off is ten seconds, and times are whole"

    world.set_phase("Failed")

    limit = "BackoffLimitExceeded"
    world.eventually(lambda: conditions(world), {"FailureTarget": limit, "Failed": limit})
    assert world.body(JOB, "j")["status"]["failed"] == 2


def test_restarts_in_place_count_against_the_limit(world: World) -> None:
    body = indexed(1, backoffLimit=2)
    body["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    submit(world, body, pods=1)
    for restarts, failed in ((1, False), (2, True)):
        container = {"name": "c", "image": "c", "imageID": "", "ready": True, "restartCount": restarts}
        world.set_phase("Running", containerStatuses=[container])
        world.settle()
        world.eventually(lambda: "FailureTarget" in conditions(world), wanted=failed)


def test_a_deleted_pod_counts_as_failed_and_is_replaced(world: World) -> None:
    submit(world, indexed(1, backoffLimit=3), pods=1)
    (uid,) = world.uids(POD).values()
    world.delete(POD, world.names(POD)[0], propagation="Background")

    world.eventually(lambda: [found == uid for found in world.uids(POD).values()], [False], within_seconds=11)
    world.eventually(lambda: world.body(JOB, "j")["status"]["failed"], 1)


def test_a_time_to_live_removes_the_job(world: World) -> None:
    submit(world, indexed(1, ttlSecondsAfterFinished=2), pods=1)
    changes = world.record(JOB)
    world.set_phase("Succeeded")

    world.eventually(lambda: world.names(JOB) + world.names(POD), [], within_seconds=3)
    last = next(change.body for change in changes() if "deletionTimestamp" in change.body["metadata"])
    assert seconds_between(last["status"]["completionTime"], last["metadata"]["deletionTimestamp"]) >= 2


def test_scaling_down_removes_the_highest_indexes(world: World) -> None:
    submit(world, indexed(4), pods=4)
    world.edit(JOB, "j", lambda body: body["spec"].update(parallelism=2, completions=2))

    world.eventually(world.indexes, ["0", "1"])


def test_how_the_pods_of_a_suspended_job_end_counts_for_nothing_though_it_is_resumed_meanwhile(
    world: World,
) -> None:
    world.submit(NODE, node("a", 0) | {"spec": {}})
    submit(world, indexed(2, backoffLimit=0), pods=2)
    world.start(pods=2)
    changes = world.record(POD)
    world.edit(JOB, "j", lambda body: body["spec"].update(suspend=True))
    world.eventually(lambda: world.body(JOB, "j")["status"].get("terminating"), 2)

    terminating = [
        change.body["metadata"] for change in changes() if "deletionTimestamp" in change.body["metadata"]
    ]
    assert {found["name"] for found in terminating} == set(world.names(POD))
    assert not any(JOB_TRACKING in found.get("finalizers", []) for found in terminating), (
        "let go before it is deleted"
    )

    world.edit(JOB, "j", lambda body: body["spec"].update(suspend=False))
    for name in sorted({found["name"] for found in terminating}):
        world.set_phase("Failed", pod=name)
    world.remove_terminating_pods(2)
    world.eventually(world.phases, ["Pending", "Pending"], within_seconds=20)
    assert world.body(JOB, "j")["status"].get("failed", 0) == 0
    assert conditions(world) == {}


def test_deleting_a_job_through_the_bare_api_orphans_its_pods(world: World) -> None:
    submit(world, indexed(1), pods=1)
    world.delete(JOB, "j")

    world.eventually(lambda: world.names(JOB), [])
    world.eventually(lambda: ["finalizers" in p["metadata"] for p in world.pods()], [False])
    (left,) = world.pods()
    assert "ownerReferences" not in left["metadata"]


@pytest.mark.parametrize(
    ("spec", "code", "complaint"),
    [
        ({"completionMode": "Indexed"}, 422, "spec.completions: Required value"),
        ({"parallelism": "two"}, 400, "spec.parallelism"),
        (template(restartPolicy="Always"), 422, "spec.template.spec.restartPolicy: Required value"),
        (
            template(restartPolicy="Never", nodeSelector={"a b": "c"}),
            422,
            'spec.template.spec.nodeSelector: Invalid value: "a b": name part must consist of alphanumeric',
        ),
        ({"template": {"spec": {"restartPolicy": "Never"}}}, 422, "spec.template.spec.containers: Required value"),
    ],
)
def test_a_wrong_job_is_refused(world: World, spec: Json, code: int, complaint: str) -> None:
    body = job()
    body["spec"] |= {"parallelism": 1} | spec

    with pytest.raises(Refused) as refusal:
        world.create(JOB, body)
    assert complaint in refusal.value.message
    assert refusal.value.code == code


def test_dependents_of_a_missing_owner_are_collected(world: World) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "never-was"}
    body = {"metadata": {"name": "a", "ownerReferences": [owner]}}
    foreign = {
        "metadata": {"name": "b", "ownerReferences": [owner | {"kind": "RayCluster", "apiVersion": "ray.io/v1"}]}
    }
    world.submit(CONFIG_MAP, body)
    world.submit(CONFIG_MAP, foreign)

    world.eventually(lambda: world.names(CONFIG_MAP), ["b"])
    world.settle()
    assert world.names(CONFIG_MAP) == ["b"], "an owner of a kind that is not served may well exist"
