"""Reads one cluster's live objects over the Kubernetes API, as `shared.model.ports.Cluster`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from shared.edges.clock import SYSTEM_CLOCK
from shared.edges.disk_objects import read_disk
from shared.edges.event_writer import EventWriter, StoredEvent, read_scale_up
from shared.edges.kubernetes_api import PAGE_SIZE
from shared.edges.kubernetes_errors import Unreadable
from shared.edges.kubernetes_objects import JsonObject, Stored
from shared.edges.ledger_objects import NAME as LEDGER
from shared.edges.ledger_objects import ConfigMap, format_entries, read_entries
from shared.edges.node_taints import Node, read_surplus, replace_surplus, view_node
from shared.edges.workload_objects import MIRROR_POD, Pod, read_parent_now, read_workload, view_pod
from shared.engine.outside import Ledger, SurplusMark
from shared.kinds.elastic import is_leader
from shared.kinds.rayjob import RAYJOB
from shared.kinds.table import (
    KINDS,
    find_kind_of_pod,
    get_kind,
    is_pod_of,
    select_members,
    select_pods,
    select_pods_of,
)
from shared.model import labels
from shared.model.errors import AlreadyExists, Denied, KindAbsent, NotFound, StaleView, Unavailable
from shared.model.readings import BoundPod, FillError, Namespace, Notice
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.edges.kubernetes_api import KubernetesApi
    from shared.edges.kubernetes_objects import Page
    from shared.kinds.kind import Kind
    from shared.model.times import Clock
    from shared.model.workloads import Disk, NodeView, Parent, PodView, WorkloadView

T = TypeVar("T")
UNBOUND = {"fieldSelector": "spec.nodeName="}
"""An exact spec.nodeName is the one pod field selector that API servers index."""
_SOME_NODES = 50
_POOLS_PER_LIST = 100
"""Names of at most 40 characters each: well below the length that HTTP servers accept of a URL."""

_LOG = logging.getLogger("disks")


class KubernetesCluster:
    """`shared.model.ports.Cluster` over HTTPS."""

    def __init__(
        self,
        api: KubernetesApi,
        *,
        kinds: Sequence[Kind] = KINDS,
        component: str = "tpu-provisioner",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._api, self._kinds = api, kinds
        self._events = EventWriter(api, component=component, clock=clock)
        self._told_disks = False

    def get_pod(self, namespace: str, name: str) -> PodView | None:
        """Return one pod as it is now, or None."""
        try:
            return view_pod(self._api.get(f"/api/v1/namespaces/{namespace}/pods/{name}", Pod))
        except NotFound:
            return None

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        """Return one workload as it is now, or None if Kubernetes says that it does not exist.

        Pools are deleted on this word, so any other 404 (a kind that is not installed, a wrong
        address) proves nothing and is `KindAbsent`.
        """
        found = get_kind(kind)
        try:
            return read_workload(found, self._api.get(found.path_of(namespace, name), JsonObject))
        except NotFound as error:
            if not _is_absence(name, error):
                text = f"cannot tell whether workloads of kind {kind} exist: the cluster does not know {found.path}"
                raise KindAbsent(text) from error
            return None

    def get_parent(self, parent: Parent) -> Parent | None:
        """Return a workload's parent as it is now; None if it is gone or replaced."""
        try:
            body = self._api.get(RAYJOB.path_of(parent.namespace, parent.name), JsonObject)
        except NotFound:
            return None
        return read_parent_now(parent, body)

    def get_namespace(self, name: str) -> Namespace | None:
        """Return a namespace as it is now, or None if Kubernetes says that it does not exist."""
        try:
            found = self._api.get(f"/api/v1/namespaces/{name}", Stored).metadata
        except NotFound as error:
            if not _is_absence(name, error):
                raise Unavailable(
                    f"cannot tell whether namespace {name} exists: {error}"
                ) from error
            return None
        return Namespace(uid=found.uid, labels=found.labels or {})

    def find_disk(self, namespace: str, claim: str) -> Disk | None:
        """Return where the volume of a claim can be used. The first denial is logged."""
        try:
            return read_disk(self._api, namespace, claim)
        except Denied as error:
            if not self._told_disks:
                self._told_disks = True
                fields = {
                    "object": f"PersistentVolumeClaim {namespace}/{claim}",
                    "error": str(error),
                }
                _LOG.warning(
                    "disks cannot be read, so pools may be made in zones without them", extra=fields
                )
            raise

    def read_ledger(self, namespace: str) -> Ledger:
        """Return the holds of a namespace's ConfigMap; none if it does not exist."""
        try:
            return read_entries(self._api.get(f"{_path_of_ledgers(namespace)}/{LEDGER}", ConfigMap))
        except NotFound as error:
            if not _is_absence(LEDGER, error):
                raise Unavailable(
                    f"cannot tell whether ConfigMap {namespace}/{LEDGER} exists: {error}"
                ) from error
            return Ledger(version="", entries={})

    def write_ledger(self, namespace: str, ledger: Ledger) -> Ledger:
        """Create or replace the ConfigMap; `StaleView` unless it is as it was read."""
        path, body = _path_of_ledgers(namespace), format_entries(namespace, ledger)
        try:
            if not ledger.version:
                return read_entries(self._api.create(path, body, ConfigMap))
            return read_entries(self._api.update(f"{path}/{LEDGER}", body, ConfigMap))
        except AlreadyExists as error:
            raise StaleView(f"another process has created the ledger: {error}") from error
        except NotFound as error:
            raise StaleView(
                f"the ledger, or its namespace {namespace}, is gone: {error}"
            ) from error

    def list_waiting_leaders(self, workload: WorkloadView | None = None) -> Iterator[PodView]:
        """Yield the accelerator leaders without a node, kind by kind and page by page."""
        for kind in self._kinds if workload is None else (get_kind(workload.kind),):
            selected, path = select_pods(kind), "/api/v1/pods"
            if workload is not None:
                selected = f"{selected},{select_pods_of(workload)}"
                path = f"/api/v1/namespaces/{workload.namespace}/pods"
            for pod in self._list_unbound(kind, selected, path):
                mine = workload is None or kind.find_owner(pod) == workload.name
                if mine and pod.template.wants_accelerator and is_leader(kind, pod):
                    yield pod

    def list_waiting_followers(self) -> Iterator[PodView]:
        """Yield the accelerator pods that are not leaders and have no node."""
        for kind in self._kinds:
            selected = select_members(kind)
            for pod in self._list_unbound(kind, selected) if selected else ():
                if pod.template.wants_accelerator and not is_leader(kind, pod):
                    yield pod

    def list_waiting_pods(self, kind: str, namespace: str) -> list[PodView]:
        """Return the pods of a kind's workloads in a namespace that are bound to no node."""
        found = get_kind(kind)
        selected = select_members(found) or select_pods(found)
        return list(self._list_unbound(found, selected, f"/api/v1/namespaces/{namespace}/pods"))

    def _list_unbound(
        self, kind: Kind, selector: str, path: str = "/api/v1/pods"
    ) -> Iterator[PodView]:
        for page in self._api.list_pages(path, Pod, UNBOUND | {"labelSelector": selector}):
            for each in page.items:
                pod = view_pod(each)
                # One kind's selector may show pods of another, for example of the Jobs that a kind
                # makes.
                if find_kind_of_pod(pod) is kind:
                    yield pod

    def list_workload_pods(self, workload: WorkloadView) -> list[PodView]:
        """Return a workload's pods."""
        selector = {"labelSelector": select_pods_of(workload)}
        path = f"/api/v1/namespaces/{workload.namespace}/pods"
        pods = (
            view_pod(pod)
            for page in self._api.list_pages(path, Pod, selector)
            for pod in page.items
        )
        return [pod for pod in pods if is_pod_of(workload, pod)]

    def find_pools_of_nodes(
        self, pool_names: Sequence[str], *, some: bool = False
    ) -> dict[str, str]:
        """Return the nodes of these pools, or the first of them; one list for 100 pools."""
        found: dict[str, str] = {}
        for start in range(0, len(pool_names), _POOLS_PER_LIST):
            part = pool_names[start : start + _POOLS_PER_LIST]
            selector = {"labelSelector": f"{labels.NODE_POOL} in ({','.join(part)})"}
            size = _SOME_NODES if some else PAGE_SIZE
            for page in self._api.list_pages("/api/v1/nodes", Node, selector, page_size=size):
                # One readable node proves a pool; without all of them it may be in use unseen.
                for each in page.items if some else _expect_all(page):
                    pool = (each.metadata.labels or {}).get(labels.NODE_POOL)
                    if pool:
                        found[each.metadata.name] = pool
                if some and found:
                    break
        return found

    def list_pool_nodes(self, pool_name: str) -> list[NodeView]:
        """Return the nodes of a pool."""
        selector = {"labelSelector": f"{labels.NODE_POOL}={pool_name}"}
        return [
            view_node(each)
            for page in self._api.list_pages("/api/v1/nodes", Node, selector)
            for each in page.items
        ]

    def list_pool_pods(self, pool_name: str) -> list[BoundPod]:
        """Return the unfinished pods on a pool's nodes.

        One list per node: only an exact ``spec.nodeName`` is indexed, and listing every pod of a
        large cluster would move hundreds of megabytes.
        """
        found = []
        for name in self.find_pools_of_nodes([pool_name]):
            for page in self._api.list_pages(
                "/api/v1/pods", Pod, {"fieldSelector": f"spec.nodeName={name}"}
            ):
                found += [read_bound(pod) for pod in _expect_all(page) if holds_node(pod)]
        return found

    def list_scale_ups(self, pod: PodView) -> list[FillError]:
        """Return what the autoscaler told a pod, whose Events are few, so all are read."""
        path, selector = (
            f"/api/v1/namespaces/{pod.namespace}/events",
            f"involvedObject.uid={pod.uid}",
        )
        pages = self._api.list_pages(path, StoredEvent, {"fieldSelector": selector})
        return [found for page in pages for each in page.items if (found := read_scale_up(each))]

    def list_surplus_marks(self, pool_name: str) -> dict[str, SurplusMark | None]:
        """Return the nodes of a pool by name, each with our mark where it has one."""
        selector = {"labelSelector": f"{labels.NODE_POOL}={pool_name}"}
        pages = self._api.list_pages("/api/v1/nodes", Node, selector)
        return {node.metadata.name: read_surplus(node) for page in pages for node in page.items}

    def mark_surplus(self, node: str, since: float | None, *, closed: bool = False) -> None:
        """Put our mark on a node, in place of an earlier one, or take it off.

        While a node has our mark, GKE's autoscaler leaves it alone, because only we remove it.

        The list of taints is written whole, with the version that was read: what others change
        meanwhile is a `StaleView`, and the next sweep's.
        """
        selector = {"fieldSelector": f"metadata.name={node}"}
        for page in self._api.list_pages("/api/v1/nodes", Node, selector):
            for seen in page.items:
                body = {
                    "metadata": {
                        "resourceVersion": seen.metadata.resource_version,
                        "annotations": {
                            labels.SCALE_DOWN_DISABLED: None if since is None else "true"
                        },
                    },
                    "spec": {"taints": replace_surplus(seen, since, closed=closed)},
                }
                self._api.patch(f"/api/v1/nodes/{node}", body)

    def write_notice(self, notice: Notice) -> None:
        """Write an Event, unless the same one was written just before."""
        self._events.write(notice)


