"""Records one run through public APIs: watches, calls of GKE, memory, heartbeats."""

import random
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Self

import httpx
import msgspec
import psutil

from benchmarks.field.records import Call, Memory
from standins.kit.addresses import STAND_IN
from standins.kit.kubernetes import Json, ResourceWatch, open_client
from standins.kit.processes import Processes

PERIOD_SECONDS = 300.0
"""https://kubernetes.io/docs/reference/node/node-status/#heartbeats."""
_LOOK_SECONDS = 2.0


class Heartbeats:
    """Reports for every accelerator node, each at its own time, while its ``with`` block runs."""

    def __init__(self, kubeconfig: str) -> None:
        self._client = open_client(kubeconfig, timeout_seconds=30.0)
        self._due: dict[str, float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            try:
                self._look()
            except httpx.HTTPError:
                continue

    def _look(self) -> None:
        selector = {"labelSelector": "cloud.google.com/gke-tpu-accelerator"}
        nodes = self._client.get("/api/v1/nodes", params=selector).raise_for_status().json()["items"]
        now = time.time()
        for node in nodes:
            name = node["metadata"]["name"]
            # Of the name alone, so that both sides get the same.
            first = now + random.Random(name).uniform(0, PERIOD_SECONDS)
            if self._due.setdefault(name, first) <= now:
                self._due[name] = now + PERIOD_SECONDS
                self._client.patch(
                    f"/api/v1/nodes/{name}/status",
                    json=build_report(node, now),
                    headers={"Content-Type": "application/merge-patch+json"},
                )


def build_report(node: dict[str, Any], now: float) -> dict[str, Any]:
    """Return the patch of a node's status that changes nothing but the times of its reports."""
    at = datetime.fromtimestamp(now, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = node.get("status", {}).get("conditions") or []
    return {"status": {"conditions": [{**each, "lastHeartbeatTime": at} for each in conditions]}}


_LISTED_SECONDS_MAX = 30.0
_SAMPLE_SECONDS = 1.0
_PAUSES_SECONDS = (0.1, 1.0, 10.0)
_MEBIBYTE = 1024 * 1024
_INDEX = "batch.kubernetes.io/job-completion-index"
_JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"


class FirstSeen:
    """What the watches have told so far, by first time."""

    def __init__(self) -> None:
        self.unschedulable: dict[str, float] = {}
        self.over_at = 0.0
        self._job_of_node: dict[str, str] = {}
        self._pool_of_node: dict[str, str] = {}
        self._running: set[str] = set()
        self._lock = threading.Lock()

    def note_jobset(self, body: Json, *, gone: bool) -> None:  # noqa: ARG002 -- the shape of a watch
        """Take the state of a JobSet, from any thread."""
        if has_condition(body, "Completed"):
            self.over_at = self.over_at or time.time()

    def note_node(self, body: Json, *, gone: bool) -> None:  # noqa: ARG002 -- the shape of a watch
        """Take the state of a node, from any thread."""
        pool = (body["metadata"].get("labels") or {}).get("cloud.google.com/gke-nodepool")
        with self._lock:
            if pool:
                self._pool_of_node.setdefault(body["metadata"]["name"], pool)

    def note_pod(self, body: Json, *, gone: bool) -> None:  # noqa: ARG002 -- the shape of a watch
        """Take the state of a pod, from any thread; only pods of Jobs count."""
        metadata, node = body["metadata"], body["spec"].get("nodeName")
        job = (metadata.get("labels") or {}).get("batch.kubernetes.io/job-name")
        if not job:
            return
        with self._lock:
            leads = (metadata.get("annotations") or {}).get(_INDEX) == "0"
            if leads and has_condition(body, "PodScheduled", "False"):
                self.unschedulable.setdefault(job, time.time())
            if body["status"].get("phase") == "Running":
                self._running.add(metadata["uid"])
            if node:
                self._job_of_node.setdefault(node, job)

    def count_started(self) -> int:
        """Return how many pods have run."""
        with self._lock:
            return len(self._running)

    def map_pools(self) -> dict[str, str]:
        """Return the Job whose pods ran on each pool."""
        with self._lock:
            pairs = ((self._pool_of_node.get(node), job) for node, job in self._job_of_node.items())
            return {pool: job for pool, job in pairs if pool}


def has_condition(body: Json, name: str, status: str = "True") -> bool:
    """Return whether a condition of an object has a status."""
    conditions = body.get("status", {}).get("conditions") or ()
    return any((each["type"], each["status"]) == (name, status) for each in conditions)


def ask_again(ask: Callable[[], Any]) -> Any:
    """Return the answer; ask again when a connection breaks, so that no run of an hour is lost.

    Raises httpx.TransportError: the last of several connections broke too.
    """
    for pause_seconds in _PAUSES_SECONDS:
        try:
            return ask()
        except httpx.TransportError:
            time.sleep(pause_seconds)
    return ask()


class Recorder:
    """Watches the cluster and the memory of the named processes while its ``with`` block runs."""

    def __init__(self, kubeconfig: str, gke_rest: str, supervisor: Processes, names: Iterable[str]) -> None:
        self.seen = FirstSeen()
        notes = (
            (_JOBSETS, self.seen.note_jobset),
            ("/api/v1/pods", self.seen.note_pod),
            ("/api/v1/nodes", self.seen.note_node),
        )
        self._watches = [ResourceWatch(kubeconfig, path, note) for path, note in notes]
        self._gke = httpx.Client(base_url=gke_rest, timeout=60)
        self._supervisor, self._names = supervisor, set(names)
        self.memory: dict[str, Memory] = {}
        self._stopping = threading.Event()
        self._sampler = threading.Thread(target=self._sample_all, name="memory", daemon=True)

    def __enter__(self) -> Self:
        for thread in (*self._watches, self._sampler):
            thread.start()
        for watch in self._watches:
            watch.listed.wait(_LISTED_SECONDS_MAX)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for watch in self._watches:
            watch.end()
        for thread in (*self._watches, self._sampler):
            thread.join()
        self._gke.close()

    def list_calls(self) -> list[Call]:
        """Return every call of GKE so far, without those of GKE's own autoscaler."""
        calls = [each for each in self._ask("/admin/calls")["calls"] if each["skin"] != STAND_IN]
        return msgspec.convert(calls, list[Call])

    def count_pools(self) -> int:
        """Return how many pools there are now; it is no call of GKE's API."""
        return len(self._ask("/admin/pools")["pools"])

    def _ask(self, path: str) -> Any:
        return ask_again(lambda: self._gke.get(path).raise_for_status().json())

    def _sample_all(self) -> None:
        while not self._stopping.wait(_SAMPLE_SECONDS):
            for state in self._supervisor.states():
                if state.name in self._names:
                    with suppress(psutil.Error):
                        self._sample(state.name, state.pid)

    def _sample(self, name: str, pid: int) -> None:
        process = psutil.Process(pid)
        sizes = [each.memory_full_info() for each in (process, *process.children(recursive=True))]
        before = self.memory.get(name, Memory(largest=0.0, together=0.0))
        self.memory[name] = Memory(
            largest=max(before.largest, *(each.rss / _MEBIBYTE for each in sizes)),
            together=max(before.together, sum(each.pss for each in sizes) / _MEBIBYTE),
        )
