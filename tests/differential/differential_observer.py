"""Sees every event of every watch of a cluster, in order, by the exporter's own client.

The events are kept as they came; `differential_traces` reads them.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from exporter.observed_objects import watch_pods
from exporter.watch import Watch, WatchEvent, open_watch
from shared.edges.kubernetes import KubernetesApi
from shared.kinds.jobset import JOBSET
from tests.differential.differential_rest import list_unwritten

Json = dict[str, Any]
T = TypeVar("T")

PREFIX = "diff-"
"""What the names of our namespaces and nodes begin with; everything else is ignored."""
PODS, JOBS, JOBSETS, NODES, EVENTS = "pods", "jobs", "jobsets", "nodes", "events"
REST = "rest"
"""In place of a watch: the script had waited until nothing moved any more."""
LEADERS, TAGGED, RUNNING = "leaders", "tagged pods", "running pods"
_LEADER_PODS = watch_pods(JOBSET)
WATCHES: dict[str, tuple[str, dict[str, str]]] = {
    PODS: ("/api/v1/pods", {}),
    JOBS: ("/apis/batch/v1/jobs", {}),
    JOBSETS: ("/apis/jobset.x-k8s.io/v1alpha2/jobsets", {}),
    NODES: ("/api/v1/nodes", {}),
    EVENTS: ("/api/v1/events", {}),
    LEADERS: (_LEADER_PODS.path, _LEADER_PODS.params),
    TAGGED: ("/api/v1/pods", {"labelSelector": "tag in (in, inside)"}),
    RUNNING: ("/api/v1/pods", {"fieldSelector": "status.phase=Running"}),
}
_SECONDS_MAX = 180.0


@dataclass(frozen=True, slots=True)
class Sight:
    """One event of one watch."""

    watch: str
    type: str
    body: Json

    @property
    def scene(self) -> str:
        """The namespace that it happened in; a node's is in its name."""
        meta = self.body["metadata"]
        return str(meta.get("namespace") or meta["name"].split(".")[0])


class Observer:
    """Follows all `WATCHES` of one cluster, from its present state on."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._changed = threading.Condition()
        self._open: list[Watch[Json]] = []
        self._threads: list[threading.Thread] = []
        self._live: dict[str, dict[str, Json]] = {name: {} for name in WATCHES}
        self._closed: set[str] = set()
        self._moved_at = time.monotonic()
        self._trouble: list[BaseException] = []
        self.sights: list[Sight] = []

    def __enter__(self) -> Self:
        for name, (path, params) in WATCHES.items():
            listed = self._api.get(path, dict, params)
            since = {**params, "resourceVersion": listed["metadata"]["resourceVersion"]}
            watch = open_watch(self._api, path, since, dict)
            self._open.append(watch)
            self._threads.append(threading.Thread(target=self._follow, args=(name, watch), daemon=True))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watch in self._open:
            watch.close()
        for thread, watch in zip(self._threads, self._open, strict=True):
            thread.join(5)
            watch.__exit__(None, None, None)

    def live(self, watch: str, namespace: str) -> list[Json]:
        """The objects of a namespace that a watch shows now, by name."""
        with self._changed:
            found = [body for body in self._live[watch].values() if _is_in(body, namespace)]
        return sorted(found, key=lambda body: body["metadata"]["name"])

    def wait(
        self,
        what: str,
        look: Callable[[], T],
        *,
        seconds: float = _SECONDS_MAX,
        list_missing: Callable[[], object] = lambda: "",
    ) -> T:
        """Return what `look` finds as soon as that is something; it is asked after every event."""
        deadline = time.monotonic() + seconds
        while not (found := look()):
            if self._trouble:
                raise self._trouble[0]
            assert time.monotonic() < deadline, f"{what}: not within {seconds} s {list_missing()}"
            with self._changed:
                self._changed.wait(0.05)
        return found

    def rest(self, namespace: str, quiet_seconds: float = 0.5) -> None:
        """Return when only Events came for a while, and all counts of a namespace are written."""

        def missing() -> list[str]:
            return list_unwritten(*(self.live(watch, namespace) for watch in (JOBSETS, JOBS, PODS)))

        def is_at_rest() -> bool:
            return time.monotonic() - self._moved_at > quiet_seconds and not missing()

        self.wait(f"{namespace}: rest", is_at_rest, list_missing=missing)

    def mark_rest(self, namespace: str) -> None:
        """Note that what is seen now is no passing state."""
        with self._changed:
            self.sights.append(Sight(REST, REST, {"metadata": {"namespace": namespace, "name": "", "uid": ""}}))

    def close_scene(self, namespace: str) -> None:
        """Look away from a namespace: what follows is cleaning up."""
        with self._changed:
            self._closed.add(namespace)

    def _follow(self, name: str, watch: Watch[Json]) -> None:
        try:
            for event in watch:
                self._take(name, event)
        except Exception as error:  # noqa: BLE001 -- the top of a thread: whoever waits raises it
            self._trouble.append(error)

    def _take(self, name: str, event: WatchEvent[Json]) -> None:
        body = event.object
        if body is None or not _is_ours(body):
            return
        with self._changed:
            uid = body["metadata"]["uid"]
            if event.type == "DELETED":
                self._live[name].pop(uid, None)
            else:
                self._live[name][uid] = body
            if not any(_is_in(body, closed) for closed in self._closed):
                self.sights.append(Sight(name, event.type, body))
            if name != EVENTS:
                self._moved_at = time.monotonic()
            self._changed.notify_all()


def _is_ours(body: Json) -> bool:
    meta = body["metadata"]
    return str(meta.get("namespace") or meta["name"]).startswith(PREFIX)


def _is_in(body: Json, namespace: str) -> bool:
    meta = body["metadata"]
    if "namespace" in meta:
        return bool(meta["namespace"] == namespace)
    return bool(meta["name"].split(".")[0] == namespace)
