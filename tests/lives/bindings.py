"""What a watch saw of pods and nodes: each binding, the pool's owner, and who was there then.

One watch on pods and one on nodes, from before anything happens to after everything; every binding
passes here.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from shared.kinds import jobset as jobset_keys
from shared.model import labels
from standins.kit.kubernetes import ResourceWatch
from standins.kit.processes import PATIENCE_SECONDS

Json = dict[str, Any]
_NODES, _PODS = "/api/v1/nodes", "/api/v1/pods"
_END_SECONDS_MAX = 5.0
_JOB_NAME = "batch.kubernetes.io/job-name"
_RESTART = "jobset.sigs.k8s.io/restart-attempt"


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of one incarnation of a JobSet."""

    namespace: str
    job: str
    owner_uid: str

    @property
    def key(self) -> str:
        """What JobSet knows it by: the same for a JobSet that is made again under its name."""
        return f"{self.namespace}/{self.job}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A node of a pool, as it was first seen."""

    name: str
    pool: str
    namespace: str
    owner_uid: str
    """Whose pool it is, by the labels that the provisioner wrote."""
    labels: dict[str, str]
    taints: tuple[tuple[str, str], ...]
    """Key and effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """One state of one pod of a slice, in the order of the watch."""

    uid: str
    name: str
    of: Slice
    node: str
    restart: int
    phase: str
    gone: bool

    @property
    def holds(self) -> bool:
        """Whether the pod takes its place on its node."""
        return bool(self.node) and not self.gone and self.phase not in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Binding:
    """One pod and the pool that it was bound to."""

    pod: PodState
    host: Host

    @property
    def own(self) -> bool:
        """Whether the pool was made for this very JobSet."""
        return self.host.owner_uid == self.pod.of.owner_uid


class Bindings:
    """Follows a cluster, as its administrator; used as a context manager."""

    def __init__(self, kubeconfig: str) -> None:
        self._lock = threading.Lock()
        self._hosts: dict[str, Host] = {}
        self._states: list[PodState] = []
        self._standing: set[str] = set()
        self._newest = {_NODES: 0, _PODS: 0}
        """The version of the newest change that each watch has shown."""
        self._watches = [
            ResourceWatch(kubeconfig, path, partial(self._see, path, keep))
            for path, keep in ((_NODES, self._keep_node), (_PODS, self._keep_pod))
        ]

    def __enter__(self) -> Self:
        for watch in self._watches:
            watch.start()
        for watch in self._watches:
            assert watch.listed.wait(PATIENCE_SECONDS), "the cluster could not be listed"
        return self

    def __exit__(self, *_: object) -> None:
        for watch in self._watches:
            watch.end()
        for watch in self._watches:
            watch.join(_END_SECONDS_MAX)

    def has_seen(self, nodes: Iterable[Json], pods: Iterable[Json]) -> bool:
        """Return whether everything before these just read states has passed here."""
        with self._lock:
            return all(
                int(body["metadata"]["resourceVersion"]) <= self._newest[path]
                for path, found in ((_NODES, nodes), (_PODS, pods))
                for body in found
            )

    def hosts(self, namespace: str = "") -> list[Host]:
        """Return every node ever of the provisioner, of one workload namespace or of all."""
        with self._lock:
            return [each for each in self._hosts.values() if namespace in ("", each.namespace)]

    def standing(self, pools: Iterable[str]) -> list[str]:
        """Return the nodes of these pools that exist now."""
        wanted = set(pools)
        with self._lock:
            return sorted(name for name in self._standing if self._hosts[name].pool in wanted)

    def of(self, namespace: str = "") -> list[Binding]:
        """Return every binding of a slice's pod to a node of the provisioner's, in order."""
        with self._lock:
            found: dict[str, Binding] = {}
            for each in self._states:
                host = self._hosts.get(each.node)
                if host is not None and each.uid not in found and namespace in ("", each.of.namespace):
                    found[each.uid] = Binding(each, host)
            return list(found.values())

    def shared(self) -> list[str]:
        """Return every moment at which a pool held pods of two slices, in words.

        Two incarnations of one slice are one here, as they are for JobSet: the pods of a JobSet
        that was made again may come while those of the first still end.
        """
        with self._lock:
            holding: dict[str, dict[str, PodState]] = {}
            problems = []
            for each in self._states:
                host = self._hosts.get(each.node)
                if host is None:
                    continue
                there = holding.setdefault(host.pool, {})
                there.pop(each.uid, None)
                if each.holds:
                    there[each.uid] = each
                    if len({found.of.key for found in there.values()}) > 1:
                        names = sorted(f"{found.of.namespace}/{found.name}" for found in there.values())
                        problems.append(f"pool {host.pool} held {' and '.join(names)}")
            return list(dict.fromkeys(problems))

    def _see(self, path: str, keep: Callable[..., None], body: Json, *, gone: bool) -> None:
        with self._lock:
            keep(body, gone=gone)
            self._newest[path] = max(self._newest[path], int(body["metadata"]["resourceVersion"]))

    def _keep_node(self, body: Json, *, gone: bool) -> None:
        found = body["metadata"].get("labels") or {}
        if found.get(labels.MANAGER) != labels.MANAGER_VALUE:
            return
        name = body["metadata"]["name"]
        host = Host(
            name=name,
            pool=found[labels.NODE_POOL],
            namespace=found[labels.PARENT_NAMESPACE],
            owner_uid=found[labels.OWNER_UID],
            labels=found,
            taints=tuple((each["key"], each["effect"]) for each in body["spec"].get("taints", ())),
        )
        self._hosts.setdefault(name, host)
        (self._standing.discard if gone else self._standing.add)(name)

    def _keep_pod(self, body: Json, *, gone: bool) -> None:
        metadata = body["metadata"]
        found = metadata.get("labels") or {}
        if jobset_keys.JOB_KEY not in found:
            return
        seen = PodState(
            uid=metadata["uid"],
            name=metadata["name"],
            of=Slice(metadata["namespace"], found[_JOB_NAME], found[jobset_keys.JOBSET_UID_ON_POD]),
            node=body["spec"].get("nodeName") or "",
            restart=int(found.get(_RESTART, "0")),
            phase=body.get("status", {}).get("phase", "Pending"),
            gone=gone,
        )
        self._states.append(seen)
