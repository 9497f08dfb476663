"""One cluster's live objects over the Kubernetes API, in the words of `shared.core.ports.Cluster`."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from shared.core import labels
from shared.core.errors import AlreadyExists, NotFound, Unavailable
from shared.core.ports import BoundPod, Notice
from shared.edges.kubernetes_objects import Record
from shared.edges.workload_objects import MIRROR_POD, JobSet, Node, Pod, parse_time, view_jobset, view_pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.core.workloads import JobSetView, PodView
    from shared.edges.kubernetes_api import KubernetesApi

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets"
LEADERS = {
    "labelSelector": f"{labels.JOB_KEY},{labels.COMPLETION_INDEX}=0",
    # An exact spec.nodeName is the one pod field selector that API servers index.
    "fieldSelector": "spec.nodeName=",
}
API_VERSIONS = {"Pod": "v1", "JobSet": "jobset.x-k8s.io/v1alpha2"}
_MESSAGE_LENGTH_MAX = 1024
"""Longest message of an Event: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/."""


class _Notice(Record):
    count: int = 1


class KubernetesCluster:
    """`shared.core.ports.Cluster` over HTTPS."""

    def __init__(self, api: KubernetesApi, *, component: str = "tpu-provisioner") -> None:
        self._api = api
        self._component = component

    def get_pod(self, namespace: str, name: str) -> PodView | None:
        """Return one pod as it is now, or None."""
        try:
            return view_pod(self._api.get(f"/api/v1/namespaces/{namespace}/pods/{name}", Pod))
        except NotFound:
            return None

    def get_jobset(self, namespace: str, name: str) -> JobSetView | None:
        """Return one JobSet as it is now, or None when Kubernetes itself says that there is none of that name.

        Pools are deleted on this word, so any other 404 (JobSet not installed, a wrong address) proves nothing and
        is `Unavailable`. The text is apimachinery's: https://pkg.go.dev/k8s.io/apimachinery/pkg/api/errors#NewNotFound.
        """
        try:
            return view_jobset(self._api.get(f"{JOBSETS.format(namespace=namespace)}/{name}", JobSet))
        except NotFound as error:
            if f'"{name}" not found' not in str(error):
                raise Unavailable(f"whether JobSet {namespace}/{name} exists is unknown: {error}") from error
            return None

    def list_waiting_leaders(self) -> Iterator[PodView]:
        """Yield the leader pods of JobSets that are bound to no node, page by page."""
        for page in self._api.list_pages("/api/v1/pods", Pod, LEADERS):
            for pod in page.items:
                yield view_pod(pod)

    def list_pool_pods(self, pool_name: str) -> list[BoundPod]:
        """Return the unfinished pods on a pool's nodes.

        One list per node: only an exact ``spec.nodeName`` is indexed, and listing every pod of a large cluster
        would move hundreds of megabytes.
        """
        found = []
        selector = {"labelSelector": f"{labels.NODE_POOL}={pool_name}"}
        names = [
            node.metadata.name
            for page in self._api.list_pages("/api/v1/nodes", Node, selector)
            for node in page.items
        ]
        for name in names:
            for page in self._api.list_pages("/api/v1/pods", Pod, {"fieldSelector": f"spec.nodeName={name}"}):
                found += [_read_bound(pod) for pod in page.items if _holds_node(pod)]
        return found

    def write_notice(self, notice: Notice) -> None:
        """Write an Event under a name made of its content, so that a repetition raises the count."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        identity = f"{notice.uid}\n{notice.reason}\n{notice.message}".encode()
        name = f"{notice.name[:200]}.{hashlib.sha256(identity).hexdigest()[:16]}"
        path = f"/api/v1/namespaces/{notice.namespace}/events"
        try:
            self._api.create(path, self._format_event(notice, name, now))
        except AlreadyExists:
            seen = self._api.get(f"{path}/{name}", _Notice)
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
    meta = pod.metadata
    return BoundPod(
        namespace=meta.namespace,
        name=meta.name,
        workload=(meta.labels or {}).get(labels.JOBSET_NAME_ON_POD, ""),
        chips=view_pod(pod).template.chips,
        deleting_since=parse_time(meta.deletion_timestamp),
    )
