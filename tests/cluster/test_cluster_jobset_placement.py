"""What a JobSet becomes: its Jobs, its pods, their labels, and where they are placed; and what is refused."""

from __future__ import annotations

import hashlib

import pytest
from cluster_objects import (
    EXCLUSIVE,
    INDEX,
    NODE_SELECTOR_STRATEGY,
    POOL,
    World,
    jobset,
    replicated_job,
)

from local.cluster.errors import ApiError
from local.cluster.store.kinds import JOB, JOBSET, NODE, POD, SERVICE


def test_without_capacity_there_is_one_unschedulable_leader_for_each_slice(world: World):
    world.submit(JOBSET, jobset("train", replicated_job(replicas=2, pods=4)))

    pods = world.pods()
    assert world.indexes() == ["0", "0"]
    for pod in pods:
        (condition,) = pod["status"]["conditions"]
        assert condition["type"] == "PodScheduled"
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert condition["message"] == "no nodes available to schedule pods"
    assert "FailedCreate" in world.reasons()


def test_a_leader_carries_the_labels_by_which_its_slice_is_known(world: World):
    uid = world.submit(JOBSET, jobset("train", replicated_job("cpu"), replicated_job(replicas=2)))["metadata"][
        "uid"
    ]

    leader = next(p for p in world.pods() if p["metadata"]["name"].startswith("train-slice-1-0-"))
    prefix = "jobset.sigs.k8s.io/"
    labels = {k.removeprefix(prefix): v for k, v in leader["metadata"]["labels"].items() if k.startswith(prefix)}
    assert labels == {
        "jobset-name": "train",
        "jobset-uid": uid,
        "replicatedjob-name": "slice",
        "replicatedjob-replicas": "2",
        "global-replicas": "3",
        "job-index": "1",
        "job-global-index": "2",
        "job-key": hashlib.sha1(b"default/train-slice-1").hexdigest(),
        "group-name": "default",
        "group-replicas": "3",
        "job-group-index": "2",
        "restart-attempt": "0",
        "priority": "0",
    }
    annotations = leader["metadata"]["annotations"]
    assert all(annotations[prefix + key] == value for key, value in labels.items() if key != "priority")
    assert annotations[EXCLUSIVE] == POOL
    assert annotations[INDEX] == leader["metadata"]["labels"][INDEX] == "0"


@pytest.mark.parametrize("level", ["jobset", "job", "pod"])
def test_exclusive_placement_is_honoured_at_every_level(world: World, level: str):
    body = jobset(exclusive=level == "jobset")
    template = body["spec"]["replicatedJobs"][0]["template"]
    if level == "job":
        template["metadata"] = {"annotations": {EXCLUSIVE: POOL}}
    if level == "pod":
        template["spec"]["template"]["metadata"] = {"annotations": {EXCLUSIVE: POOL}}
    world.submit(JOBSET, body)

    assert world.indexes() == ["0"]


def test_without_the_annotation_all_pods_exist_at_once(world: World):
    world.submit(JOBSET, jobset("train", replicated_job(pods=3), exclusive=False))

    assert world.indexes() == ["0", "1", "2"]


def test_followers_are_created_where_their_leader_is_bound(world: World):
    world.submit(JOBSET, jobset("train", replicated_job(replicas=2, pods=4)))
    world.add_pool("a", nodes=4)

    first = [p for p in world.pods() if p["metadata"]["labels"]["jobset.sigs.k8s.io/job-index"] == "0"]
    assert [p["spec"].get("nodeName", "")[:2] for p in first] == ["a-"] * 4
    assert [p["spec"]["nodeSelector"].get(POOL) for p in first] == [None, "a", "a", "a"]
    assert len(world.pods()) == 5

    world.add_pool("b", nodes=4)

    assert {job: nodes[:1] for job, nodes in world.bound().items()} == {
        f"train-slice-{job}-{index}": pool for job, pool in ((0, "a"), (1, "b")) for index in range(4)
    }


def test_two_slices_do_not_share_a_pool_that_has_room_for_both(world: World):
    world.submit(JOBSET, jobset("train", replicated_job(replicas=2, pods=2)))
    world.add_pool("a", nodes=4)

    (waiting,) = [p for p in world.pods() if not p["spec"].get("nodeName")]
    message = waiting["status"]["conditions"][0]["message"]
    assert "node(s) didn't match pod anti-affinity rules" in message


def test_the_template_of_a_running_jobset_is_immutable(world: World):
    world.submit(JOBSET, jobset())
    body = world.jobset()
    body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"a": "b"}

    with pytest.raises(ApiError, match="field is immutable"):
        world.registry.replace(JOBSET, "default", "train", body)


@pytest.mark.parametrize("status", ["Ready", "Complete"])
def test_a_replicated_job_waits_for_the_one_it_depends_on(world: World, status: str):
    driver = replicated_job("driver", pods=1)
    worker = replicated_job("worker", dependsOn=[{"name": "driver", "status": status}])
    world.submit(JOBSET, jobset("train", driver, worker, exclusive=False))
    world.add_pool("a", nodes=3)
    assert world.names(JOB) == ["train-driver-0"]

    world.set_phase("Running")
    assert ("train-worker-0" in world.names(JOB)) == (status == "Ready")
    world.set_phase("Succeeded", job="train-driver-0")

    assert world.names(JOB) == ["train-driver-0", "train-worker-0"]


