"""One JobSet on a deployed system, from its apply until its node pools are gone."""

import time
from collections.abc import Callable
from contextlib import closing

import httpx

from demo.deploy.closed_loop import ClosedLoop
from demo.loop.applying import Applier
from demo.loop.demo_manifests import Document
from demo.loop.observer import list_our_pools
from standins.processes.kubeconfig import open_client

SECONDS_MAX = 240.0
_SETTLE_SECONDS = 30.0
_LOOK_SECONDS = 0.3


def run_workload(loop: ClosedLoop, documents: list[Document], say: Callable[[str], None]) -> list[str]:
    """Apply the documents and follow their JobSets; return what went wrong.

    The sweep alone would bring the same end, so each part must have done its own work too.

    Raises ProcessDied: a part of the system ended for good.
    """
    kubeconfig = str(loop.layout.kubeconfig)
    with closing(Applier(kubeconfig)) as applier:
        jobsets = applier.apply(documents).jobsets
    paths = [f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{space}/jobsets/{name}" for space, name in jobsets]
    for space, name in jobsets:
        say(f"JobSet {space}/{name} is applied")
    with (
        httpx.Client(base_url=loop.addresses["gke"], timeout=10, trust_env=False) as gke,
        open_client(kubeconfig) as cluster,
    ):
        problems = _follow(loop, gke, lambda: all(_is_completed(cluster, path) for path in paths), say)
    return problems or _wait_for_parts(loop)


def _follow(
    loop: ClosedLoop, gke: httpx.Client, is_completed: Callable[[], bool], say: Callable[[str], None]
) -> list[str]:
    seen: dict[str, str] = {}
    completed, deadline = False, time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        loop.check()
        if problems := loop.list_problems():
            return problems  # time mends no refusal
        pools = list_our_pools(gke)
        for name in sorted(seen.keys() | pools.keys()):
            status = pools.get(name, "gone")
            if seen.get(name) != status:
                say(f"node pool {name}: {status}")
                seen[name] = status
        if not completed and is_completed():
            completed = True
            say("the workload is completed")
        if completed and not pools:
            return [] if seen else ["the workload is completed, and no node pool was seen"]
        time.sleep(_LOOK_SECONDS)
    missing = "its node pools are not gone" if completed else "the workload is not completed"
    return [f"{missing} after {SECONDS_MAX:.0f} s"]


def _is_completed(cluster: httpx.Client, path: str) -> bool:
    conditions = cluster.get(path).raise_for_status().json().get("status", {}).get("conditions", [])
    return any(each["type"] == "Completed" and each["status"] == "True" for each in conditions)


def _wait_for_parts(loop: ClosedLoop) -> list[str]:
    """Return which part has not done its work, after giving late messages some time."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while (problems := _look_at_parts(loop)) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
    return problems


def _look_at_parts(loop: ClosedLoop) -> list[str]:
    answer = httpx.get(f"{loop.addresses['pubsub']}/admin/subscriptions", timeout=10, trust_env=False)
    counters = {each["name"]: each for each in answer.raise_for_status().json()["subscriptions"]}
    problems = loop.list_problems()
    for caller in loop.deployment.list_pushes():
        found = counters[caller.name]
        if not found["acked"]:
            problems.append(f"{caller.name}: no message was acknowledged")
        if found["backlog"] or found["outstanding"]:
            problems.append(f"{caller.name}: {found['backlog']} messages wait")
        if found["deadLettered"]:
            problems.append(f"{caller.name}: {found['deadLettered']} dead letters")
    problems += [f"{each.name} was never called" for each in loop.doors.values() if not each.passed]
    return problems
