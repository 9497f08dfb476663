"""What the scheduler says and does: its messages are those of kube-scheduler."""

from typing import Any

import pytest

from standins.cluster.store.kinds import JOBSET, NODE, POD
from standins.cluster.tests.cluster_objects import jobset, node, pod, replicated_job
from standins.cluster.tests.cluster_world import World
from standins.cluster.tests.embedded_world import EmbeddedWorld

Json = dict[str, Any]

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
TAINTED = "node(s) had untolerated taint(s)"


def message(nodes: int, reasons: str, *, eviction: str = "") -> str:
    """What the scheduler says of a pod that fits on none of the nodes."""
    verdict = eviction or f"{nodes} {NOT_HELPFUL}"
    head = f"0/{nodes} nodes are available:"
    return f"{head} {reasons}. no new claims to deallocate, preemption: {head} {verdict}."


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
        message(2, "2 node(s) didn't match Pod's node affinity/selector"),
    ),
    "a node affinity that no node has": (
        [plain_node("a", labels={"zone": "x"})],
        {"affinity": node_affinity("zone", "NotIn", "x")},
        message(1, "1 node(s) didn't match Pod's node affinity/selector"),
    ),
    "a taint": ([plain_node("a", taints=[TAINT])], {}, message(1, f"1 {TAINTED}")),
    "more than a node has": (
        [plain_node("a"), plain_node("b", offered={"google.com/tpu": "2"})],
        {"containers": asking(**{"google.com/tpu": 4})},
        message(2, "2 Insufficient google.com/tpu"),
    ),
    "several reasons, sorted as text": (
        [
            plain_node("a", offered={"google.com/tpu": "2"}),
            plain_node("b", taints=[TAINT]),
            plain_node("c", unschedulable=True),
        ],
        {"containers": asking(cpu=8, **{"google.com/tpu": 4})},
        message(
            3, f"1 Insufficient cpu, 1 Insufficient google.com/tpu, 1 {TAINTED}, 1 node(s) were unschedulable"
        ),
    ),
    "an affinity to nobody": (
        [plain_node("a")],
        {"affinity": pod_affinity("podAffinity", app="friend")},
        message(1, "1 node(s) didn't match pod affinity rules"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_condition_says_why_a_pod_fits_nowhere(world: World, case: str) -> None:
    nodes, spec, text = CASES[case]
    for body in nodes:
        world.submit(NODE, body)
    world.submit(POD, pod("a", **spec))

    world.eventually(lambda: world.why("a"), text)
    (condition,) = world.body(POD, "a")["status"]["conditions"]
    found = (condition["type"], condition["status"], condition["reason"])
    assert found == ("PodScheduled", "False", "Unschedulable")


def occupy(world: World, pod_body: Json) -> None:
    """Create a pod and wait until it is bound."""
    name = pod_body["metadata"]["name"]
    world.submit(POD, pod_body)
    world.eventually(lambda: world.body(POD, name)["spec"]["nodeName"], "a")


def test_a_full_node_could_be_helped_by_eviction(world: World) -> None:
    world.submit(NODE, plain_node("a", offered={"cpu": "1"}))
    occupy(world, pod("first", containers=asking(cpu=1)))
    world.submit(POD, pod("second", containers=asking(cpu="500m")))

    text = message(1, "1 Insufficient cpu", eviction=f"1 {NO_VICTIMS}")
    world.eventually(lambda: world.why("second"), text)


def test_anti_affinity_holds_both_ways(world: World) -> None:
    world.submit(NODE, plain_node("a"))
    loner = pod("loner", affinity=pod_affinity("podAntiAffinity", app="crowd"))
    loner["metadata"]["labels"] = {"app": "loner"}
    crowd = pod("crowd")
    crowd["metadata"]["labels"] = {"app": "crowd"}
    occupy(world, loner)
    world.submit(POD, crowd)

    text = "1 node(s) didn't satisfy existing pods anti-affinity rules"
    world.eventually(lambda: world.why("crowd"), message(1, text, eviction=f"1 {NO_VICTIMS}"))


def taints_of(body: Json) -> list[tuple[str, str]]:
    """Keys and effects, sorted."""
    return sorted((taint["key"], taint["effect"]) for taint in body["spec"].get("taints", []))


def test_a_node_that_is_not_ready_takes_no_pods_until_it_is(world: World) -> None:
    body = plain_node("a")
    body["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    assert taints_of(world.create(NODE, body)) == [("node.kubernetes.io/not-ready", "NoSchedule")]
    world.submit(POD, pod("p"))
    world.eventually(lambda: world.why("p"), message(1, f"1 {TAINTED}"))

    world.patch_status(NODE, "a", {"conditions": [{"type": "Ready", "status": "True"}]})

    world.eventually(lambda: world.body(POD, "p")["spec"]["nodeName"], "a")
    world.eventually(lambda: taints_of(world.body(NODE, "a")), [])


def test_a_gated_pod_says_so_from_its_creation_and_is_tried_once_free(world: World) -> None:
    created = world.create(POD, pod("p", schedulingGates=[{"name": "example.com/kueue"}]))
    assert created["status"]["conditions"][0]["reason"] == "SchedulingGated"
    gated_since = created["status"]["conditions"][0]["lastTransitionTime"]
    world.settle()

    world.edit(POD, "p", lambda body: body["spec"].pop("schedulingGates"))

    world.eventually(lambda: world.scheduling("p")["reason"], "Unschedulable")
    assert world.scheduling("p")["lastTransitionTime"] == gated_since, "the status was False before too"


def test_a_waiting_pod_takes_the_place_of_one_that_ends(world: World) -> None:
    world.submit(NODE, plain_node("a", offered={"pods": "1"}))
    occupy(world, pod("first"))
    world.submit(POD, pod("second"))
    world.eventually(lambda: world.scheduling("second")["reason"], "Unschedulable")

    world.set_phase("Succeeded", pod="first")

    world.eventually(lambda: world.body(POD, "second")["spec"]["nodeName"], "a")


def test_a_pod_that_asks_for_chips_tolerates_their_taint(world: World) -> None:
    created = world.create(POD, pod("p", containers=asking(**{"google.com/tpu": 4})))

    tolerations = [found for found in created["spec"]["tolerations"] if found["key"] == "google.com/tpu"]
    assert tolerations == [{"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_pods_of_a_node_that_is_gone_are_removed_after_a_while(embedded_world: EmbeddedWorld) -> None:
    """On the embedded cluster only: the real pod collector takes a minute of real time."""
    world = embedded_world
    world.add_pool("a")
    world.submit(JOBSET, jobset("train", replicated_job(), failurePolicy={"maxRestarts": 3}))
    world.start(pods=2)
    for name in world.names(NODE):
        world.delete(NODE, name)
    world.pass_time(20)
    assert len(world.pods()) == 2

    world.pass_time(60)

    assert world.jobset()["status"]["restarts"] == 1
    assert [p["spec"].get("nodeName") for p in world.pods()] == [None], "one new leader waits for a new pool"
