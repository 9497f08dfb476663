"""One cluster's live objects over the Kubernetes API, as `shared.engine.outside.Cluster`.

Where a volume can be used: a bound claim has it from the node affinity and the labels of its
PersistentVolume, as the scheduler does:
https://kubernetes.io/docs/concepts/storage/persistent-volumes/#node-affinity. A claim without a
volume has it from its StorageClass, if that limits the zones:
https://kubernetes.io/docs/concepts/storage/storage-classes/#allowed-topologies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from typing import TypeVar

import msgspec

from shared.edges import kubernetes
from shared.edges.events import EventWriter
from shared.edges.kubernetes import KubernetesApi
from shared.edges.pods import MIRROR_POD, Pod, read_workload, view_pod
from shared.edges.process import SYSTEM_CLOCK
from shared.kinds.kind import Kind
from shared.kinds.objects import Json, read_objects, read_text, read_texts
from shared.kinds.table import (
    PARENT,
    find_kind_of_pod,
    get_kind,
    is_pod_of,
    judge_parent,
    select_pods_of,
)
from shared.model import labels
from shared.model.decisions import Notice
from shared.model.errors import Denied, KindAbsent, NotFound, Rejected
from shared.model.pools import PoolNode
from shared.model.times import Clock, parse_time
from shared.model.workloads import Disk, Namespace, Parent, PodView, WorkloadView

T = TypeVar("T")
_POOLS_PER_LIST = 100
"""Names of at most 40 characters each: well below the length that HTTP servers accept of a URL."""
_OURS = f"{labels.MANAGER}={labels.MANAGER_VALUE}"
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_NOT_OF_NODES = "!pod-template-generation"  # assumes: daemonset-label
"""The label of every DaemonSet's pods; without them a list of a large cluster is much shorter."""
_JSON = msgspec.json.Decoder(kubernetes.JsonObject)
_PODS, _NODES = "/api/v1/pods", "/api/v1/nodes"


