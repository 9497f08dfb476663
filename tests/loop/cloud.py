"""One running stack as the lives see it: what they change, and what all of them saw.

Kubernetes is seen by one watch for each kind of object, from before anything happens to after
everything. GKE is looked at by one thread. So many lives side by side cost no more than one.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx

from demo.settings import CLUSTER_PATH, ClusterKind
from shared.model import labels
from standins.kit.addresses import STAND_IN
from standins.kit.kubernetes import ResourceWatch, open_client
from standins.kit.processes import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from demo.stack import Stack

Json = dict[str, Any]
T = TypeVar("T")
WAIT_SECONDS = 240.0  # generous: the whole catalogue shares two cores with other tests
_POLL_SECONDS, _LOOK_SECONDS = 0.2, 0.5
_END_SECONDS_MAX = 5.0
NODES, PODS, EVENTS = "/api/v1/nodes", "/api/v1/pods", "/api/v1/events"
SLICE_LABELS = (
    "leaderworkerset.sigs.k8s.io/subgroup-key",
    "leaderworkerset.sigs.k8s.io/group-key",
    "ray.io/worker-group-replica-name",
    "batch.kubernetes.io/job-name",
)
"""What tells the slices of a workload apart; the first one that a pod has."""


def wait_for(what: str, look: Callable[[], T], *, seconds: float = WAIT_SECONDS) -> T:
    """Return what `look` finds as soon as that is something."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(_POLL_SECONDS)
    return found


