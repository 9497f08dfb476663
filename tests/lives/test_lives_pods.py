"""What Kubernetes and JobSet write on pods fits what the exporter reads and the pools offer.

The texts of a scheduler that finds no place, and that a pod is reported whatever the text; the
tolerations of pods of a slice beside the taints of its pool; who else may go there.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from demo.stack.layout import TOPIC
from demo.stack.stack import Stack
from shared.core.kinds.jobset import NAMESPACED_JOB, NO_SCHEDULE_TAINT
from tests.lives.bindings import Bindings, Host
from tests.lives.cloud import Cloud, wait_for
from tests.lives.jobset_bodies import LIFE, PINNED, Job, jobset, runs, select
from tests.lives.scene import Scene

MakeScene = Callable[[str], Scene]
AddNode = Callable[[str, list[dict[str, Any]], int], None]

Json = dict[str, Any]

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]
"""The first test of a cluster waits for its stack."""

CHIPS = "google.com/tpu"
TPU_TAINT = {"key": CHIPS, "value": "present", "effect": "NoSchedule"}
OTHER_TAINT = {"key": "lives.example.com/kept", "value": "free", "effect": "NoSchedule"}
HEAD = r"^0/\d+ nodes are available: (?:[^.]+, )?"
TAIL = r"(?:, [^.]+)?\. no new claims to deallocate, preemption: 0/\d+ nodes are available: \d+ .+\.$"
CASES: dict[str, tuple[list[Json], int, str]] = {
    "selected": ([], 0, r"\d+ node\(s\) didn't match Pod's node affinity/selector"),
    "tainted": ([OTHER_TAINT], 4, r"1 node\(s\) had untolerated taint\(s\)"),
    "full": ([TPU_TAINT], 1, r"1 Insufficient google\.com/tpu"),
}
"""The one node that fits the selectors, if any: its taints, its chips; and what the scheduler says
of it."""


@pytest.fixture
def cloud(stack: Stack) -> Iterator[Cloud]:
    with Cloud(stack) as cloud:
        yield cloud


@pytest.fixture
def make_scene(stack: Stack, cloud: Cloud) -> Iterator[MakeScene]:
    """Makes a scene; at the end its JobSet goes, and the test waits until nothing of it is left."""
    scenes = []
    with Bindings(stack.addresses.kubeconfig) as bindings:

        def make(name: str) -> Scene:
            scenes.append(Scene(name, cloud, bindings))
            return scenes[-1]

        yield make
        for scene in scenes:
            scene.delete()
        for scene in scenes:
            scene.wait_no_pods()
            scene.clear_faults()
            scene.wait_no_pools()
            cloud.delete(f"/api/v1/namespaces/{scene.namespace}")


@pytest.fixture
def add_node(cloud: Cloud) -> Iterator[AddNode]:
    """Registers a node that fits the selectors of one scene's slice and is nobody's pool."""
    names = []

    def add(scene_name: str, taints: list[Json], chips: int) -> None:
        name = f"odd-{scene_name}"
        names.append(name)
        path = "/api/v1/nodes"
        labels = select("2x4") | {LIFE: scene_name, "cloud.google.com/gke-nodepool": name}
        cloud.create(path, {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}})
        offered = {"cpu": "64", "memory": "256Gi", "pods": "100", CHIPS: str(chips)}
        ready = [{"type": "Ready", "status": "True"}]
        cloud.patch(f"{path}/{name}/status", {"status": {"allocatable": offered, "conditions": ready}})
        # A new node is tainted as not ready until its controller has seen that it is.
        wait_for(
            f"{name} is ready", lambda: _taints(cloud.get(f"{path}/{name}")) == {each["key"] for each in taints}
        )

    yield add
    for name in names:
        cloud.delete(f"/api/v1/nodes/{name}")


def _taints(node: Json | None) -> set[str]:
    assert node is not None
    return {each["key"] for each in node["spec"].get("taints", ())}


@pytest.mark.parametrize("case", CASES)
def test_a_leader_is_reported_whatever_the_scheduler_says_of_it(
    make_scene: MakeScene, add_node: AddNode, cloud: Cloud, case: str
) -> None:
    taints, chips, reason = CASES[case]
    scene = make_scene(f"said-{case}")
    scene.add_fault("fail_sync", method="CreateNodePool", code="UNAVAILABLE", count=None)
    if chips:
        add_node(scene.name, taints, chips)
    scene.submit(jobset(scene.name))

    pod, condition = wait_for("a leader that fits nowhere", lambda: _unschedulable(scene))
    assert re.match(HEAD + reason + TAIL, condition["message"]), condition["message"]
    heard = wait_for("an Event FailedScheduling", lambda: scene.events("FailedScheduling"))
    assert any(re.match(HEAD + reason + TAIL, each) for each in heard), heard
    message = wait_for("its report", lambda: _report_of(cloud, pod))
    assert message["observed"] == "unschedulable"
    assert message["attributes"]["ce-type"] == "tpuprovisioner.demand.v1"
    assert message["attributes"]["ce-subject"] == f"namespaces/{scene.namespace}/jobsets/{scene.name}"


def test_a_leader_that_is_held_by_a_gate_is_reported_once_it_is_free(make_scene: MakeScene, cloud: Cloud) -> None:
    held, free = make_scene("held"), make_scene("free")
    body = jobset(held.name)
    _pod_spec(body)["schedulingGates"] = [{"name": "lives.example.com/gate"}]
    held.submit(body)
    (pod,) = wait_for("a gated leader", held.pods)
    free.submit(jobset(free.name))
    wait_for("the report of the other", lambda: _report_of(cloud, free.pods()[0] if free.pods() else None))
    assert _report_of(cloud, pod) is None

    path = f"/api/v1/namespaces/{held.namespace}/pods/{pod['metadata']['name']}"
    cloud.patch(path, {"spec": {"schedulingGates": None}})
    wait_for("its report", lambda: _report_of(cloud, pod))


def test_a_pinned_slice_selects_and_tolerates_what_its_pool_carries_and_nobody_else_gets_there(
    make_scene: MakeScene, cloud: Cloud
) -> None:
    scene = make_scene("fenced")
    scene.submit(jobset(scene.name, Job(does=runs(36_000)), annotations=PINNED))
    pods = scene.wait_running(2)
    hosts = scene.bindings()[0].host, scene.bindings()[1].host
    mark = f"{scene.namespace}_{scene.name}-slice-0"
    for host in hosts:
        assert host.labels[NAMESPACED_JOB] == mark
        assert set(host.taints) >= {(CHIPS, "NoSchedule"), (NO_SCHEDULE_TAINT, "NoSchedule")}
    for pod in pods:
        assert pod["spec"]["nodeSelector"][NAMESPACED_JOB] == mark
        assert _tolerates(pod, hosts[0])
        assert _toleration(CHIPS) in pod["spec"]["tolerations"]
        assert _toleration(NO_SCHEDULE_TAINT) in pod["spec"]["tolerations"]

    stranger = _stranger(hosts[0])
    path = f"/api/v1/namespaces/{scene.namespace}/pods"
    cloud.create(path, stranger)
    name = stranger["metadata"]["name"]
    try:
        found = wait_for("a stranger that fits nowhere", lambda: _why(cloud.get(f"{path}/{name}")))
        assert re.search(r"\d+ node\(s\) had untolerated taint\(s\)", found["message"]), found["message"]
    finally:
        cloud.delete(f"{path}/{name}")


def test_a_default_slice_tolerates_the_chips_taint_and_its_pool_has_no_other_of_ours(
    make_scene: MakeScene,
) -> None:
    scene = make_scene("open")
    scene.submit(jobset(scene.name, Job(does=runs(36_000))))
    pods = scene.wait_running(2)
    for binding in scene.bindings():
        assert (CHIPS, "NoSchedule") in binding.host.taints
        assert NO_SCHEDULE_TAINT not in dict(binding.host.taints)
        assert NAMESPACED_JOB not in binding.host.labels
    for pod in pods:
        assert _toleration(CHIPS) in pod["spec"]["tolerations"]
        assert NAMESPACED_JOB not in pod["spec"]["nodeSelector"]


def _why(pod: Json | None) -> Json | None:
    """Return the condition of a pod that says that it fits nowhere."""
    found = (pod or {}).get("status", {}).get("conditions", ())
    fits = ("PodScheduled", "False", "Unschedulable")
    return next((each for each in found if (each["type"], each["status"], each.get("reason")) == fits), None)


def _unschedulable(scene: Scene) -> tuple[Json, Json] | None:
    return next(((pod, why) for pod in scene.pods() if (why := _why(pod))), None)


def _report_of(cloud: Cloud, pod: Json | None) -> Json | None:
    """Return the first message that the exporter published when it saw a pod."""
    if pod is None:
        return None
    found = (each for each in cloud.messages(TOPIC) if each.get("incarnation") == pod["metadata"]["uid"])
    return next(found, None)


def _pod_spec(body: Json) -> Json:
    found: Json = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return found


def _toleration(key: str) -> Json:
    return {"key": key, "operator": "Exists", "effect": "NoSchedule"}


def _tolerates(pod: Json, host: Host) -> bool:
    """Return whether the pod tolerates all taints of the node, except those of an unready node."""
    keys = {(each.get("key"), each.get("effect")) for each in pod["spec"]["tolerations"]}
    return {taint for taint in host.taints if not taint[0].startswith("node.kubernetes.io/")} <= keys


def _stranger(host: Host) -> Json:
    """Return a pod that selects the slice's chips as its own pods do, but is not of it."""
    chips = {"name": "c", "image": "c", "resources": {"limits": {CHIPS: 1}}}
    selectors = {key: host.labels[key] for key in (*select("2x4"), NAMESPACED_JOB)}
    spec = {"nodeSelector": selectors, "containers": [chips]}
    return {"metadata": {"name": "stranger"}, "spec": spec}
