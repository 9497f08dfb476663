"""What a plan asks beside its workloads: disks of claims, and labels of namespaces.

Claims are read from the manifests, else from the cluster if one is asked. What could not be read is
assumed, and said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from cli.exit_codes import say
from shared.edges.cluster import read_disk
from shared.model.errors import NotFound, ProvisionerError
from shared.needs.ways import list_volume_claims

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shared.edges.kubernetes import JsonObject
    from shared.engine.outside import Cluster
    from shared.model.workloads import Disk, WorkloadView

_CLASSES = "/apis/storage.k8s.io/v1/storageclasses/"
_PATHS = {
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims/{}",
    "PersistentVolume": "/api/v1/persistentvolumes/{1}",
    "StorageClass": _CLASSES + "{1}",
}
_AT_ONCE, _GKES_DEFAULT = "standard", "standard-rwo"
"""The one class of GKE's own that binds at once, and its default, which waits for the first pod, as
those of a manifest do: https://cloud.google.com/kubernetes-engine/docs/concepts/persistent-volumes."""
_LABELS, _DISKS = "no label of a namespace opts out of pools", "no disk binds pods to a zone"
"""What is assumed where it is not read."""
T = TypeVar("T")


class Facts:
    """Reads facts of manifests and a cluster; after a failure it asks no more of that kind."""

    def __init__(self, defined: Mapping[tuple[str, str, str], Mapping[str, Any]], cluster: Cluster | None) -> None:
        """Take the objects of the manifests by kind, namespace and name, and the cluster to ask."""
        self._objects = {
            _PATHS[kind].format(home, name): body for (kind, home, name), body in defined.items() if kind in _PATHS
        }
        self._cluster = cluster
        self._labels: dict[str, Mapping[str, str]] = {}
        self._unread: dict[str, str] = {}
        """What is assumed, and why."""

    def find_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace, which may opt out of pools; none if none are read."""
        if namespace not in self._labels:
            namespace_view = self._ask(_LABELS, lambda cluster: cluster.get_namespace(namespace))
            self._labels[namespace] = namespace_view.labels if namespace_view else {}
        return self._labels[namespace]

    def add_disks(self, workload: WorkloadView) -> WorkloadView:
        """Return a workload with the disks of its claims, as far as something tells them."""
        disks = (self._find_disk(workload.namespace, claim) for claim in list_volume_claims(workload))
        return structs.replace(workload, disks=tuple(disk for disk in disks if disk is not None))

    @property
    def assumptions(self) -> list[str]:
        """What the plan assumes because nothing says it."""
        return [f"assumed: {what} ({why})" for what, why in self._unread.items()]

    def _find_disk(self, namespace: str, claim: str) -> Disk | None:
        if _PATHS["PersistentVolumeClaim"].format(namespace, claim) in self._objects:
            return read_disk(self._get, namespace, claim)
        return self._ask(_DISKS, lambda cluster: cluster.find_disk(namespace, claim))

    def _ask(self, what: str, read: Callable[[Cluster], T | None]) -> T | None:
        if self._cluster is None:
            self._unread[what] = "no cluster was asked; --cluster asks it"
        if self._cluster is None or what in self._unread:
            return None
        try:
            return read(self._cluster)
        except ProvisionerError as error:
            self._unread[what] = say(error)
            return None

    def _get(self, path: str, kind: type[JsonObject]) -> JsonObject:
        """Return one object; a class that no manifest has is taken to wait for the first pod."""
        body = self._objects.get(path)
        if body is None and path.startswith(_CLASSES):
            waits = path.removeprefix(_CLASSES) != _AT_ONCE
            body = {"volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate"}
        if body is None:
            raise NotFound(f"{path}: is in no manifest")
        return kind(self._complete(body))

    def _complete(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a claim with what the API server and the binder add to it."""
        own_spec = body.get("spec") or {}
        if body.get("kind") != "PersistentVolumeClaim" or not isinstance(own_spec, dict):
            return body
        own, spec = _name(body["metadata"]), {"storageClassName": _GKES_DEFAULT, **own_spec}
        for each in self._objects.values():
            volume = each.get("spec")
            kept_for = volume.get("claimRef") if isinstance(volume, dict) else None
            if each["kind"] == "PersistentVolume" and isinstance(kept_for, dict) and _name(kept_for) == own:
                spec["volumeName"] = each["metadata"]["name"]
        return {**body, "spec": spec}


def _name(reference: Mapping[str, Any]) -> tuple[str, str]:
    return reference.get("namespace") or "default", reference.get("name") or ""
