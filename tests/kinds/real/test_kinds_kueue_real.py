"""Kueue itself before the whole loop: only admitted workloads get pools, of the flavor's shape."""

from collections.abc import Callable

import pytest

from demo.settings import TOPIC, ClusterKind, StackSettings
from tests.clusters import SPEED
from tests.kinds.controllers import with_controllers
from tests.kinds.queues import BODIES, GO, V6E, Json, Queue, a_jobset, a_leaderworkerset, a_pinned_job
from tests.lives.cloud import Cloud, wait_for

KUEUE, KUBERAY, LWS = "kueue-0.15", "kuberay-1.6", "lws-0.7"
pytestmark = with_controllers(KUEUE, KUBERAY, LWS)
GRACE_SECONDS = 40
"""Real ones: more than an eviction and a new admission take on a busy machine."""

RELEASE_SECONDS = 5.0 * GRACE_SECONDS


@pytest.fixture(scope="module")
def stack_settings() -> StackSettings:
    grace = GRACE_SECONDS * SPEED
    return StackSettings(speed=SPEED, cluster=ClusterKind.REAL, grace_virtual_seconds=grace)


def test_what_waits_for_quota_asks_for_nothing_and_what_is_admitted_gets_the_shape_of_its_flavor(
    cloud: Cloud,
) -> None:
    queues = {kind: Queue(cloud, f"wait-{kind.lower()}", V6E, stopped=True) for kind in BODIES}
    for kind, queue in queues.items():
        queue.submit(kind, BODIES[kind](queue.workload))
    for kind, queue in queues.items():
        queue.wait_word("QuotaReserved")
        if kind != "LeaderWorkerSet":  # whose pods are made, and held by a gate each
            assert queue.is_suspended(kind)
            assert queue.pods() == []
        assert _demands(cloud, queue) == []
        assert queue.calls() == []
        queue.set_policy(GO)
    for kind, queue in queues.items():
        pods = queue.wait_running(2)
        assert queue.pools_of(pods) == queue.pools()
        assert len(queue.pools()) == 1
        assert queue.accelerators_of(pods) == {V6E}
        queue.delete(kind)
    for queue in queues.values():
        queue.clear(pools=1)


@pytest.mark.parametrize(
    ("kind", "name", "describe"),
    [("JobSet", "preempt", a_jobset), ("LeaderWorkerSet", "ousted", a_leaderworkerset)],
    ids=["JobSet", "LeaderWorkerSet, held by gates"],
)
def test_what_is_preempted_gives_its_pool_back_after_the_grace_and_gets_one_again(
    cloud: Cloud, kind: str, name: str, describe: Callable[[str, str], Json]
) -> None:
    queue, low, high = Queue(cloud, name, V6E, chips=16, shaped=False), f"{name}-low", f"{name}-high"
    queue.make("workloadpriorityclasses", "WorkloadPriorityClass", f"{name}-urgent", {"value": 1000})
    queue.submit(kind, describe(low, "2x4"))
    queue.wait_running(2, low)
    before = queue.pools(f"{low}-")
    queue.submit(kind, describe(high, "4x4"), priority=f"{name}-urgent")

    if kind == "JobSet":
        queue.wait_no_pods(low)
    else:
        wait_for("all its pods wait at a gate", lambda: "kueue.x-k8s.io/admission" in queue.gates(low))
    assert queue.conditions(low)["Evicted"] == "True Preempted"
    assert queue.pools(f"{low}-") == before
    wait_for("the pool of the preempted one goes", lambda: not queue.pools(f"{low}-"), seconds=RELEASE_SECONDS)
    queue.wait_running(4, high)
    queue.delete(kind, high)
    queue.wait_running(2, low)
    assert queue.pools(f"{low}-")
    queue.delete(kind, low)
    queue.clear(pools=3)


def test_what_is_evicted_and_admitted_again_within_the_grace_runs_on_the_same_pool(cloud: Cloud) -> None:
    queues = {kind: Queue(cloud, f"back-{kind.lower()}", V6E) for kind in ("JobSet", "RayCluster", "Job")}
    for kind, queue in queues.items():
        queue.submit(kind, BODIES[kind](queue.workload))
    for kind, queue in queues.items():
        before = queue.pools_of(queue.wait_running(2))
        queue.evict()
        queue.wait_no_pods()
        queue.readmit()
        assert queue.pools_of(queue.wait_running(2)) == before
        assert queue.accepted("CreateNodePool") == 1
        queue.delete(kind)
    for queue in queues.values():
        queue.clear()


def test_a_pod_with_a_gate_of_kueue_s_is_left_alone_until_it_is_free(cloud: Cloud) -> None:
    """The test sets the gates, because Kueue needs nodes for topologies and none exist yet."""
    queue = Queue(cloud, "gates", V6E)
    held = {f"{queue.name}-{gate}": f"kueue.x-k8s.io/{gate}" for gate in ("topology", "admission")}
    for name, gate in held.items():
        _submit(queue, a_pinned_job(name, queue.name, schedulingGates=[{"name": gate}]))
        wait_for("gated pods", lambda name=name: len(queue.pods(name)) == 2)  # type: ignore[misc]
    free = f"{queue.name}-free"
    _submit(queue, a_pinned_job(free, queue.name))
    wait_for("the call of one without a gate", lambda: queue.accepted("CreateNodePool"))
    assert {each["pool"].startswith(f"{free}-") for each in queue.calls()} == {True}
    wait_for("its demand, which the tick may outrun", lambda: _demands(cloud, queue))
    assert {each["name"] for each in _demands(cloud, queue)} == {free}

    queue.delete("Job", free)
    queue.wait_no_pools()
    for name in held:
        for pod in queue.pods(name):
            path = f"/api/v1/namespaces/{queue.namespace}/pods/{pod['metadata']['name']}"
            cloud.patch(path, {"spec": {"schedulingGates": None}})
    for name in held:
        queue.wait_running(2, name)
        queue.delete("Job", name)
    queue.clear()


def _submit(queue: Queue, body: dict[str, object]) -> None:
    """Create a Job that names no queue."""
    queue.cloud.create(f"/apis/batch/v1/namespaces/{queue.namespace}/jobs", body)


def _demands(cloud: Cloud, queue: Queue) -> list[dict[str, str]]:
    """Return the events that asked for something, of one namespace."""
    found = (each for each in cloud.messages(TOPIC) if each["namespace"] == queue.namespace)
    return [each for each in found if not each["cause"].startswith("quota")]