class Cloud:
    """Clients and watches of one stack; used as a context manager, by many threads at once."""

    def __init__(self, stack: Stack) -> None:
        addresses = stack.addresses
        self.stack = stack
        self.is_real = stack.settings.cluster is ClusterKind.REAL
        self.kubernetes = open_client(addresses.kubeconfig, timeout_seconds=60)
        self.google = httpx.Client(base_url=addresses.google_rest, timeout=60)
        self._lock = threading.Lock()
        self._live: dict[str, dict[str, Json]] = {NODES: {}, PODS: {}, EVENTS: {}}
        self.hosts: dict[str, dict[str, str]] = {}
        """The labels of every node ever."""
        self.bindings: dict[str, tuple[Json, str]] = {}
        """Every pod that ever had a node of the provisioner's, and the node's pool, by UID."""
        self.moments: list[tuple[str, str, str, bool]] = []
        """Each change of what a pod of a slice holds: UID, slice, pool, whether it holds it."""
        self.pools: dict[str, Json] = {}
        self.pools_ever: dict[str, Json] = {}
        """As each was first seen."""
        self._over = threading.Event()
        self._threads = [
            ResourceWatch(addresses.kubeconfig, path, partial(self._see, path)) for path in self._live
        ]
        self._looking = threading.Thread(target=self._look, name="looks at pools", daemon=True)

    def __enter__(self) -> Self:
        for watch in self._threads:
            watch.start()
        self._looking.start()
        for watch in self._threads:
            assert watch.listed.wait(PATIENCE_SECONDS), "the cluster could not be listed"
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for watch in self._threads:
            watch.end()
        for thread in (*self._threads, self._looking):
            thread.join(_END_SECONDS_MAX)
        for client in (self.kubernetes, self.google):
            client.close()

    # --- what a life changes

    def get(self, path: str) -> Json | None:
        """Return an object or a list of the Kubernetes API; None for what is not there."""
        answer = self.kubernetes.get(path)
        return None if answer.status_code == httpx.codes.NOT_FOUND else read_body(answer)

    def create(self, path: str, body: Json) -> Json:
        """Create an object and return what was stored."""
        return read_body(self.kubernetes.post(path, json=body))

    def create_namespace(self, name: str) -> None:
        """Create a namespace, and return once it can have pods."""
        self.create("/api/v1/namespaces", {"metadata": {"name": name}})
        if self.is_real:  # without its account it can have none
            account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            wait_for("the namespace's default account", lambda: self.get(account))

    def patch(self, path: str, body: Json | list[Json], *, gone_is_fine: bool = False) -> None:
        """Change an object: a list is a JSON patch, a mapping is merged."""
        kind = "application/json-patch+json" if isinstance(body, list) else "application/merge-patch+json"
        answer = self.kubernetes.patch(path, content=json.dumps(body), headers={"Content-Type": kind})
        if not (gone_is_fine and answer.status_code == httpx.codes.NOT_FOUND):
            read_body(answer)

    def delete(self, path: str) -> None:
        """Delete an object as kubectl does; one that is gone is fine."""
        answer = self.kubernetes.delete(path, params={"propagationPolicy": "Background"})
        if answer.status_code != httpx.codes.NOT_FOUND:
            read_body(answer)

    def add_fault(self, fault: Json) -> int:
        """Put a fault of the fake GKE in force and return its number."""
        return int(read_body(self.google.post("/admin/faults", json=fault))["added"][0]["number"])

    def clear_fault(self, number: int) -> None:
        """Take one fault back."""
        read_body(self.google.delete("/admin/faults", params={"number": str(number)}))

    # --- what was seen

    def list_live(self, path: str, namespace: str = "") -> list[Json]:
        """Return the nodes, or the pods or Events of a namespace, that exist now."""
        with self._lock:
            bodies = list(self._live[path].values())
        return [each for each in bodies if namespace in ("", each["metadata"].get("namespace"))]

    def list_bindings(self, namespace: str) -> list[tuple[Json, str]]:
        """Return the pods of a namespace that ever had a node of ours, each with its pool."""
        with self._lock:
            return [each for each in self.bindings.values() if each[0]["metadata"]["namespace"] == namespace]

    def list_calls(self) -> list[Json]:
        """Return every call that GKE was sent, oldest first."""
        calls: list[Json] = read_body(self.google.get("/admin/calls"))["calls"]
        return calls

    def list_messages(self, topic: str) -> list[Json]:
        """Return the data of every event that was published to a topic."""
        messages = read_body(self.google.get("/admin/messages", params={"topic": topic}))["messages"]
        return [json.loads(base64.b64decode(each["data"])) for each in messages]

    def list_shared(self, mixing: set[str]) -> list[str]:
        """Return each pool that held pods of two slices, and each slice that held two pools.

        A workload that was made again has the slices of the first: pods of both may overlap.
        `mixing` names the namespaces whose slices may mix.
        """
        holding: dict[str, tuple[str, str]] = {}
        problems = []
        for uid, of, pool, holds in self.moments:
            holding.pop(uid, None)
            if not holds or of.partition("/")[0] in mixing:
                continue
            for other_slice, other_pool in holding.values():
                if (other_slice == of) != (other_pool == pool):
                    problems.append(f"{of} on {pool} beside {other_slice} on {other_pool}")
            holding[uid] = (of, pool)
        return sorted(set(problems))

    def _look(self) -> None:
        """Look at GKE's pools again and again; the fake one notes no call for it."""
        address = f"{self.stack.addresses.google_rest}/v1/{CLUSTER_PATH}/nodePools"
        with httpx.Client(timeout=60, headers={"User-Agent": STAND_IN}) as client:
            while not self._over.wait(_LOOK_SECONDS):
                pools = read_body(client.get(address)).get("nodePools", [])
                self.pools = {each["name"]: each for each in pools}
                self.pools_ever = self.pools | self.pools_ever

    def _see(self, path: str, body: Json, *, gone: bool) -> None:
        uid = body["metadata"]["uid"]
        with self._lock:
            if gone:
                self._live[path].pop(uid, None)
            else:
                self._live[path][uid] = body
            if path == NODES:
                self.hosts.setdefault(body["metadata"]["name"], body["metadata"].get("labels") or {})
            elif path == PODS:
                self._see_pod(uid, body, gone=gone)

    def _see_pod(self, uid: str, body: Json, *, gone: bool) -> None:
        host = self.hosts.get(body["spec"].get("nodeName", ""), {})
        if labels.MANAGER not in host:
            return
        pool = host[labels.NODE_POOL]
        self.bindings.setdefault(uid, (body, pool))
        if of := name_slice(body):
            holds = not gone and body["status"].get("phase") not in ("Succeeded", "Failed")
            self.moments.append((uid, of, pool, holds))


def name_slice(pod: Json) -> str:
    """Return the slice of several hosts that a pod is of; nothing if it is of none."""
    own = pod["metadata"].get("labels", {})
    slice_names = [own[label] for label in SLICE_LABELS if label in own]
    hosts = pod["spec"].get("nodeSelector", {}).get("cloud.google.com/gke-tpu-topology", "2x2")
    return f"{pod['metadata']['namespace']}/{slice_names[0]}" if slice_names and hosts != "2x2" else ""


def read_body(answer: httpx.Response) -> Json:
    """Return what an answer says; a refusal fails the life with its words."""
    assert answer.is_success, f"{answer.request.method} {answer.request.url}: {answer.text[:800]}"
    body: Json = answer.json()
    return body
