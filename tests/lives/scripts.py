"""What happens in each life: one short script each, against whichever cluster the scene stands on.

A script also asserts what only its life can show (which pool served which attempt, what waited for
what). What is the same for all lives, how they end and what they cost, is measured by `running` and
expected in `catalogue`.
"""

from collections.abc import Iterable

from tests.lives.bindings import Binding
from tests.lives.jobset_bodies import EXCLUSIVE, FAIL_ATTEMPTS, Job, fails, jobset, runs, select
from tests.lives.scene import PROVISIONING, STOPPING, Scene

SPOT = {"cloud.google.com/gke-spot": "true"}
COORDINATOR = "jobset.sigs.k8s.io/coordinator"
LONG, SHORT = 36_000, 60
"""Virtual seconds: until somebody ends the pods, and about a real second."""


def pools_of(bindings: Iterable[Binding]) -> set[str]:
    return {each.host.pool for each in bindings}


def complete(scene: Scene) -> None:
    scene.submit(jobset(scene.name, Job(replicas=2)))
    scene.wait_condition("Completed")
    bindings = scene.bindings()
    assert len(bindings) == 4
    for job in {each.pod.of.job for each in bindings}:
        assert len(pools_of(each for each in bindings if each.pod.of.job == job)) == 1, "a slice is on one pool"


def restart(scene: Scene) -> None:
    does = runs(20) | {FAIL_ATTEMPTS: "1"}
    scene.submit(jobset(scene.name, Job(does=does), failurePolicy={"maxRestarts": 2}))
    scene.wait_condition("Completed")
    _was_restarted_on_one_pool(scene)


def restart_together(scene: Scene) -> None:
    """All Jobs of the first attempt must be gone before any of the second is made."""
    does = runs(20) | {FAIL_ATTEMPTS: "1"}
    policy = {"maxRestarts": 2, "restartStrategy": "BlockingRecreate"}
    scene.submit(jobset(scene.name, Job(does=does, replicas=2), failurePolicy=policy))
    scene.wait_condition("Completed")
    assert scene.status()["restarts"] == 1
    attempts = {each.pod.restart: each for each in scene.bindings()}
    assert sorted(attempts) == [0, 1]


def _was_restarted_on_one_pool(scene: Scene) -> None:
    assert scene.status()["restarts"] == 1
    bindings = scene.bindings()
    first, second = ({each.pod.uid for each in bindings if each.pod.restart == attempt} for attempt in (0, 1))
    assert first
    assert len(second) == 2
    assert not first & second, "the pods of the second attempt are new"
    assert len(pools_of(bindings)) == 1, "the pool was kept"


def fail(scene: Scene) -> None:
    scene.submit(jobset(scene.name, Job(does=fails(20)), failurePolicy={"maxRestarts": 1}))
    assert scene.wait_condition("Failed")["reason"] == "ReachedMaxRestarts"
    _was_tried_on_one_pool(scene)


def _was_tried_on_one_pool(scene: Scene) -> None:
    assert scene.status()["restarts"] == 1
    assert {each.pod.restart for each in scene.bindings()} == {0, 1}
    assert len(pools_of(scene.bindings())) == 1


def delete_pending(scene: Scene) -> None:
    """GKE answers 503 to every create until the JobSet is gone; then it would accept one."""
    scene.add_fault("fail_sync", method="CreateNodePool", code="UNAVAILABLE", count=None)
    scene.submit(jobset(scene.name))
    scene.wait_call("CreateNodePool", code="UNAVAILABLE")
    assert scene.pods()
    scene.delete()
    scene.wait_no_pods()
    scene.clear_faults()


def delete_creating(scene: Scene) -> None:
    scene.take_seconds(300)
    scene.submit(jobset(scene.name))
    scene.wait_pool(PROVISIONING)
    scene.delete()
    scene.wait_no_pods()
    assert scene.bindings() == []


def delete_running(scene: Scene) -> None:
    scene.submit(jobset(scene.name, Job(does=runs(LONG))))
    scene.wait_running(2)
    scene.delete()
    scene.wait_no_pools()


def recreate_over_stopping(scene: Scene) -> None:
    body = jobset(scene.name)
    first = scene.submit(body | {"spec": jobset(scene.name, Job(does=runs(LONG)))["spec"]})
    scene.wait_running(2)
    scene.delete()
    old = scene.wait_pool(STOPPING)
    scene.wait_closed(old)
    second = scene.submit(body)
    scene.wait_condition("Completed")
    by_owner = {uid: pools_of(b for b in scene.bindings() if b.pod.of.owner_uid == uid) for uid in (first, second)}
    assert by_owner[first] == {old}
    assert len(by_owner[second]) == 1
    assert not by_owner[first] & by_owner[second], "the second JobSet runs on a pool of its own"


