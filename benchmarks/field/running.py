"""One run of the field: what is applied, how long it is followed, and its record."""

import json
import math
import os
import platform
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.field.go_stack import PROCESS, GoStack, describe_program
from benchmarks.field.recorder import Heartbeats, Recorder
from benchmarks.field.records import CREATE, DELETE, FanOut, Record, Side, find_accepted
from benchmarks.metering import Failed
from demo.settings import FUNCTIONS, PROJECT_ROOT, ClusterKind, StackSettings
from demo.stack import Stack
from shared.version import VERSION
from standins.kit.kubernetes import open_client
from standins.kubelet.statuses import ended

Json = dict[str, Any]
HOSTS, CHIPS = 4, 4
"""Of one v6e slice of 4x4 chips."""
_POOL_LABEL = "cloud.google.com/gke-nodepool"
_RUN_SECONDS = "local.tpu-provisioner/run-seconds"
_JOBS_MAX = 100
"""Slices of one JobSet of the fan-out."""


def build_jobset(slices: int, run_seconds: float) -> Json:
    """Return a JobSet of v6e slices of 4x4 chips, as the examples of both provisioners have it."""
    return _jobset(f"field-{slices}", slices, hosts=HOSTS, topology="4x4", run_seconds=run_seconds)


def build_crowd(leaders: int, run_seconds: float) -> list[Json]:
    """Return JobSets with so many slices of one host in all, so that each pod is a leader."""
    sizes = [min(_JOBS_MAX, leaders - first) for first in range(0, leaders, _JOBS_MAX)]
    assert sum(sizes) == leaders
    assert len(sizes) == math.ceil(leaders / _JOBS_MAX)
    return [
        _jobset(f"crowd-{number}", size, hosts=1, topology="2x2", run_seconds=run_seconds)
        for number, size in enumerate(sizes)
    ]


def _jobset(name: str, slices: int, *, hosts: int, topology: str, run_seconds: float) -> Json:
    container = {"name": "trainer", "image": "trainer", "resources": {"limits": {"google.com/tpu": CHIPS}}}
    selector = {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": topology,
    }
    pod = {
        "metadata": {"annotations": {_RUN_SECONDS: f"{run_seconds:g}"}},
        "spec": {"restartPolicy": "Never", "nodeSelector": selector, "containers": [container]},
    }
    job = {
        "parallelism": hosts,
        "completions": hosts,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": pod,
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": _POOL_LABEL},
        },
        "spec": {
            "failurePolicy": {"maxRestarts": 3},
            "replicatedJobs": [{"name": "s", "replicas": slices, "template": {"spec": job}}],
        },
    }


OPERATION_SECONDS = 60.0
RUN_SECONDS = 30.0
"""How long all slices run side by side, before all of their pods succeed."""
PENDING_SECONDS = 1.0
_FIRST_CREATE_SECONDS_MAX = 600.0
_DEPLOYED = ("functions", "exporter", "shared")
_NEVER_SECONDS = 1_000_000.0
_STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
_LOOK_SECONDS = 0.05
_REFUSED = "RESOURCE_EXHAUSTED"


def run_jobset(
    side: Side,
    slices: int,
    folder: Path,
    *,
    program: Path | None,
    kill: bool,
    seconds_max: float,
    say: Callable[[str], None],
) -> Record:
    """Return the record of one run, on the real control plane and in real time.

    After `seconds_max` the run ends as it is: what was not done by then is a result too.

    Raises:
        Failed: no create was accepted.
        ValueError: the Go side was given no program.
    """
    settings = StackSettings(
        speed=1.0, cluster=ClusterKind.REAL, lease_seconds=0, faults=str(write_faults(folder))
    )
    load = os.getloadavg()[0]
    if side is Side.GO and program is None:
        raise ValueError("program: is missing; valid: the path of the Go provisioner's executable")
    stack = GoStack(folder, settings, program) if program and side is Side.GO else Stack(folder, settings)
    names = (PROCESS,) if side is Side.GO else ("exporter", *FUNCTIONS)
    with stack:
        addresses = stack.addresses
        recorder = Recorder(addresses.kubeconfig, addresses.gke_rest, stack.supervisor, names)
        with recorder, Heartbeats(addresses.kubeconfig):
            applied_at = time.time()
            _apply(addresses.kubeconfig, [build_jobset(slices, _NEVER_SECONDS)])
            killed_at = _kill_in_the_middle(stack, recorder, names) if kill else 0.0
            _follow(stack, recorder, slices, applied_at + seconds_max, say)
            _expect_creates(recorder)
            return Record(
                side=side,
                slices=slices,
                killed_at=killed_at,
                applied_at=applied_at,
                unschedulable=recorder.seen.unschedulable,
                slice_of_pool=recorder.seen.map_pools(),
                over_at=recorder.seen.over_at,
                calls=recorder.list_calls(),
                memory=recorder.memory,
                program=describe_program(program) if program and side is Side.GO else describe_checkout(),
                machine=describe_machine(),
                load=load,
            )