def _expect_all(page: Page[T]) -> list[T]:
    """Return the objects of a page; raises `Unreadable` if one of them was left out."""
    if page.left_out:
        raise Unreadable(f"{len(page.left_out)} pods or nodes cannot be read, so it may be in use")
    return page.items


def _path_of_ledgers(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def _is_absence(name: str, error: NotFound) -> bool:
    """Return whether a 404 says that the object of this name does not exist.

    The text is apimachinery's: https://pkg.go.dev/k8s.io/apimachinery/pkg/api/errors#NewNotFound.
    """
    return f'"{name}" not found' in str(error)


def holds_node(pod: Pod) -> bool:
    """Return whether a pod needs its node; DaemonSet and static pods do not count."""
    owners = pod.metadata.owner_references or ()
    if any(owner.kind == "DaemonSet" for owner in owners) or MIRROR_POD in (
        pod.metadata.annotations or {}
    ):
        return False
    return pod.status.phase not in ("Succeeded", "Failed")


def read_bound(pod: Pod) -> BoundPod:
    meta, view = pod.metadata, view_pod(pod)
    kind = find_kind_of_pod(view)
    return BoundPod(
        namespace=meta.namespace,
        name=meta.name,
        kind=kind.name if kind else "",
        workload=kind.find_owner(view) if kind else "",
        chips=view.template.units,
        node=view.node_name,
        uid=view.uid,
        created_at=view.created_at,
        deleting_since=parse_time(meta.deletion_timestamp),
    )