def recreate_at_once(scene: Scene) -> None:
    """The old pool is idle when the new pods come: it stays for them, even if they get another."""
    first = scene.submit(jobset(scene.name, Job(does=runs(LONG))))
    scene.wait_running(2)
    scene.delete()
    second = scene.submit(jobset(scene.name, failurePolicy={"maxRestarts": 3}))
    assert first != second
    scene.wait_condition("Completed")
    last = [b for b in scene.bindings() if b.pod.of.owner_uid == second][-2:]
    assert len(pools_of(last)) == 1


def recreate_in_another_shape(scene: Scene) -> None:
    first = scene.submit(jobset(scene.name, Job(does=runs(LONG))))
    scene.wait_running(2)
    scene.delete()
    second = scene.submit(jobset(scene.name, Job(topology="4x4")))
    scene.wait_condition("Completed")
    bindings = scene.bindings()
    assert {each.own for each in bindings} == {True}
    shapes = {each.pod.of.owner_uid: each.host.labels["cloud.google.com/gke-tpu-topology"] for each in bindings}
    assert shapes == {first: "2x4", second: "4x4"}


def suspend_briefly(scene: Scene) -> None:
    scene.submit(jobset(scene.name, Job(does=runs(LONG))))
    scene.wait_running(2)
    scene.suspend()
    scene.resume(does=runs(SHORT))
    scene.wait_condition("Completed")
    assert len(scene.bindings()) == 4, "the pods before and after"
    assert len(pools_of(scene.bindings())) == 1, "the pool was kept"


def suspend_past_the_grace(scene: Scene) -> None:
    scene.submit(jobset(scene.name, Job(does=runs(LONG))))
    scene.wait_running(2)
    scene.suspend()
    scene.wait_no_pools()
    scene.resume(does=runs(SHORT))
    scene.wait_condition("Completed")
    slots = {name.rpartition("-")[0] for name in pools_of(scene.bindings())}
    assert len(slots) == 1, "the slot has a pool again, in whichever attempt"


def resume_over_stopping(scene: Scene) -> None:
    scene.take_seconds(300, "delete")
    scene.submit(jobset(scene.name, Job(does=runs(LONG))))
    scene.wait_running(2)
    scene.suspend()
    scene.wait_closed(scene.wait_pool(STOPPING))
    scene.resume(does=runs(SHORT))
    scene.wait_condition("Completed")
    assert len(pools_of(scene.bindings())) == 2, "a number of an attempt never comes again"


def admit_from_a_queue(scene: Scene) -> None:
    """As Kueue does: created suspended without a place, it gets one by the resuming write."""
    body = jobset(scene.name, Job(pods=2), suspend=True)
    del body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"]
    scene.submit(body)
    scene.wait_condition("Suspended")
    assert scene.pods() == []
    assert scene.calls() == []
    scene.resume(selectors=select("2x4"))
    scene.wait_condition("Completed")
    assert {each.host.labels["cloud.google.com/gke-tpu-topology"] for each in scene.bindings()} == {"2x4"}


def expire(scene: Scene) -> None:
    scene.submit(jobset(scene.name, ttlSecondsAfterFinished=scene.controller_seconds(1)))
    scene.wait_gone()


def follow_the_coordinator(scene: Scene) -> None:
    """The driver's end completes the JobSet while workers run: the pool waits for their end."""
    scene.take_seconds(60)
    driver = Job(name="driver", topology="", pods=1, does=runs(LONG))
    worker = Job(name="worker", does=runs(LONG), annotations=EXCLUSIVE)
    where = {"replicatedJob": "driver", "jobIndex": 0, "podIndex": 0}
    policy = {"operator": "All", "targetReplicatedJobs": ["driver"]}
    scene.submit(jobset(scene.name, driver, worker, annotations={}, coordinator=where, successPolicy=policy))
    pods = scene.wait_running(3)
    told = {pod["metadata"]["labels"][COORDINATOR] for pod in pods}
    assert told == {f"{scene.name}-driver-0-0.{scene.name}"}
    scene.finish("driver")
    scene.wait_condition("Completed")
    scene.wait_no_pods_of("worker")


def start_in_order(scene: Scene) -> None:
    scene.take_seconds(120)
    policy = {"startupPolicyOrder": "InOrder"}
    jobs = (Job(name=name, does=runs(LONG)) for name in ("first", "second"))
    scene.submit(jobset(scene.name, *jobs, startupPolicy=policy))
    scene.wait_call("CreateNodePool", code="OK")
    _second_waits_for_the_first(scene)
    scene.wait_running(4)
    scene.finish("first")
    scene.finish("second")
    scene.wait_condition("Completed")
    _second_came_after_the_first(scene)
    assert len(scene.created()) == 2


def _second_waits_for_the_first(scene: Scene) -> None:
    """Only the first Job exists, unless its pods already have nodes, as on a busy machine."""
    assert scene.jobs() == [f"{scene.name}-first-0"] or scene.bindings()


def _second_came_after_the_first(scene: Scene) -> None:
    bound = [each.pod.of.job for each in scene.bindings()]
    assert bound.index(f"{scene.name}-second-0") >= 2, "both pods of the first were bound before any of the second"
