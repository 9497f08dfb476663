"""One cluster's live objects over the Kubernetes API, as `shared.engine.outside.Cluster`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any, TypeVar

import msgspec

from shared.edges import kubernetes
from shared.edges.kubernetes import JsonObject, KubernetesApi
from shared.edges.pods import Pod, read_template, read_workload, view_pod
from shared.edges.process import SYSTEM_CLOCK
from shared.kinds import read, table
from shared.kinds.read import Json
from shared.model import labels
from shared.model.errors import AlreadyExists, Denied, KindAbsent, NotFound, Rejected
from shared.model.names import ObjectName
from shared.model.pools import PoolNode
from shared.model.times import Clock, format_time, parse_time
from shared.model.workloads import Disk, Namespace, Notice, PodView, WorkloadView

T = TypeVar("T")
_POOLS_PER_LIST = 100
"""Names of at most 40 characters each: well below the length that HTTP servers accept of a URL."""
_OURS = f"{labels.MANAGER}={labels.MANAGER_VALUE}"
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_NOT_OF_NODES = "!pod-template-generation"  # assumes: daemonset-label
"""The label of every DaemonSet's pods; without them a list of a large cluster is much shorter."""
_PODS, _NODES = "/api/v1/pods", "/api/v1/nodes"
_API_VERSIONS = {each.name: each.api_version for each in (*table.KINDS, table.PARENT)}
_MESSAGE_LENGTH_MAX = 1024
"""Longest message of an Event:
https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/."""