def test_in_order_start_goes_from_one_replicated_job_to_the_next(world: World):
    order = {"startupPolicyOrder": "InOrder"}
    world.submit(
        JOBSET,
        jobset("train", replicated_job("first"), replicated_job("second"), exclusive=False, startupPolicy=order),
    )
    world.add_pool("a", nodes=4)
    assert world.names(JOB) == ["train-first-0"]
    progress = world.condition("StartupPolicyInProgress")
    assert progress is not None
    assert progress["status"] == "True"

    world.set_phase("Running")
    world.set_phase("Running")

    assert world.names(JOB) == ["train-first-0", "train-second-0"]
    completed, progress = world.condition("StartupPolicyCompleted"), world.condition("StartupPolicyInProgress")
    assert completed is not None
    assert progress is not None
    assert (completed["status"], progress["status"]) == ("True", "False")


def test_the_node_selector_strategy_pins_without_gating(world: World):
    body = jobset("train", replicated_job(pods=3))
    body["metadata"]["annotations"][NODE_SELECTOR_STRATEGY] = "true"
    world.submit(JOBSET, body)

    assert world.indexes() == ["0", "1", "2"]
    for pod in world.pods():
        assert pod["spec"]["nodeSelector"]["alpha.jobset.sigs.k8s.io/namespaced-job"] == "default_train-slice-0"
        assert "affinity" not in pod["spec"]
        assert "jobset.sigs.k8s.io/priority" not in pod["metadata"]["labels"]
        assert {
            "key": "alpha.jobset.sigs.k8s.io/no-schedule",
            "operator": "Exists",
            "effect": "NoSchedule",
        } in pod["spec"]["tolerations"]

    taint = {"key": "alpha.jobset.sigs.k8s.io/no-schedule", "value": "true", "effect": "NoSchedule"}
    labels = {"alpha.jobset.sigs.k8s.io/namespaced-job": "default_train-slice-0"}
    world.add_pool("a", nodes=3, labels=labels, taints=[taint])
    assert all(node.startswith("a-") for node in world.bound().values())


def test_the_coordinator_is_told_to_every_pod(world: World):
    coordinator = {"replicatedJob": "slice", "jobIndex": 0, "podIndex": 1}
    world.submit(JOBSET, jobset("train", replicated_job(), coordinator=coordinator))

    labels = world.pods()[0]["metadata"]["labels"]
    assert labels["jobset.sigs.k8s.io/coordinator"] == "train-slice-0-1.train"


def test_a_jobset_managed_by_somebody_else_is_left_alone(world: World):
    world.submit(JOBSET, jobset("train", replicated_job(), managedBy="kueue.x-k8s.io/multikueue"))

    assert world.names(JOB) == []


def test_the_service_gives_the_pods_their_names(world: World):
    world.submit(JOBSET, jobset())

    service = world.body(SERVICE, "train")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert world.pods()[0]["spec"]["subdomain"] == "train"
    assert world.pods()[0]["spec"]["hostname"] == "train-slice-0-0"


def test_followers_of_a_leader_that_moved_are_deleted(world: World):
    world.submit(JOBSET, jobset("train", replicated_job(pods=2)))
    world.add_pool("a")
    node = world.body(POD, world.names(POD)[0])["spec"]["nodeName"]
    assert node.startswith("a-")
    body = world.body(NODE, node)
    body["metadata"]["labels"][POOL] = "elsewhere"
    world.registry.replace(NODE, "", node, body)
    world.set_phase("Running")

    follower = next(p for p in world.pods() if p["metadata"]["annotations"][INDEX] == "1")
    reasons = {c["type"]: c.get("reason") for c in follower["status"]["conditions"]}
    assert reasons.get("DisruptionTarget") == "ExclusivePlacementViolation"
    assert "deletionTimestamp" in follower["metadata"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"replicatedJobs": [replicated_job("a"), replicated_job("a")]}, "Duplicate value"),
        ({"replicatedJobs": [replicated_job("x" * 60)]}, "will exceed 63 characters"),
        ({"replicatedJobs": [replicated_job("Bad")]}, "not a valid DNS label"),
        ({"replicatedJobs": [replicated_job(dependsOn=[])]}, "DependsOn can't be set for the first"),
        ({"successPolicy": {"operator": "Most"}}, 'Unsupported value: "Most": supported values: "All", "Any"'),
        ({"successPolicy": {"targetReplicatedJobs": ["no"]}}, "does not appear in .spec.ReplicatedJobs"),
        ({"failurePolicy": {"rules": [{"action": "Panic"}]}}, 'Unsupported value: "Panic"'),
        ({"failurePolicy": {"maxRestarts": "3"}}, "spec.failurePolicy.maxRestarts"),
        ({"coordinator": {"replicatedJob": "no"}}, "coordinator replicatedJob no does not exist"),
        ({"suspend": "yes"}, "spec.suspend: Expected `bool`, got `str`"),
    ],
)
def test_a_wrong_jobset_is_refused_with_the_field_and_what_is_wrong(world: World, change: dict, complaint: str):
    body = jobset()
    body["spec"] |= change

    with pytest.raises(ApiError) as refusal:
        world.registry.create(JOBSET, body, "default")
    assert complaint in refusal.value.message