class KubernetesCluster:
    """The objects of one cluster over HTTPS."""

    def __init__(
        self, api: KubernetesApi, *, component: str = "tpu-provisioner", clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Prepare; nothing is sent yet. The component is who writes the Events."""
        self._api = api
        self._events = EventWriter(api, component=component, clock=clock)

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        """Return one workload as it is now, or None if Kubernetes says that it does not exist."""
        entry = get_kind(kind)
        body = self._find(entry.path_of(namespace, name), name, kubernetes.JsonObject)
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
        entry = get_kind(kind)
        workloads: list[WorkloadView] = []
        pages = islice(self._api.list_pages(entry.path, msgspec.Raw), len(names))
        with suppress(NotFound):  # the kind is not installed
            for page in pages:
                workloads += _read_named(entry, page.items, names)
                if len(workloads) == len(names):
                    break
        return workloads

    def get_parent(self, parent: Parent) -> Parent | None:
        """Return a workload's parent as it is now; None if it is gone or replaced."""
        try:
            path = PARENT.path_of(parent.namespace, parent.name)
            body = self._api.get(path, kubernetes.JsonObject)
        except NotFound:
            return None
        with kubernetes.reading(str(parent)):
            uid, keeps = read_text(body, "metadata", "uid"), judge_parent(body)
        return replace(parent, keeps=keeps) if uid == parent.uid else None

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
        selector = {"labelSelector": select_pods_of(workload)}
        pods = self._list_pods(f"/api/v1/namespaces/{workload.namespace}/pods", selector)
        return [pod for pod in pods if is_pod_of(workload, pod)]

    def list_accelerator_pods(self) -> Iterator[PodView]:
        """Yield all unfinished accelerator pods of the cluster, page by page, of any kind."""
        query = {"fieldSelector": _UNFINISHED, "labelSelector": _NOT_OF_NODES}
        for pod in self._list_pods(_PODS, query):
            if pod.template.wants_accelerator and not pod.finished and find_kind_of_pod(pod):
                yield pod

    def _list_pods(self, path: str, query: dict[str, str]) -> Iterator[PodView]:
        return self._api.read_each(path, Pod, view_pod, query)

    def list_nodes(self, pools: Sequence[str] = ()) -> list[PoolNode]:
        """Return the nodes of these pools, or of all pools of ours; one list for 100 pools."""
        starts = range(0, len(pools), _POOLS_PER_LIST)
        parts = [pools[start : start + _POOLS_PER_LIST] for start in starts]
        selectors = [f"{labels.NODE_POOL} in ({','.join(part)})" for part in parts] or [_OURS]
        lists = [self._list_whole(_NODES, Node, {"labelSelector": each}) for each in selectors]
        with kubernetes.reading("a node, so it may be in use"):
            return [view_node(node) for node in chain.from_iterable(lists)]

    def list_bound_pods(self, node: str) -> list[PodView]:
        """Return the unfinished pods on a node, without DaemonSet and static pods.

        Only an exact ``spec.nodeName`` is indexed, and listing every pod of a large cluster would
        move hundreds of megabytes.
        """
        query = {"fieldSelector": f"spec.nodeName={node}"}
        pods = self._list_whole(_PODS, Pod, query)
        with kubernetes.reading(f"a pod on {node}, so it may be in use"):
            return [view_pod(pod) for pod in pods if holds_node(pod)]

    def _list_whole(self, path: str, kind: type[T], query: dict[str, str]) -> Iterator[T]:
        """Yield the objects of a list; raises `Unreadable` if one of them was left out."""
        for page in self._api.list_pages(path, kind, query):
            if page.left_out:
                count = len(page.left_out)
                problem = f"{count} pods or nodes cannot be read, so it may be in use"
                raise kubernetes.Unreadable(problem)
            yield from page.items

    def mark_idle(self, node: str, since: float | None, *, closed: bool = False) -> None:
        """Put our taint on a node, in place of an earlier one, or take it off.

        The list of taints is written whole, with the version that was read: what others change
        meanwhile is a `StaleView`, and the next tick's.
        """
        selector = {"fieldSelector": f"metadata.name={node}"}
        for page in self._api.list_pages(_NODES, Node, selector):
            for item in page.items:
                with kubernetes.reading(f"node {node}"):
                    taints = format_taints(item, since, closed=closed)
                body = {
                    "metadata": {"resourceVersion": item.metadata.resource_version},
                    "spec": {"taints": taints},
                }
                self._api.patch(f"{_NODES}/{node}", body)

    def write_notice(self, notice: Notice) -> None:
        """Write an Event, unless the same one was written just before."""
        self._events.write(notice)


def _read_named(
    kind: Kind, items: Iterable[msgspec.Raw], names: Collection[tuple[str, str]]
) -> Iterator[WorkloadView]:
    """Yield the workloads of some names that can be read; the others are not decoded."""
    for each in items:
        identity = kubernetes.read_identity(each)
        if (identity.namespace, identity.name) in names:
            with suppress(kubernetes.Unreadable):
                yield read_workload(kind, _JSON.decode(each))


def holds_node(pod: Pod) -> bool:
    """Return whether a pod needs its node; DaemonSet and static pods do not count."""
    owners = pod.metadata.owner_references or ()
    if any(owner.kind == "DaemonSet" for owner in owners):
        return False
    if MIRROR_POD in (pod.metadata.annotations or {}):
        return False
    return pod.status.phase not in ("Succeeded", "Failed")


CLOSED, OPEN = "NoSchedule", "PreferNoSchedule"


class NodeStatus(kubernetes.Record):
    """What the node reports of itself."""

    conditions: list[kubernetes.Condition] | None = None


class Node(kubernetes.Record):
    """A node."""

    metadata: kubernetes.ObjectMeta = msgspec.field(default_factory=kubernetes.ObjectMeta)
    spec: kubernetes.JsonObject = msgspec.field(default_factory=dict)
    """All of it: the taints of others have fields that are ours to keep."""
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


def view_node(node: Node) -> PoolNode:
    """Return a node as the plan needs it."""
    conditions = node.status.conditions or ()
    ready = [each for each in conditions if (each.type, each.status) == ("Ready", "True")]
    idle_since, closed = read_idle(node)
    return PoolNode(
        name=node.metadata.name,
        pool=(node.metadata.labels or {}).get(labels.NODE_POOL, ""),
        ready=bool(ready),
        ready_at=parse_time(ready[0].last_transition_time) if ready else None,
        idle_since=idle_since,
        closed=closed,
    )


def read_idle(node: Node) -> tuple[float | None, bool]:
    """Return since when a node is idle by our taint, and whether that keeps new pods off.

    A taint whose value is no time counts as none.
    """
    for taint in read_objects(node.spec, "taints"):
        value = str(taint.get("value", ""))
        if taint.get("key") == labels.SURPLUS and value.isascii() and value.isdigit():
            return float(value), taint.get("effect") == CLOSED
    return None, False


def format_taints(node: Node, since: float | None, *, closed: bool) -> list[Json]:
    """Return a node's taints with ours of that time, or with none; those of others stay."""
    taints = read_objects(node.spec, "taints")
    others = [taint for taint in taints if taint.get("key") != labels.SURPLUS]
    if since is None:
        return others
    effect = CLOSED if closed else OPEN
    return [*others, {"key": labels.SURPLUS, "value": str(int(since)), "effect": effect}]


ZONE_KEYS = (labels.ZONE, "topology.gke.io/zone", "failure-domain.beta.kubernetes.io/zone")
"""The second is that of Google's CSI drivers, the third that of old volumes:
https://github.com/kubernetes-sigs/gcp-compute-persistent-disk-csi-driver."""
_WAITS = "WaitForFirstConsumer"
"""The volume of such a class is made when a pod is placed."""
_BETWEEN_ZONES = "__"
"""Between the zones of a regional disk in a label:
https://pkg.go.dev/k8s.io/cloud-provider/volume/helpers#LabelZonesToSet."""


Get = Callable[[str, type[kubernetes.JsonObject]], kubernetes.JsonObject]
"""Returns one object by its path in the API."""


def read_disk(get: Get, namespace: str, claim: str) -> Disk | None:
    """Return where the volume of a claim can be used, or why it can be used nowhere yet.

    None: it can be used anywhere, or an object on the way to it has no name that the API accepts.
    It takes two reads if the claim has a volume or a class, else one. What may not be read is not
    known, so its pods wait, and their owner is told why.
    """
    try:
        with kubernetes.reading(f"the disk of claim {namespace}/{claim}"):
            return _read_claim(get, namespace, claim)
    except Denied as error:
        return Disk(claim=claim, unbound=f"cannot be judged: {error}")


def _read_claim(get: Get, namespace: str, claim: str) -> Disk | None:
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}"
    try:
        body = get(path, kubernetes.JsonObject)
    except NotFound:
        return Disk(claim=claim, unbound="does not exist")
    except Rejected:  # the API server lets each of these names be any text
        return None
    if read_text(body, "metadata", "deletionTimestamp"):
        return Disk(claim=claim, unbound="is being deleted")
    volume = read_text(body, "spec", "volumeName")
    if volume:
        return _read_volume(get, claim, volume)
    return _read_class(get, claim, read_text(body, "spec", "storageClassName"))


