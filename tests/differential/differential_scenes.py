"""The script: scenes that run one after the other, the same on each of the two clusters.

Each scene waits for what it describes before it goes on, so that the result is no race.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.differential.differential_manifests import PINNED, POOL, bare_pod, jobset, light_job, replicated_job
from tests.differential.differential_questions import ask_everything
from tests.differential.differential_rest import is_going
from tests.differential.differential_stage import JSON_PATCH, STRATEGIC, Scene, Stage, leads

Json = dict[str, Any]

NO_NODES = "no nodes available"


def play(stage: Stage) -> None:
    """Run the whole script; the pods of lost nodes take a minute, so they are looked at last."""
    lost = stage.open_scene("lost")
    lose_nodes_under_pods(lost)
    for name, act in SCENES.items():
        scene = stage.open_scene(name)
        act(scene)
        scene.close()
    lost.wait_condition("train", "Failed")
    lost.close()


def lose_nodes_under_pods(scene: Scene) -> None:
    """The node of a running pod vanishes."""
    scene.submit(jobset("train", replicated_job(pods=1)))
    scene.wait("leader", lambda: scene.unschedulable("train"))
    scene.add_pool("a", [0])
    run_slice(scene, "train", 1)
    scene.lose_pool("a")
    scene.rest()


def run_slice(scene: Scene, of: str, pods: int = 2) -> None:
    """Wait until the pods of a JobSet have nodes, and let them run until its Jobs know it."""
    scene.start(*scene.wait_bound(of, pods))
    scene.wait_counted("ready", pods, of)
    scene.rest()


def grow_from_nothing(scene: Scene) -> None:
    """Leaders of every kind without a node; a tainted one; then nodes one by one, to a good end."""
    coordinator = {"replicatedJob": "left", "jobIndex": 0, "podIndex": 0}
    left = replicated_job("left", selector={"slot": "left"}, pod={"priorityClassName": "system-node-critical"})
    right = replicated_job("right", selector={"slot": "right"})
    scene.submit(jobset("train", left, right, coordinator=coordinator, ttlSecondsAfterFinished=2))
    scene.submit(jobset("pinned", annotations=PINNED))
    scene.submit(jobset("plain", replicated_job(selector={"slot": "nowhere"}), annotations={}))
    scene.wait("all waiting", lambda: len(scene.unschedulable(saying=NO_NODES)) == 6)
    scene.rest()
    scene.add_pool("tainted", [0], labels={"slot": "left"}, taint="maintenance")
    scene.wait("the taint seen", lambda: len(scene.unschedulable(saying="0/1 nodes")) == 6)
    scene.rest()
    scene.add_pool("left", [0], labels={"slot": "left"})
    scene.wait_bound("train", 1)
    scene.wait("follower", lambda: scene.unschedulable("train", saying="Insufficient"))
    scene.rest()
    scene.add_pool("left", [1], labels={"slot": "left"})
    scene.wait_bound("train", 2)
    scene.rest()
    scene.add_pool("right", [0, 1], labels={"slot": "right"})
    scene.wait_bound("train", 4)
    scene.rest()
    finish_one_by_one(scene)


def finish_one_by_one(scene: Scene) -> None:
    """The pods of both slices succeed one after the other; the JobSet is removed after its TTL."""
    pods = scene.bound("train")
    scene.start(*pods)
    scene.wait_counted("ready", len(pods), "train")
    for count, pod in enumerate(pods, start=1):
        scene.finish(pod)
        scene.wait_counted("succeeded", count, "train")
    scene.wait_condition("train", "Completed")
    scene.wait_gone("train")


def fail_and_restart(scene: Scene) -> None:
    """One failure too many; and a policy that waits until the old Jobs are gone."""
    for name, strategy in (("twice", "Recreate"), ("blocking", "BlockingRecreate")):
        policy = {"maxRestarts": 1, "restartStrategy": strategy}
        scene.add_pool(name, labels={"slot": name})
        scene.submit(jobset(name, replicated_job(selector={"slot": name}), failurePolicy=policy))
    for name in ("twice", "blocking"):
        scene.wait_bound(name, 2)
    for name in ("twice", "blocking"):
        run_slice(scene, name)
        scene.finish(follower_of(scene, name), exit_code=1)
    for name in ("twice", "blocking"):
        scene.wait(f"{name} restarted", partial(is_restarted, scene, name), reaping=True)
    for name in ("twice", "blocking"):
        run_slice(scene, name)
    scene.finish(leader_of(scene, "twice"), exit_code=3)
    scene.finish(*scene.bound("blocking"))
    scene.wait_condition("twice", "Failed", reaping=True)
    scene.wait_condition("blocking", "Completed", reaping=True)
    scene.wait("no pod is going", lambda: not going(scene), reaping=True)


def suspend_and_resume(scene: Scene) -> None:
    """Created suspended, resumed, suspended while it runs, resumed elsewhere, suspended again."""
    scene.add_pool("a", labels={"slot": "a"})
    scene.add_pool("b", labels={"slot": "b"})
    scene.submit(jobset("train", replicated_job(selector={"slot": "a"}), suspend=True))
    scene.wait_condition("train", "Suspended")
    scene.rest()
    scene.patch("jobsets", "train", {"spec": {"suspend": False}})
    run_slice(scene, "train")
    scene.patch("jobsets", "train", {"spec": {"suspend": True}})
    scene.wait_condition("train", "Suspended")
    scene.wait("drained", lambda: not scene.pods("train"), reaping=True)
    scene.rest()
    slot = "/spec/replicatedJobs/0/template/spec/template/spec/nodeSelector/slot"
    move: Json = {"op": "replace", "path": slot, "value": "b"}
    resume: Json = {"op": "replace", "path": "/spec/suspend", "value": False}
    scene.patch("jobsets", "train", [move, resume], JSON_PATCH)
    run_slice(scene, "train")
    scene.finish(*scene.bound("train"))
    scene.wait_condition("train", "Completed")


def delete_and_recreate(scene: Scene) -> None:
    """Background and foreground deletion under running pods; the same name again at once."""
    scene.add_pool("a", labels={"slot": "a"})
    scene.add_pool("b", labels={"slot": "b"})
    first = jobset("first", replicated_job(selector={"slot": "a"}))
    scene.submit(first)
    scene.submit(jobset("second", replicated_job(selector={"slot": "b"}), annotations={}))
    scene.wait_bound("second", 2)
    run_slice(scene, "first")
    run_slice(scene, "second")
    scene.delete("jobsets", "first", propagation="Background")
    scene.wait("its pods going", lambda: len(going(scene)) == 2)
    scene.rest()
    scene.submit(first)
    scene.wait("its successor waiting", lambda: scene.unschedulable("first"))
    scene.delete("jobsets", "second", propagation="Foreground")
    scene.wait("more pods going", lambda: len(going(scene)) == 4)
    scene.rest()
    scene.reap()
    scene.wait_gone("second")
    run_slice(scene, "first")
    scene.finish(*scene.bound("first"))
    scene.wait_condition("first", "Completed")
    scene.delete("jobsets", "first", propagation="Foreground")
    scene.wait_gone("first")


def start_in_order(scene: Scene) -> None:
    """A start in order, and a success that does not wait for every replicated job."""
    scene.add_pool("a", [0])
    order = {"startupPolicyOrder": "InOrder"}
    jobs = (light_job("one"), light_job("two", replicas=2))
    scene.submit(jobset("ordered", *jobs, annotations={}, startupPolicy=order))
    success = {"operator": "All", "targetReplicatedJobs": ["two"]}
    scene.submit(jobset("led", light_job("one"), light_job("two"), annotations={}, successPolicy=success))
    scene.wait_bound("led", 2)
    run_slice(scene, "ordered", 1)
    start_waiting(scene, "ordered", 3)
    scene.wait_condition("ordered", "StartupPolicyCompleted")
    scene.rest()
    run_slice(scene, "led")
    scene.finish(*[pod for pod in scene.bound("led") if "-two-" in pod["metadata"]["name"]])
    scene.wait_condition("led", "Completed")
    scene.wait("the other stopped", lambda: not going(scene) and not scene.jobs("led")[1:], reaping=True)


def start_waiting(scene: Scene, of: str, bound: int) -> list[Json]:
    """Wait for so many bound pods of a JobSet, start those that do not run, return these."""
    found = [pod for pod in scene.wait_bound(of, bound) if pod["status"]["phase"] == "Pending"]
    scene.start(*found)
    return found


def enter_and_leave(scene: Scene) -> None:
    """Pods enter and leave selections by labels, phase and binding; gates and direct edits."""
    scene.add_pool("a", [0])
    tolerations = [{"key": "google.com/tpu", "operator": "Exists"}]
    free: Json = {"nodeSelector": {POOL: f"{scene.namespace}-a"}, "tolerations": tolerations}
    scene.submit(bare_pod("tagged", labels={"tag": "in"}), "pods")
    scene.submit(bare_pod("gated", labels={"tag": "out"}, schedulingGates=[{"name": "hold"}], **free), "pods")
    scene.submit(bare_pod("placed", **free), "pods")
    scene.rest()
    for tag in ("inside", "out", "in", None):
        scene.patch("pods", "tagged", {"metadata": {"labels": {"tag": tag}}})
    scene.patch("pods", "gated", {"metadata": {"labels": {"tag": "in"}}})
    scene.patch("pods", "gated", {"spec": {"schedulingGates": None}}, STRATEGIC)
    scene.wait("bound", lambda: len(scene.bound()) == 2)
    scene.start(*scene.bound())
    scene.finish(*[pod for pod in scene.bound() if pod["metadata"]["name"] == "placed"])
    scene.finish(*[pod for pod in scene.bound() if pod["metadata"]["name"] == "gated"], exit_code=7)
    scene.rest()
    for name in ("tagged", "placed", "gated"):
        scene.delete("pods", name)
    scene.wait("gone", lambda: not scene.pods())


def drain_a_running_slice(scene: Scene) -> None:
    """GKE removes a pool: cordoned, pods deleted, nodes removed; the workload starts again.

    With one pod, for of two the second is deleted by whoever is faster, GKE or the Job.
    """
    scene.add_pool("a", [0])
    scene.submit(jobset("train", replicated_job(pods=1), failurePolicy={"maxRestarts": 2}))
    run_slice(scene, "train", 1)
    scene.remove_pool("a")
    scene.wait("a new leader waits", lambda: scene.unschedulable("train"), reaping=True)
    scene.rest()
    scene.add_pool("b", [0])
    run_slice(scene, "train", 1)


def follower_of(scene: Scene, jobset_name: str) -> Json:
    """The bound pod that is not the first of its Job."""
    return next(pod for pod in scene.bound(jobset_name) if not leads(pod))


def leader_of(scene: Scene, jobset_name: str) -> Json:
    """The bound pod that is the first of its Job."""
    return next(pod for pod in scene.bound(jobset_name) if leads(pod))


def going(scene: Scene) -> list[Json]:
    """The pods that are being deleted."""
    return [pod for pod in scene.pods() if is_going(pod)]


def is_restarted(scene: Scene, name: str) -> bool:
    """Whether the second attempt of a JobSet has its pods, and the first has none left."""
    attempts = [pod["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] for pod in scene.pods(name)]
    return attempts == ["1", "1"] and len(scene.bound(name)) == 2


SCENES: dict[str, Callable[[Scene], None]] = {
    "grow": grow_from_nothing,
    "restart": fail_and_restart,
    "suspend": suspend_and_resume,
    "delete": delete_and_recreate,
    "order": start_in_order,
    "select": enter_and_leave,
    "drain": drain_a_running_slice,
    "answers": ask_everything,
}
