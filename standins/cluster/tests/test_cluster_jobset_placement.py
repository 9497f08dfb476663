"""What a JobSet becomes: Jobs, pods, labels, placement; and which JobSets are refused."""

import hashlib
from typing import Any

import pytest

from standins.cluster.store.kinds import JOB, JOBSET, NODE, POD
from standins.cluster.tests.cluster_objects import (
    EXCLUSIVE,
    INDEX,
    NODE_SELECTOR_STRATEGY,
    POOL,
    jobset,
    replicated_job,
)
from standins.cluster.tests.cluster_world import Refused, World

Json = dict[str, Any]
JOB_INDEX = "jobset.sigs.k8s.io/job-index"


def test_without_capacity_there_is_one_unschedulable_leader_for_each_slice(world: World) -> None:
    world.submit(JOBSET, jobset("train", replicated_job(replicas=2, pods=4)))

    def verdicts() -> list[tuple[str, str, str, str]]:
        found = [condition for pod in world.pods() for condition in pod["status"]["conditions"]]
        return [(c["type"], c["status"], c["reason"], c["message"]) for c in found]

    verdict = ("PodScheduled", "False", "Unschedulable", "no nodes available to schedule pods")
    world.eventually(verdicts, [verdict, verdict])
    world.eventually(lambda: "FailedCreate" in world.reasons(), wanted=True)
    world.settle()
    assert world.indexes() == ["0", "0"]


def test_followers_are_refused_with_the_words_of_the_webhook(world: World) -> None:
    body = jobset("train", replicated_job(pods=2))
    world.submit(JOBSET, body)
    why = "follower pod node selector for topology domain not found. missing selector: " + POOL
    text = f'Error creating: admission webhook "vpod.kb.io" denied the request: {why}'
    world.eventually(lambda: ("FailedCreate", text) in world.events(), wanted=True)


def test_a_leader_carries_the_labels_by_which_its_slice_is_known(world: World) -> None:
    uid = world.submit(JOBSET, jobset("train", replicated_job("cpu"), replicated_job(replicas=2)))["metadata"][
        "uid"
    ]

    world.eventually(lambda: "train-slice-1-0" in world.bound(), wanted=True)
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
        "job-key": hashlib.sha1(f"{world.namespace}/train-slice-1".encode()).hexdigest(),
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


def test_followers_are_created_where_their_leader_is_bound(world: World) -> None:
    world.submit(JOBSET, jobset("train", replicated_job(replicas=2, pods=4)))
    world.add_pool("a", nodes=4)

    def pools() -> list[str]:
        return sorted(node[:1] for node in world.bound().values())

    world.eventually(pools, ["", "a", "a", "a", "a"])
    selectors = [p["spec"]["nodeSelector"].get(POOL) for p in world.pods() if p["spec"].get("nodeName")]
    assert selectors == [None, "a", "a", "a"]

    world.add_pool("b", nodes=4)

    world.eventually(pools, ["a"] * 4 + ["b"] * 4)
    slices = {(p["metadata"]["labels"][JOB_INDEX], p["spec"]["nodeName"][:1]) for p in world.pods()}
    assert len(slices) == 2


def test_two_slices_do_not_share_a_pool_that_has_room_for_both(world: World) -> None:
    world.submit(JOBSET, jobset("train", replicated_job(replicas=2, pods=2)))
    world.add_pool("a", nodes=4)

    def apart() -> list[bool]:
        waiting = [p["metadata"]["name"] for p in world.pods() if not p["spec"].get("nodeName")]
        return ["node(s) didn't match pod anti-affinity rules" in world.why(name) for name in waiting]

    world.eventually(lambda: len(world.pods()), 3)
    world.eventually(apart, [True])


def test_in_order_start_goes_from_one_replicated_job_to_the_next(world: World) -> None:
    order = {"startupPolicyOrder": "InOrder"}
    in_progress = ("True", "InOrderStartupPolicyInProgress")
    world.submit(
        JOBSET,
        jobset("train", replicated_job("first"), replicated_job("second"), exclusive=False, startupPolicy=order),
    )
    world.add_pool("a", nodes=4)
    world.eventually(lambda: world.condition("StartupPolicyInProgress"), in_progress)
    world.settle()
    assert world.names(JOB) == ["train-first-0"]

    world.start(pods=2)
    world.eventually(lambda: world.names(JOB), ["train-first-0", "train-second-0"])
    world.start(pods=4)

    world.eventually(lambda: world.condition("StartupPolicyCompleted"), ("True", "InOrderStartupPolicyCompleted"))
    assert world.condition("StartupPolicyInProgress") == ("False", "InOrderStartupPolicyInProgress")


