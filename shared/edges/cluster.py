"""One cluster's live objects over the Kubernetes API, in the words of `shared.core.ports.Cluster`."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from shared.core import labels
from shared.core.elastic import speaks
from shared.core.errors import AlreadyExists, NotFound, Unavailable
from shared.core.kinds.table import (
    KINDS,
    find_kind_of_pod,
    find_parent_kind,
    get_kind,
    select_members,
    select_pods,
    select_pods_of,
)
from shared.core.ports import BoundPod, Notice, SurplusMark
from shared.core.times import parse_time
from shared.edges.kubernetes_objects import JsonObject, Record, Stored
from shared.edges.node_taints import Node, read_surplus, replace_surplus
from shared.edges.workload_objects import MIRROR_POD, Pod, read_parent_now, read_workload, view_pod

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.core.kinds.kind import Kind
    from shared.core.workloads import Parent, PodView, WorkloadView
    from shared.edges.kubernetes_api import KubernetesApi

UNBOUND = {"fieldSelector": "spec.nodeName="}
"""An exact spec.nodeName is the one pod field selector that API servers index."""
API_VERSIONS = {"Pod": "v1"} | {each.name: each.api_version for kind in KINDS for each in (kind, *kind.parents)}
_MESSAGE_LENGTH_MAX = 1024
"""Longest message of an Event: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/."""


NOTICE_FRESH_SECONDS = 600.0
"""An Event that was written or counted up less than this ago is not counted up again: the sweep says the same
every minute. Far less than the hour for which API servers keep Events by default, which counting up begins anew:
https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/ (--event-ttl)."""


class _Notice(Record):
    count: int = 1
    last_timestamp: str | None = None


class KubernetesCluster:
    """`shared.core.ports.Cluster` over HTTPS."""

    def __init__(
        self, api: KubernetesApi, *, kinds: Sequence[Kind] = KINDS, component: str = "tpu-provisioner"
    ) -> None:
        self._api, self._kinds = api, kinds
        self._component = component

    def get_pod(self, namespace: str, name: str) -> PodView | None:
        """Return one pod as it is now, or None."""
        try:
            return view_pod(self._api.get(f"/api/v1/namespaces/{namespace}/pods/{name}", Pod))
        except NotFound:
            return None

    def get_workload(self, kind: str, namespace: str, name: str) -> WorkloadView | None:
        """Return one workload as it is now, or None when Kubernetes itself says that there is none of that name.

        Pools are deleted on this word, so any other 404 (a kind that is not installed, a wrong address) proves
        nothing and is `Unavailable`. The text is apimachinery's:
        https://pkg.go.dev/k8s.io/apimachinery/pkg/api/errors#NewNotFound.
        """
        found = get_kind(kind)
        try:
            return read_workload(found, self._api.get(found.path_of(namespace, name), JsonObject))
        except NotFound as error:
            if f'"{name}" not found' not in str(error):
                raise Unavailable(f"whether {kind} {namespace}/{name} exists is unknown: {error}") from error
            return None

    def get_parent(self, parent: Parent, kind: str) -> Parent | None:
        """Return what made a workload as it is now; None when it is gone, or another one has its name."""
        found = find_parent_kind(kind, parent.kind)
        try:
            body = self._api.get(found.path_of(parent.namespace, parent.name), JsonObject)
        except NotFound:
            return None
        return read_parent_now(found, parent, body)

    def get_namespace_labels(self, namespace: str) -> dict[str, str]:
        """Return the labels of a namespace as they are now; none when it is gone."""
        try:
            return self._api.get(f"/api/v1/namespaces/{namespace}", Stored).metadata.labels or {}
        except NotFound:
            return {}

    def list_waiting_leaders(self) -> Iterator[PodView]:
        """Yield the pods that speak for a slice and are bound to no node, kind by kind and page by page."""
        for kind in self._kinds:
            for pod in self._list_unbound(kind, select_pods(kind)):
                if speaks(kind, pod):
                    yield pod

    def list_waiting_followers(self) -> Iterator[PodView]:
        """Yield the accelerator pods that do not speak for their slice and are bound to no node."""
        for kind in self._kinds:
            selected = select_members(kind)
            for pod in self._list_unbound(kind, selected) if selected else ():
                if pod.template.wants_accelerator and not speaks(kind, pod):
                    yield pod

    def _list_unbound(self, kind: Kind, selector: str) -> Iterator[PodView]:
        for page in self._api.list_pages("/api/v1/pods", Pod, UNBOUND | {"labelSelector": selector}):
            for each in page.items:
                pod = view_pod(each)
                # One kind's selector may show pods of another, for example of the Jobs that a kind makes.
                if find_kind_of_pod(pod) is kind:
                    yield pod

    def list_workload_pods(self, workload: WorkloadView) -> list[PodView]:
        """Return the live accelerator pods of a workload; none where its kind does not say which they are."""
        selected = select_pods_of(workload)
        if not selected:
            return []
        selector = {"labelSelector": selected}
        path = f"/api/v1/namespaces/{workload.namespace}/pods"
        return [view_pod(pod) for page in self._api.list_pages(path, Pod, selector) for pod in page.items]

    def list_pool_nodes(self, pool_name: str) -> list[str]:
        """Return the names of a pool's nodes."""
        selector = {"labelSelector": f"{labels.NODE_POOL}={pool_name}"}
        pages = self._api.list_pages("/api/v1/nodes", Node, selector)
        return [node.metadata.name for page in pages for node in page.items]

    def list_pool_pods(self, pool_name: str) -> list[BoundPod]:
        """Return the unfinished pods on a pool's nodes.

        One list per node: only an exact ``spec.nodeName`` is indexed, and listing every pod of a large cluster
        would move hundreds of megabytes.
        """
        found = []
        for name in self.list_pool_nodes(pool_name):
            for page in self._api.list_pages("/api/v1/pods", Pod, {"fieldSelector": f"spec.nodeName={name}"}):
                found += [_read_bound(pod) for pod in page.items if _holds_node(pod)]
        return found

    def list_surplus_marks(self, pool_name: str) -> dict[str, SurplusMark | None]:
        """Return the nodes of a pool by name, each with our mark where it has one."""
        selector = {"labelSelector": f"{labels.NODE_POOL}={pool_name}"}
        pages = self._api.list_pages("/api/v1/nodes", Node, selector)
        return {node.metadata.name: read_surplus(node) for page in pages for node in page.items}

    def mark_surplus(self, node: str, since: float | None, *, closed: bool = False) -> None:
        """Put our mark on a node, in place of an earlier one, or take it off.

        The list of taints is written whole, with the version that was read: what others change meanwhile is a
        `StaleView`, and the next sweep's.
        """
        selector = {"fieldSelector": f"metadata.name={node}"}
        for page in self._api.list_pages("/api/v1/nodes", Node, selector):
            for seen in page.items:
                body = {
                    "metadata": {"resourceVersion": seen.metadata.resource_version},
                    "spec": {"taints": replace_surplus(seen, since, closed=closed)},
                }
                self._api.patch(f"/api/v1/nodes/{node}", body)

    def write_notice(self, notice: Notice) -> None:
        """Write an Event under a name made of its content, so that a repetition raises the count, if it is old."""
        moment = datetime.now(UTC)
        now = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        identity = f"{notice.uid}\n{notice.reason}\n{notice.message}".encode()
        name = f"{notice.name[:200]}.{hashlib.sha256(identity).hexdigest()[:16]}"
        path = f"/api/v1/namespaces/{notice.namespace}/events"
        try:
            self._api.create(path, self._format_event(notice, name, now))
        except AlreadyExists:
            seen = self._api.get(f"{path}/{name}", _Notice)
            said_at = parse_time(seen.last_timestamp)
            if said_at is not None and moment.timestamp() - said_at < NOTICE_FRESH_SECONDS:
                return
            self._api.patch(f"{path}/{name}", {"count": seen.count + 1, "lastTimestamp": now})

    def _format_event(self, notice: Notice, name: str, now: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": notice.namespace},
            "involvedObject": {
                "apiVersion": API_VERSIONS[notice.kind],
                "kind": notice.kind,
                "namespace": notice.namespace,
                "name": notice.name,
                "uid": notice.uid,
            },
            "reason": notice.reason,
            "message": notice.message[:_MESSAGE_LENGTH_MAX],
            "type": "Warning" if notice.warning else "Normal",
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }


def _holds_node(pod: Pod) -> bool:
    """Return whether a pod would lose something with its node; DaemonSets' and static pods would not."""
    owners = pod.metadata.owner_references or ()
    if any(owner.kind == "DaemonSet" for owner in owners) or MIRROR_POD in (pod.metadata.annotations or {}):
        return False
    return pod.status.phase not in ("Succeeded", "Failed")


def _read_bound(pod: Pod) -> BoundPod:
    meta, view = pod.metadata, view_pod(pod)
    kind = find_kind_of_pod(view)
    return BoundPod(
        namespace=meta.namespace,
        name=meta.name,
        kind=kind.name if kind else "",
        workload=kind.find_owner(view) if kind else "",
        chips=view.template.units,
        node=view.node_name,
        deleting_since=parse_time(meta.deletion_timestamp),
    )
