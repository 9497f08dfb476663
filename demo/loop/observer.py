"""The observer: watches a running stack through its public APIs and logs, into one queue.

Four watches on Kubernetes, a poll of the GKE API, and the log files of the exporter and the
functions, each in a daemon thread of its own. It changes nothing.
"""

import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import httpx

from demo.loop.growing_logs import CallLog, RecordLog
from demo.loop.kubernetes_views import read_jobset, read_node, read_pod
from demo.loop.observations import Observation, PoolsListed
from demo.loop.watching import ResourceWatch
from demo.stack.commands import Addresses
from demo.stack.layout import CLUSTER_PATH, FUNCTIONS, Layout
from shared.model import labels

Tell = Callable[[Observation], None]

_POLL_SECONDS = 0.2
_LIST_SECONDS_MAX = 10.0
_END_SECONDS_MAX = 5.0


class Observer:
    """Sees everything about a stack; used as a context manager, read with `drain`."""

    def __init__(self, layout: Layout, addresses: Addresses) -> None:
        self._queue: queue.SimpleQueue[Observation] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._gke = GkePoll(addresses.gke_rest, self._queue.put, self._stopping)
        watch = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
        self._watches = [
            ResourceWatch(addresses.kubeconfig, path, read, self._queue.put)
            for path, read in ((watch, read_jobset), ("/api/v1/pods", read_pod), ("/api/v1/nodes", read_node))
        ]
        self._tails = [LogTail(layout.log(name), name, self._queue.put, self._stopping) for name in LOGS]

    def __enter__(self) -> Self:
        for thread in (*self._watches, self._gke, *self._tails):
            thread.start()
        for watch in self._watches:
            watch.listed.wait(_LIST_SECONDS_MAX)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for watch in self._watches:
            watch.end()
        for thread in (*self._watches, self._gke, *self._tails):
            thread.join(_END_SECONDS_MAX)

    @property
    def own_list_calls(self) -> int:
        """How often this observer itself listed the node pools."""
        return self._gke.lists

    def drain(self, seconds: float) -> list[Observation]:
        """Return what was observed since the last call; wait at most this long for the first."""
        found: list[Observation] = []
        try:
            found.append(self._queue.get(timeout=seconds))
            while True:
                found.append(self._queue.get_nowait())
        except queue.Empty:
            return found


LOGS = ("exporter", *FUNCTIONS)


class LogTail(threading.Thread):
    """Follows one log file from its beginning and tells the records of interest."""

    def __init__(self, path: Path, name: str, tell: Tell, stopping: threading.Event) -> None:
        super().__init__(name=f"log of {name}", daemon=True)
        self._log, self._tell, self._stopping = RecordLog(path, name), tell, stopping

    def run(self) -> None:
        """Follow until the end."""
        while not self._stopping.wait(_POLL_SECONDS / 2):
            for observation in self._log.read():
                self._tell(observation)


class GkePoll(threading.Thread):
    """Lists the node pools through GKE's public API, and reads which calls were made."""

    def __init__(self, url: str, tell: Tell, stopping: threading.Event) -> None:
        super().__init__(name="poll of GKE", daemon=True)
        self._client = httpx.Client(base_url=url, timeout=10)
        self._calls = CallLog(self._client)
        self._tell, self._stopping = tell, stopping
        self.lists = 0
        """How many list calls this thread made."""

    def run(self) -> None:
        """Poll until the end; an answer that fails is simply asked for again."""
        with self._client:
            while not self._stopping.wait(_POLL_SECONDS):
                try:
                    self._look()
                except (httpx.HTTPError, ValueError):
                    self._stopping.wait(_POLL_SECONDS)

    def _look(self) -> None:
        for call in self._calls.read():
            self._tell(call)
        self._tell(PoolsListed(at=time.time(), pools=self._list()))

    def _list(self) -> dict[str, str]:
        self.lists += 1
        return list_our_pools(self._client)


def list_our_pools(client: httpx.Client) -> dict[str, str]:
    """Return name and status of every node pool that carries the provisioner's manager label.

    The client's base URL is the GKE API.
    """
    answer = client.get(f"/v1/{CLUSTER_PATH}/nodePools").raise_for_status()
    return {
        str(pool["name"]): str(pool.get("status", ""))
        for pool in answer.json().get("nodePools", [])
        if pool.get("config", {}).get("labels", {}).get(labels.MANAGER) == labels.MANAGER_VALUE
    }
