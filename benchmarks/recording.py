"""A run on the local cloud, watched from outside: JobSets in, calls of GKE and moments out."""

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import httpx
import msgspec
import yaml

from benchmarks.processes import ROOT, Failed
from demo.stack import Stack
from standins.kit.addresses import STAND_IN
from standins.kit.kubernetes import STRATEGIC, Json, ResourceWatch, open_client
from standins.kubelet.statuses import ended

CREATE, DELETE = "CreateNodePool", "DeleteNodePool"
HOSTS = 4  # of one v6e slice of 4x4 chips
_EXAMPLE = ROOT / "examples/v6e-two-slices.yaml"
NEVER_SECONDS = 1_000_000.0
_INDEX = "batch.kubernetes.io/job-completion-index"
_JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
_NEW_JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call of GKE, as the fake GKE recorded it; `at` is Unix seconds."""

    method: str
    pool: str
    code: str
    at: float


def find_accepted(calls: list[Call], method: str) -> dict[str, float]:
    """Return when the first call of this method was accepted, by pool."""
    accepted: dict[str, float] = {}
    for each in calls:
        if each.method == method and each.code == "OK":
            accepted.setdefault(each.pool, each.at)
    return accepted


class Recorder:
    """Watches pods and JobSets of a stack while its ``with`` block runs."""

    def __init__(self, stack: Stack) -> None:
        addresses = stack.addresses
        self.unschedulable_at: dict[str, float] = {}
        """When each slice's leader was first seen unschedulable, by Job."""
        self.over_at = 0.0
        """When a JobSet was first seen completed."""
        self._running: set[str] = set()
        self._lock = threading.Lock()
        self._stack, self._kubeconfig = stack, addresses.kubeconfig
        self._gke = httpx.Client(base_url=addresses.google_rest, timeout=60)
        notes = {_JOBSETS: self._note_jobset, "/api/v1/pods": self._note_pod}
        self._watches = [ResourceWatch(addresses.kubeconfig, path, note) for path, note in notes.items()]

    def __enter__(self) -> Self:
        for watch in self._watches:
            watch.start()
        for watch in self._watches:
            watch.listed.wait()
        return self

    def __exit__(self, *_: object) -> None:
        for watch in self._watches:
            watch.end()
        for watch in self._watches:
            watch.join()
        self._gke.close()

    def list_calls(self) -> list[Call]:
        """Return every call of GKE so far, without those of GKE's own autoscaler."""
        calls = [each for each in self._ask("calls") if each["skin"] != STAND_IN]
        return msgspec.convert(calls, list[Call])

    def count_pools(self) -> int:
        """Return how many pools there are now; it is no call of GKE's API."""
        return len(self._ask("pools"))

    def count_started(self) -> int:
        """Return how many pods have run."""
        with self._lock:
            return len(self._running)

    def apply(self, jobsets: list[Json]) -> None:
        """Create JobSets in the default namespace."""
        with open_client(self._kubeconfig, timeout_seconds=60.0) as client:
            for each in jobsets:
                client.post(_NEW_JOBSETS, json=each).raise_for_status()

    def end_pods(self) -> None:
        """Let every pod that runs succeed, as the programs of one training job do, all at once."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        running = {"fieldSelector": "status.phase=Running"}
        with open_client(self._kubeconfig, timeout_seconds=60.0) as client:
            pods = client.get("/api/v1/namespaces/default/pods", params=running).raise_for_status().json()
            for pod in pods["items"]:
                path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/status"
                client.patch(path, json=ended(pod, now, exit_code=0), headers=STRATEGIC).raise_for_status()

    def follow(self, seconds_max: float, look: Callable[[list[Call]], bool]) -> list[Call]:
        """Look at the calls each half second until it is enough; return all.

        Raises Failed: the time has passed, or a part of the stack died.
        """
        deadline = time.time() + seconds_max
        while not look(calls := self.list_calls()):
            self._stack.supervisor.check()
            if time.time() > deadline:
                done = ", ".join(f"{len(find_accepted(calls, each))} {each}" for each in (CREATE, DELETE))
                raise Failed(f"not done after {seconds_max:g} s; GKE has accepted {done}")
            time.sleep(0.5)
        return calls

    def _ask(self, what: str) -> list[Json]:
        answer: dict[str, list[Json]] = self._gke.get(f"/admin/{what}").raise_for_status().json()
        return answer[what]

    def _note_jobset(self, body: Json, *, gone: bool) -> None:  # noqa: ARG002 -- the shape of a watch
        if has_condition(body, "Completed"):
            self.over_at = self.over_at or time.time()

    def _note_pod(self, body: Json, *, gone: bool) -> None:  # noqa: ARG002 -- the shape of a watch
        metadata = body["metadata"]
        job = (metadata.get("labels") or {}).get("batch.kubernetes.io/job-name")
        leads = (metadata.get("annotations") or {}).get(_INDEX) == "0"
        with self._lock:
            if job and leads and has_condition(body, "PodScheduled", "False"):
                self.unschedulable_at.setdefault(job, time.time())
            if job and body["status"].get("phase") == "Running":
                self._running.add(metadata["uid"])


def has_condition(body: Json, name: str, status: str = "True") -> bool:
    """Return whether a condition of an object has a status."""
    conditions = body.get("status", {}).get("conditions") or ()
    return any((each["type"], each["status"]) == (name, status) for each in conditions)


def build_jobset(name: str, slices: int, *, hosts: int = HOSTS, topology: str = "4x4") -> Json:
    """Return the JobSet of the example with so many slices, whose pods run until they are ended."""
    body: Json = yaml.safe_load(_EXAMPLE.read_text(encoding="utf-8"))
    body["metadata"]["name"] = name
    (replicated,) = body["spec"]["replicatedJobs"]
    job = replicated["template"]["spec"]
    replicated["replicas"], job["parallelism"], job["completions"] = slices, hosts, hosts
    job["template"]["metadata"] = {"annotations": {"local.tpu-provisioner/run-seconds": f"{NEVER_SECONDS:g}"}}
    job["template"]["spec"]["nodeSelector"]["cloud.google.com/gke-tpu-topology"] = topology
    return body


def write_faults(path: Path, *, operation_seconds: float, **settings: Any) -> str:
    """Write a file of faults for the fake GKE, whose operations take so long; return its path."""
    durations: list[Json] = [
        {"switch": "duration", "operation": operation, "seconds": operation_seconds}
        for operation in ("create", "delete")
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**settings, "faults": [*durations, *settings.get("faults", ())]}))
    return str(path)