class KubernetesCluster:
    """The objects of one cluster over HTTPS."""

    def __init__(
        self, api: KubernetesApi, *, component: str = "tpu-provisioner", clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Prepare; nothing is sent yet. The component is who writes the Events."""
        self._api, self._component, self._clock = api, component, clock

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        """Return one workload as it is now, or None if Kubernetes says that it does not exist."""
        entry = table.get_kind(kind)
        body = self._find(entry.path_of(namespace, name), name, JsonObject)
        return read_workload(entry, body) if body is not None else None

    def _find(self, path: str, name: str, kind: type[T]) -> T | None:
        """Return an object, or None if there is none of this name.

        Pools are deleted on this word, so any other 404 (a kind that is not installed, a wrong
        address) proves nothing and is `KindAbsent`. The text is apimachinery's:
        https://pkg.go.dev/k8s.io/apimachinery/pkg/api/errors#NewNotFound.
        """
        try:
            return self._api.get(path, kind)
        except NotFound as error:
            if f'"{name}" not found' in str(error):
                return None
            raise KindAbsent(f"cannot tell whether {path} exists: {error}") from error

    def list_workloads(self, kind: str, names: Collection[tuple[str, str]]) -> list[WorkloadView]:
        """Return workloads by namespace and name, as far as fewer pages than names show them.

        One that cannot be read is left out; whoever reads it by its name learns why.
        """
        entry = table.get_kind(kind)

        def read_named(body: JsonObject) -> WorkloadView | None:
            name = read.text(body, "metadata", "namespace"), read.text(body, "metadata", "name")
            return entry.read(body, read_template) if name in names else None

        listed = self._api.read_each(entry.path, JsonObject, read_named)
        workloads = filter(None, islice(listed, len(names) * kubernetes.PAGE_SIZE))
        with suppress(NotFound):  # the kind is not installed
            return list(islice(workloads, len(names)))
        return []

    def explain_parent(self, parent: ObjectName) -> str:
        """Return why a workload's parent keeps it after its own end; empty if it does not."""
        try:
            body = self._api.get(table.PARENT.path_of(parent.namespace, parent.name), JsonObject)
        except NotFound:
            return ""
        with kubernetes.reading(str(parent)):
            uid, keeps = read.text(body, "metadata", "uid"), table.judge_parent(body)
        return keeps if uid == parent.uid else ""

    def get_namespace(self, name: str) -> Namespace | None:
        """Return a namespace as it is now, or None if Kubernetes says that it does not exist."""
        stored = self._find(f"/api/v1/namespaces/{name}", name, kubernetes.Stored)
        if stored is None:
            return None
        return Namespace(uid=stored.metadata.uid, labels=stored.metadata.labels or {})

    def find_disk(self, namespace: str, claim: str) -> Disk | None:
        """Return where the volume of a claim can be used; None if it can be used anywhere."""
        return read_disk(self._api.get, namespace, claim)

    def list_workload_pods(self, workload: WorkloadView) -> list[PodView]:
        """Return a workload's pods."""
        path = f"/api/v1/namespaces/{workload.namespace}/pods"
        selector = {"labelSelector": table.select_pods_of(workload)}
        pods = self._api.read_each(path, Pod, view_pod, selector)
        return [pod for pod in pods if table.is_pod_of(workload, pod)]

    def list_accelerator_pods(self) -> Iterator[PodView]:
        """Yield all unfinished accelerator pods of the cluster, page by page, of any kind."""
        query = {"fieldSelector": _UNFINISHED, "labelSelector": _NOT_OF_NODES}
        for pod in self._api.read_each(_PODS, Pod, view_pod, query):
            if pod.template.wants_accelerator and not pod.finished and table.find_kind_of_pod(pod):
                yield pod

    def list_nodes(self, pools: Sequence[str] = ()) -> list[PoolNode]:
        """Return the nodes of these pools, or of all pools of ours; one list for 100 pools."""
        starts = range(0, len(pools), _POOLS_PER_LIST)
        parts = [pools[start : start + _POOLS_PER_LIST] for start in starts]
        selectors = [f"{labels.NODE_POOL} in ({','.join(part)})" for part in parts] or [_OURS]
        lists = [self._list_whole(_NODES, Node, {"labelSelector": each}) for each in selectors]
        with kubernetes.reading("a node cannot be read, so it may be in use"):
            return [view_node(node) for node in chain.from_iterable(lists)]

    def list_bound_pods(self, node: str) -> list[PodView]:
        """Return the unfinished pods on a node, without DaemonSet and static pods.

        Only an exact ``spec.nodeName`` is indexed, and listing every pod of a large cluster would
        move hundreds of megabytes.
        """
        pods = self._list_whole(_PODS, Pod, {"fieldSelector": f"spec.nodeName={node}"})
        with kubernetes.reading(f"a pod on {node} cannot be read, so it may be in use"):
            views = [view_pod(pod) for pod in pods]
        return [pod for pod in views if not pod.finished and table.find_kind_of_pod(pod)]

    def _list_whole(self, path: str, kind: type[T], query: dict[str, str]) -> Iterator[T]:
        """Yield the objects of a list. One that cannot be read is an error, and not left out."""
        decode = kubernetes.decoder_of(kind).decode
        for page in self._api.list_pages(path, query):
            yield from map(decode, page.items)

    def mark_idle(self, node: str, since: float | None, *, closed: bool = False) -> None:
        """Put our taint on a node, in place of an earlier one, or take it off.

        The list of taints is written whole, with the version that was read: what others change
        meanwhile is a `StaleView`, and the next tick's.
        """
        with kubernetes.reading(f"node {node}"):
            for item in self._list_whole(_NODES, Node, {"fieldSelector": f"metadata.name={node}"}):
                taints = format_taints(item, since, closed=closed)
                version = {"resourceVersion": item.metadata.resource_version}
                body = {"metadata": version, "spec": {"taints": taints}}
                self._api.patch(f"{_NODES}/{node}", body)

    def write_notice(self, notice: Notice) -> None:
        """Write an Event.

        Its name follows from the object, from why and from the pool, so a repetition, also of
        another process, changes one Event: its text and its time.
        """
        now, subject = format_time(self._clock.now()), notice.subject
        identity = f"{subject.uid}\n{notice.reason}\n{notice.about or notice.message}".encode()
        name = f"{subject.name[:200]}.{hashlib.sha256(identity).hexdigest()[:16]}"
        events = f"/api/v1/namespaces/{subject.namespace}/events"
        body = format_event(notice, name, component=self._component, now=now)
        try:
            self._api.create(events, body, kubernetes.Stored)
        except AlreadyExists:
            change = {key: body[key] for key in ("message", "lastTimestamp")}
            self._api.patch(f"{events}/{name}", change)


def format_event(notice: Notice, name: str, *, component: str, now: str) -> dict[str, Any]:
    """Return the Event of a notice, as the Kubernetes API takes it; `now` is in RFC 3339."""
    subject = notice.subject
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": subject.namespace},
        "involvedObject": {
            "apiVersion": _API_VERSIONS[subject.kind],
            "kind": subject.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        },
        "reason": notice.reason,
        "message": notice.message[:_MESSAGE_LENGTH_MAX],
        "type": "Warning" if notice.warning else "Normal",
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


CLOSED, OPEN = "NoSchedule", "PreferNoSchedule"


class NodeStatus(kubernetes.Record):
    """What the node reports of itself."""

    conditions: list[kubernetes.Condition] | None = None


class Node(kubernetes.Record):
    """A node."""

    metadata: kubernetes.ObjectMeta = msgspec.field(default_factory=kubernetes.ObjectMeta)
    spec: JsonObject = msgspec.field(default_factory=dict)
    """All of it: the taints of others have fields that are ours to keep."""
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


def view_node(node: Node) -> PoolNode:
    """Return a node as the plan needs it; a taint of ours whose value is no time counts as none."""
    conditions = node.status.conditions or ()
    ready = [each for each in conditions if (each.type, each.status) == ("Ready", "True")]
    marks = [
        (float(taint["value"]), taint.get("effect") == CLOSED)
        for taint in read.objects(node.spec, "taints")
        if taint.get("key") == labels.SURPLUS and re.fullmatch("[0-9]+", str(taint.get("value")))
    ]
    idle_since, closed = marks[0] if marks else (None, False)
    return PoolNode(
        name=node.metadata.name,
        pool=(node.metadata.labels or {}).get(labels.NODE_POOL, ""),
        ready=bool(ready),
        ready_at=parse_time(ready[0].last_transition_time) if ready else None,
        idle_since=idle_since,
        closed=closed,
    )


def format_taints(node: Node, since: float | None, *, closed: bool) -> list[Json]:
    """Return a node's taints with ours of that time, or with none; those of others stay."""
    taints = read.objects(node.spec, "taints")
    others = [taint for taint in taints if taint.get("key") != labels.SURPLUS]
    if since is None:
        return others
    effect = CLOSED if closed else OPEN
    return [*others, {"key": labels.SURPLUS, "value": str(int(since)), "effect": effect}]


ZONE_KEYS = (labels.ZONE, "topology.gke.io/zone", "failure-domain.beta.kubernetes.io/zone")
"""The second is that of Google's CSI drivers, the third that of old volumes:
https://github.com/kubernetes-sigs/gcp-compute-persistent-disk-csi-driver."""
Get = Callable[[str, type[JsonObject]], JsonObject]  # returns one object by its path in the API


def read_disk(get: Get, namespace: str, claim: str) -> Disk | None:
    """Return where the volume of a claim can be used, or why it can be used nowhere yet.

    None: it can be used anywhere. It takes two reads if the claim has a volume or a class, else
    one. What may not be read is not known, so its pods wait, and their owner is told why.
    """
    try:
        with kubernetes.reading(f"the disk of claim {namespace}/{claim}"):
            return _read_claim(get, namespace, claim)
    except Denied as error:
        return Disk(claim=claim, unbound=f"cannot be judged: {error}")


def _read_claim(get: Get, namespace: str, claim: str) -> Disk | None:
    body = _find(get, f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}")
    if body is None:
        return Disk(claim=claim, unbound="does not exist")
    if read.text(body, "metadata", "deletionTimestamp"):
        return Disk(claim=claim, unbound="is being deleted")
    if name := read.text(body, "spec", "volumeName"):
        volume = _find(get, f"/api/v1/persistentvolumes/{name}")
        if volume is None:
            return Disk(claim=claim, unbound=f"names PersistentVolume {name}, which does not exist")
        # https://kubernetes.io/docs/concepts/storage/persistent-volumes/#node-affinity
        terms = read.objects(volume, "spec", "nodeAffinity", "required", "nodeSelectorTerms")
        zones = _find_zones(terms, "matchExpressions")
        return Disk(claim=claim, zones=zones) if zones else None
    return _read_class(get, claim, read.text(body, "spec", "storageClassName"))


def _read_class(get: Get, claim: str, name: str) -> Disk | None:
    """Return where a claim without a volume will get it; a class that binds at once must do so."""
    storage = _find(get, f"/apis/storage.k8s.io/v1/storageclasses/{name}") if name else {}
    unbound = "is not bound to a volume yet"
    if storage is None:
        return Disk(claim=claim, unbound=f"{unbound}, and StorageClass {name} does not exist")
    if read.text(storage, "volumeBindingMode") != "WaitForFirstConsumer":
        hint = "" if name else ", and names no StorageClass that would make one"
        return Disk(claim=claim, unbound=f"{unbound}{hint}")
    terms = read.objects(storage, "allowedTopologies")
    zones = _find_zones(terms, "matchLabelExpressions")
    return Disk(claim=claim, zones=zones) if zones else None


def _find(get: Get, path: str) -> Json | None:
    """Return an object; None if there is none, or its name is none that the API accepts."""
    try:
        return get(path, JsonObject)
    except (NotFound, Rejected):
        return None


def _find_zones(terms: Sequence[Json], field: str) -> tuple[str, ...]:
    """Return the zones that satisfy one of several terms; empty if any zone does."""
    zones: set[str] = set()
    for term in terms:
        sets = [
            set(kubernetes.read_values(each))
            for each in read.objects(term, field)
            # A class has no operator, because it can only list values.
            if read.text(each, "operator") in ("", "In") and read.text(each, "key") in ZONE_KEYS
        ]
        if not sets:
            return ()
        zones |= set.intersection(*sets)
    return tuple(sorted(zones))