def _read_volume(get: Get, claim: str, name: str) -> Disk | None:
    volume = _find(get, f"/api/v1/persistentvolumes/{name}")
    if volume is None:
        return Disk(claim=claim, unbound=f"names PersistentVolume {name}, which does not exist")
    required = ("spec", "nodeAffinity", "required")
    terms = read_objects(volume, *required, "nodeSelectorTerms")
    zones = _find_zones([read_objects(each, "matchExpressions") for each in terms])
    own_labels = read_texts(volume, "metadata", "labels")
    labelled = next((own_labels[key] for key in ZONE_KEYS if own_labels.get(key)), "")
    zones = zones or tuple(sorted({*labelled.split(_BETWEEN_ZONES)} - {""}))
    return Disk(claim=claim, zones=zones) if zones else None


def _read_class(get: Get, claim: str, name: str) -> Disk | None:
    """Return where a claim without a volume will get it; a class that binds at once must do so."""
    storage = _find(get, f"/apis/storage.k8s.io/v1/storageclasses/{name}") if name else {}
    unbound = "is not bound to a volume yet"
    if storage is None:
        return Disk(claim=claim, unbound=f"{unbound}, and StorageClass {name} does not exist")
    if read_text(storage, "volumeBindingMode") != _WAITS:
        hint = "" if name else ", and names no StorageClass that would make one"
        return Disk(claim=claim, unbound=f"{unbound}{hint}")
    terms = read_objects(storage, "allowedTopologies")
    zones = _find_zones([read_objects(each, "matchLabelExpressions") for each in terms])
    return Disk(claim=claim, zones=zones, storage_class=name) if zones else None


def _find(get: Get, path: str) -> Json | None:
    """Return an object; None if there is none, or its name is none that the API accepts."""
    try:
        return get(path, kubernetes.JsonObject)
    except (NotFound, Rejected):
        return None


def _find_zones(terms: Sequence[Sequence[Json]]) -> tuple[str, ...]:
    """Return the zones that satisfy one of several terms; empty if any zone does."""
    zones: set[str] = set()
    for term in terms:
        # A class has no operator, because it can only list values.
        listed = [each for each in term if read_text(each, "operator") in ("", "In")]
        of_zones = [each for each in listed if read_text(each, "key") in ZONE_KEYS]
        sets = [set(kubernetes.read_values(each)) for each in of_zones]
        if not sets:
            return ()
        zones |= set.intersection(*sets)
    return tuple(sorted(zones))
