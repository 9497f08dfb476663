"""What the scheduler says and does: its messages are those of kube-scheduler."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_objects import POOL, World, jobset, node, pod, replicated_job

from local.cluster.store.kinds import EVENT, JOBSET, NODE, POD

Json = dict[str, Any]

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


def plain_node(name: str, **change: Any) -> Json:
    body = node(name, 0)
    body["metadata"] = {"name": name, "labels": {"kubernetes.io/hostname": name} | change.pop("labels", {})}
    body["spec"] = {}
    offered = {"cpu": "4", "memory": "8Gi", "pods": "10"} | change.pop("offered", {})
    body["status"] = {"allocatable": offered, "conditions": [{"type": "Ready", "status": "True"}]}
    return body | {"spec": change}


def asking(**resources: Any) -> list[Json]:
    return [{"name": "c", "image": "c", "resources": {"limits": resources}}]


def term(**labels: str) -> Json:
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}


def pod_affinity(kind: str, **labels: str) -> Json:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term(**labels)]}}


def node_affinity(key: str, operator: str, *values: str) -> Json:
    expression = {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


TAINT = {"key": "hold", "value": "yes", "effect": "NoSchedule"}
CASES: dict[str, tuple[list[Json], Json, str]] = {
    "an empty cluster": ([], {}, "no nodes available to schedule pods"),
    "a selector that no node has": (
        [plain_node("a"), plain_node("b")],
        {"nodeSelector": {"x": "y"}},
        (
            f"0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. "
            f"preemption: 0/2 nodes are available: 2 {NOT_HELPFUL}."
        ),
    ),
    "an affinity that no node has": (
        [plain_node("a", labels={"zone": "x"})],
        {"affinity": node_affinity("zone", "NotIn", "x")},
        (
            f"0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. "
            f"preemption: 0/1 nodes are available: 1 {NOT_HELPFUL}."
        ),
    ),
    "a taint": (
        [plain_node("a", taints=[TAINT])],
        {},
        (
            f"0/1 nodes are available: 1 node(s) had untolerated taint {{hold: yes}}. "
            f"preemption: 0/1 nodes are available: 1 {NOT_HELPFUL}."
        ),
    ),
    "more than a node has": (
        [plain_node("a"), plain_node("b", offered={"google.com/tpu": "2"})],
        {"containers": asking(**{"google.com/tpu": 4})},
        (
            f"0/2 nodes are available: 2 Insufficient google.com/tpu. "
            f"preemption: 0/2 nodes are available: 2 {NOT_HELPFUL}."
        ),
    ),
    "several reasons, sorted as text": (
        [
            plain_node("a", offered={"google.com/tpu": "2"}),
            plain_node("b", taints=[TAINT]),
            plain_node("c", unschedulable=True),
        ],
        {"containers": asking(cpu=8, **{"google.com/tpu": 4})},
        (
            f"0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient google.com/tpu, "
            f"1 node(s) had untolerated taint {{hold: yes}}, 1 node(s) were unschedulable. "
            f"preemption: 0/3 nodes are available: 3 {NOT_HELPFUL}."
        ),
    ),
    "an affinity to nobody": (
        [plain_node("a")],
        {"affinity": pod_affinity("podAffinity", app="friend")},
        (
            f"0/1 nodes are available: 1 node(s) didn't match pod affinity rules. "
            f"preemption: 0/1 nodes are available: 1 {NOT_HELPFUL}."
        ),
    ),
    "a missing claim": (
        [plain_node("a")],
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
        (
            f'0/1 nodes are available: persistentvolumeclaim "data" not found. '
            f"preemption: 0/1 nodes are available: 1 {NOT_HELPFUL}."
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_condition_says_why_a_pod_fits_nowhere(world: World, case: str):
    nodes, spec, message = CASES[case]
    for body in nodes:
        world.submit(NODE, body)
    world.submit(POD, pod("a", **spec))

    (condition,) = world.body(POD, "a")["status"]["conditions"]

    assert condition["message"] == message
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "Unschedulable",
    )


def test_a_full_node_could_be_helped_by_eviction(world: World):
    world.submit(NODE, plain_node("a", offered={"cpu": "1"}))
    world.submit(POD, pod("first", containers=asking(cpu=1)))
    world.submit(POD, pod("second", containers=asking(cpu="500m")))

    (condition,) = world.body(POD, "second")["status"]["conditions"]

    assert condition["message"] == (
        f"0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 {NO_VICTIMS}."
    )


def test_a_node_holds_only_so_many_pods(world: World):
    world.submit(NODE, plain_node("a", offered={"pods": "1"}))
    world.submit(POD, pod("first"))
    world.submit(POD, pod("second"))

    assert "1 Too many pods." in world.body(POD, "second")["status"]["conditions"][0]["message"]


def test_anti_affinity_holds_both_ways(world: World):
    world.submit(NODE, plain_node("a"))
    loner = pod("loner", affinity=pod_affinity("podAntiAffinity", app="crowd"))
    loner["metadata"]["labels"] = {"app": "loner"}
    crowd = pod("crowd")
    crowd["metadata"]["labels"] = {"app": "crowd"}
    world.submit(POD, loner)
    world.submit(POD, crowd)

    message = world.body(POD, "crowd")["status"]["conditions"][0]["message"]

    assert "1 node(s) didn't satisfy existing pods anti-affinity rules." in message


def test_a_node_that_is_not_ready_takes_no_pods_until_it_is(world: World):
    body = plain_node("a")
    body["status"]["conditions"] = []
    world.submit(NODE, body)
    world.submit(POD, pod("p"))
    message = world.body(POD, "p")["status"]["conditions"][0]["message"]
    assert "1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }." in message

    ready = world.body(NODE, "a")["status"] | {"conditions": [{"type": "Ready", "status": "True"}]}
    world.registry.replace(NODE, "", "a", {"status": ready}, status_only=True)
    world.settle()

    assert world.body(POD, "p")["spec"]["nodeName"] == "a"
    assert not world.body(NODE, "a")["spec"].get("taints")


def test_a_bound_pod_is_scheduled_by_the_binding_write_itself(world: World):
    world.submit(NODE, plain_node("a"))
    seen: list[tuple[str | None, str | None]] = []

    def note(change: Any) -> None:
        if change.kind is POD and change.new is not None:
            body = change.new.body()
            conditions = {c["type"]: c["status"] for c in body["status"].get("conditions", [])}
            seen.append((body["spec"].get("nodeName"), conditions.get("PodScheduled")))

    world.store.subscribe(note)
    world.submit(POD, pod("p"))

    assert seen == [(None, None), ("a", "True")]


def test_a_gated_pod_says_so_from_its_creation_and_is_tried_once_free(world: World):
    created = world.registry.create(POD, pod("p", schedulingGates=[{"name": "kueue"}]), "default").body()
    assert created["status"]["conditions"][0]["reason"] == "SchedulingGated"
    gated_since = created["status"]["conditions"][0]["lastTransitionTime"]
    world.settle(seconds=60)

    body = world.body(POD, "p")
    del body["spec"]["schedulingGates"]
    world.registry.replace(POD, "default", "p", body)
    world.settle()

    (condition,) = world.body(POD, "p")["status"]["conditions"]
    assert condition["reason"] == "Unschedulable"
    assert condition["lastTransitionTime"] == gated_since, "the status was False before too"


def test_a_condition_is_written_again_only_when_it_differs(world: World):
    world.submit(POD, pod("p", nodeSelector={"x": "y"}))
    before = world.body(POD, "p")
    world.settle(seconds=600)
    assert world.body(POD, "p") == before

    world.submit(NODE, plain_node("a"))
    after = world.body(POD, "p")

    first, second = before["status"]["conditions"][0], after["status"]["conditions"][0]
    assert first["message"] != second["message"]
    assert first["lastTransitionTime"] == second["lastTransitionTime"]


def test_a_pod_of_another_scheduler_is_left_alone(world: World):
    world.submit(NODE, plain_node("a"))
    world.submit(POD, pod("p", schedulerName="other"))

    assert "conditions" not in world.body(POD, "p")["status"]


def test_a_waiting_pod_takes_the_place_of_one_that_ends(world: World):
    world.submit(NODE, plain_node("a", offered={"pods": "1"}))
    world.submit(POD, pod("first"))
    world.submit(POD, pod("second"))

    status = world.body(POD, "first")["status"] | {"phase": "Succeeded"}
    world.registry.replace(POD, "default", "first", {"status": status}, status_only=True)
    world.settle()

    assert world.body(POD, "second")["spec"]["nodeName"] == "a"


def test_a_pod_that_asks_for_chips_tolerates_their_taint(world: World):
    world.submit(JOBSET, jobset("train", replicated_job(pods=1)))

    tolerations = world.pods()[0]["spec"]["tolerations"]

    assert {"key": "google.com/tpu", "operator": "Exists"} in tolerations


def test_scheduling_is_told_in_events(world: World):
    world.submit(POD, pod("p"))
    world.submit(NODE, plain_node("a"))

    events = [(found.body()["reason"], found.body()["message"]) for found in world.store.objects(EVENT)]

    assert sorted(events) == [
        ("FailedScheduling", "no nodes available to schedule pods"),
        ("Scheduled", "Successfully assigned default/p to a"),
    ]


def test_pods_of_a_node_that_has_gone_are_removed_after_a_while(world: World):
    world.submit(JOBSET, jobset("train", replicated_job(), failurePolicy={"maxRestarts": 3}))
    world.add_pool("a")
    world.set_phase("Running")
    for name in world.names(NODE):
        stored = world.registry.get(NODE, "", name)
        world.store.remove(stored)
    world.settle(seconds=20)
    assert len(world.pods()) == 2

    world.settle(seconds=60)

    assert world.jobset()["status"]["restarts"] == 1
    assert [p["spec"].get("nodeName") for p in world.pods()] == [None], "one new leader waits for a new pool"


def test_many_slices_are_placed_one_to_a_pool(world: World):
    slices = 12
    world.submit(JOBSET, jobset("train", replicated_job(replicas=slices, pods=2)))
    for index in range(slices):
        world.add_pool(f"pool{index}", nodes=2)
    world.settle()

    nodes = [p["spec"]["nodeName"] for p in world.pods()]
    jobs = {
        (p["metadata"]["labels"]["batch.kubernetes.io/job-name"], p["spec"]["nodeName"][:-2]) for p in world.pods()
    }
    assert len(nodes) == 2 * slices
    assert len(jobs) == slices
    assert POOL in world.body(NODE, "pool0-0")["metadata"]["labels"]