def run_fan_out(
    limit: int, leaders: int, speed: float, folder: Path, *, seconds_max: float, say: Callable[[str], None]
) -> FanOut:
    """Return the record of many leaders at once on the local stack, until GKE accepted all creates.

    After `seconds_max` the run ends as it is.

    Raises Failed: no create was accepted.
    """
    faults = write_faults(folder, limit=limit)
    load = os.getloadavg()[0]
    with Stack(folder, StackSettings(speed=speed, faults=str(faults))) as stack:
        addresses = stack.addresses
        with Recorder(addresses.kubeconfig, addresses.gke_rest, stack.supervisor, ()) as recorder:
            started_at = time.time()
            _apply(addresses.kubeconfig, build_crowd(leaders, _NEVER_SECONDS))
            while len(accepted := find_accepted(calls := recorder.list_calls(), CREATE)) < leaders:
                stack.check()
                if time.time() - started_at > seconds_max:
                    break
                say(f"{len(accepted)} of {leaders} creates accepted")
                time.sleep(2.0)
            _expect_creates(recorder)
            began = recorder.seen.unschedulable.values()
            return FanOut(
                limit=limit,
                leaders=leaders,
                speed=speed,
                operation_seconds=OPERATION_SECONDS + PENDING_SECONDS,
                started_at=min(began, default=started_at),
                accepted_at=sorted(accepted.values()),
                refused=sum(each.method == CREATE and each.code == _REFUSED for each in calls),
                machine=describe_machine(),
                load=load,
            )


def write_faults(folder: Path, *, limit: int = 0) -> Path:
    """Write the settings of the fake GKE: operations of 60 s, and the limit of operations, if any.

    With a limit no node comes up. So the cluster's scheduler has nothing to do, and no leader takes
    the pool of another one.
    """
    faults: list[dict[str, Any]] = [
        {"switch": "duration", "operation": operation, "seconds": OPERATION_SECONDS}
        for operation in ("create", "delete")
    ]
    if limit:
        faults += [{"switch": switch, "value": limit} for switch in ("max_running_ops", "max_inflight_ops")]
        faults.append({"switch": "late_nodes", "nodes": 1, "seconds": _NEVER_SECONDS})
    timings = {"timings": {"pending": [PENDING_SECONDS, PENDING_SECONDS]}} if limit else {}
    path = folder / "faults.json"
    folder.mkdir(parents=True, exist_ok=True)
    # The Go program turns upgrades off, and GKE allows that only without a channel.
    path.write_text(json.dumps({"faults": faults, "release_channel": "UNSPECIFIED", **timings}))
    return path


def describe_checkout() -> str:
    """Return the version of this project, and the last commit that changed what is deployed."""
    log = ["git", "-C", str(PROJECT_ROOT), "log", "-1", "--format=%h"]
    command = [*log, "--", *_DEPLOYED]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return f"{VERSION} at {answer.stdout.strip() or 'unknown commit'}"


def describe_machine() -> str:
    """Return what the runs took place on."""
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def _apply(kubeconfig: str, jobsets: list[dict[str, Any]]) -> None:
    with open_client(kubeconfig, timeout_seconds=60.0) as client:
        for each in jobsets:
            path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
            client.post(path, json=each).raise_for_status()


def _kill_in_the_middle(stack: Stack, recorder: Recorder, names: tuple[str, ...]) -> float:
    """Kill the provisioner once its first create was accepted; return when.

    The supervisor starts it again.
    """
    until = time.time() + _FIRST_CREATE_SECONDS_MAX
    while not find_accepted(recorder.list_calls(), CREATE):
        stack.check()
        if time.time() > until:
            raise Failed("no create was accepted")
        time.sleep(_LOOK_SECONDS)
    for name in names:
        stack.kill(name)
    return time.time()


def _expect_creates(recorder: Recorder) -> None:
    """Raise `Failed` if GKE accepted no create: such a run has no figures."""
    calls = recorder.list_calls()
    if not find_accepted(calls, CREATE):
        refused = Counter(each.code for each in calls if each.method == CREATE)
        raise Failed(f"no create was accepted; GKE answered {dict(refused) or 'none'}")


def _follow(stack: Stack, recorder: Recorder, slices: int, until: float, say: Callable[[str], None]) -> None:
    """Follow a run until its pools are gone; end its pods once all slices have run side by side."""
    told, end_at = "", math.inf
    while time.time() < until:
        stack.check()
        calls = recorder.list_calls()
        created, deleted = find_accepted(calls, CREATE), find_accepted(calls, DELETE)
        started = recorder.seen.count_started()
        text = f"{len(created)} of {slices} creates, {started} pods started, {len(deleted)} deletes accepted"
        if text != told:
            told = text
            say(text)
        if started >= slices * HOSTS and math.isinf(end_at):
            end_at = time.time() + RUN_SECONDS
        if time.time() >= end_at and not recorder.seen.over_at:
            _end_pods(stack.addresses.kubeconfig)
        if len(deleted) >= slices and recorder.count_pools() == 0:
            return
        time.sleep(1.0)


def _end_pods(kubeconfig: str) -> None:
    """Let every pod that runs succeed, as the programs of one training job do, all at once."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with open_client(kubeconfig, timeout_seconds=60.0) as client:
        found = client.get("/api/v1/namespaces/default/pods", params={"fieldSelector": "status.phase=Running"})
        for pod in found.raise_for_status().json()["items"]:
            path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/status"
            client.patch(path, json=ended(pod, now, exit_code=0), headers=_STRATEGIC).raise_for_status()