def test_the_node_selector_strategy_pins_without_gating(world: World) -> None:
    body = jobset("train", replicated_job(pods=3))
    body["metadata"]["annotations"][NODE_SELECTOR_STRATEGY] = "true"
    world.submit(JOBSET, body)

    job = f"{world.namespace}_train-slice-0"
    world.eventually(world.indexes, ["0", "1", "2"])
    for pod in world.pods():
        assert pod["spec"]["nodeSelector"]["alpha.jobset.sigs.k8s.io/namespaced-job"] == job
        assert "affinity" not in pod["spec"]
        assert "jobset.sigs.k8s.io/priority" not in pod["metadata"]["labels"]
        assert {
            "key": "alpha.jobset.sigs.k8s.io/no-schedule",
            "operator": "Exists",
            "effect": "NoSchedule",
        } in pod["spec"]["tolerations"]

    taint = {"key": "alpha.jobset.sigs.k8s.io/no-schedule", "value": "true", "effect": "NoSchedule"}
    labels = {"alpha.jobset.sigs.k8s.io/namespaced-job": job}
    world.add_pool("a", nodes=3, labels=labels, taints=[taint])
    world.eventually(lambda: {node[:1] for node in world.bound().values()}, {"a"})


def test_the_address_of_the_coordinator_is_a_label_of_every_pod(world: World) -> None:
    coordinator = {"replicatedJob": "slice", "jobIndex": 0, "podIndex": 1}
    world.submit(JOBSET, jobset("train", replicated_job(), coordinator=coordinator))

    world.eventually(world.indexes, ["0"])
    labels = world.pods()[0]["metadata"]["labels"]
    assert labels["jobset.sigs.k8s.io/coordinator"] == "train-slice-0-1.train"


def test_a_jobset_managed_by_somebody_else_is_left_alone(world: World) -> None:
    world.submit(JOBSET, jobset("train", replicated_job(), managedBy="kueue.x-k8s.io/multikueue"))

    world.settle()
    assert world.names(JOB) == []


def test_followers_of_a_leader_that_moved_stay_where_they_are(world: World) -> None:
    world.submit(JOBSET, jobset("train", replicated_job(pods=2)))
    world.add_pool("a")
    world.start(pods=2)
    before = world.uids(POD)
    world.edit(NODE, world.bound()["train-slice-0-0"], lambda body: body["metadata"]["labels"].update({POOL: "b"}))
    world.set_phase("Running", podIP="10.0.0.1")
    world.settle()

    assert world.uids(POD) == before, "JobSet's controller only complains about it, in its log"
    assert world.terminating() == []


DNS_LABEL = "a DNS-1035 label must consist of lower case alphanumeric characters or '-'"
WRONG: dict[str, tuple[Json, int, str]] = {
    "two replicated jobs of one name": (
        {"replicatedJobs": [replicated_job("a"), replicated_job("a")]},
        422,
        'spec.replicatedJobs[1]: Duplicate value: {"name":"a"}',
    ),
    "a name too long": ({"replicatedJobs": [replicated_job("x" * 60)]}, 403, "will exceed 63 characters"),
    "a name that is no label": ({"replicatedJobs": [replicated_job("Bad")]}, 403, f'"train-Bad-0": {DNS_LABEL}'),
    "a target that does not exist": (
        {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["no"]}},
        403,
        "invalid replicatedJob name 'no' does not appear in .spec.ReplicatedJobs",
    ),
    "a coordinator that does not exist": (
        {"coordinator": {"replicatedJob": "no"}},
        403,
        "coordinator replicatedJob no does not exist",
    ),
    "a time to live below zero": ({"ttlSecondsAfterFinished": -1}, 422, "should be greater than or equal to 0"),
    "a number in quotes": ({"failurePolicy": {"maxRestarts": "3"}}, 400, "spec.failurePolicy.maxRestarts"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_jobset_is_refused_with_the_field_and_what_is_wrong(world: World, case: str) -> None:
    change, code, complaint = WRONG[case]
    body = jobset()
    body["spec"] |= change

    with pytest.raises(Refused) as refusal:
        world.create(JOBSET, body)
    assert complaint in refusal.value.message
    assert refusal.value.code == code


def test_a_template_that_is_valid_for_no_job_is_refused_when_the_job_is_made(world: World) -> None:
    job = replicated_job()
    job["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"flavor": "a b"}
    world.submit(JOBSET, jobset("train", job))

    def told() -> list[bool]:
        messages = [message for reason, message in world.events() if reason == "JobCreationFailed"]
        return ["spec.template.spec.nodeSelector: Invalid value" in message for message in messages]

    world.eventually(told, [True])
    assert world.names(JOB) == []
