"""What a plan asks beside the manifests: disks of claims, here or in a cluster, and namespaces."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from cli.exit_codes import say
from shared.edges.cluster import read_disk
from shared.model.errors import NotFound, ProvisionerError
from shared.needs.ways import list_volume_claims

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shared.edges.kubernetes import JsonObject
    from shared.engine.outside import Cluster
    from shared.model.workloads import Disk, WorkloadView

_CLAIM, _VOLUME, _CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"
_CLASSES = "/apis/storage.k8s.io/v1/storageclasses/"
_PATHS = {
    _CLAIM: "/api/v1/namespaces/{}/persistentvolumeclaims/{}",
    _VOLUME: "/api/v1/persistentvolumes/{1}",
    _CLASS: _CLASSES + "{1}",
}
_AT_ONCE = "standard"
"""The one class of GKE's own that binds at once; those of a manifest do by default:
https://cloud.google.com/kubernetes-engine/docs/concepts/persistent-volumes."""
_GKES_DEFAULT = "standard-rwo"


class FileDisks:
    """Claims, volumes and classes of manifests."""

    def __init__(self, defined: Mapping[tuple[str, str, str], Mapping[str, Any]]) -> None:
        """Take the objects by kind, namespace and name."""
        self._objects = {
            _PATHS[kind].format(home, name): body for (kind, home, name), body in defined.items() if kind in _PATHS
        }

    def has(self, namespace: str, claim: str) -> bool:
        """Return whether the manifests have a claim."""
        return _PATHS[_CLAIM].format(namespace, claim) in self._objects

    def find_disk(self, namespace: str, claim: str) -> Disk | None:
        """Return where the volume of a claim will be, or why it can be nowhere yet."""
        return read_disk(self.get, namespace, claim)

    def get(self, path: str, kind: type[JsonObject]) -> JsonObject:
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
        asked = body.get("spec") or {}
        if body.get("kind") != _CLAIM or not isinstance(asked, dict):
            return body
        metadata = body["metadata"]
        own = (metadata.get("namespace") or "default", metadata["name"])
        spec = {"storageClassName": _GKES_DEFAULT, **asked}
        for each in self._objects.values():
            if each["kind"] == _VOLUME and _find_claim(each) == own:
                spec["volumeName"] = each["metadata"]["name"]
        return {**body, "spec": spec}


def _find_claim(volume: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the namespace and name of the claim that a volume is kept for."""
    spec = volume.get("spec")
    claim = spec.get("claimRef") if isinstance(spec, dict) else None
    if not isinstance(claim, dict):
        return None
    return claim.get("namespace") or "default", claim.get("name") or ""


T = TypeVar("T")


@dataclass(slots=True)
class _LiveFacts:
    """Facts that are read until a read fails."""

    cluster: Cluster | None = None
    """None: no cluster was asked."""
    unread: str = ""
    """Why a fact could not be read."""

    def _ask(self, read: Callable[[Cluster], T], otherwise: T) -> T:
        if self.cluster is None or self.unread:
            return otherwise
        try:
            return read(self.cluster)
        except ProvisionerError as error:
            self.unread = say(error)
            return otherwise

    def _assume(self, what: str) -> str:
        why = "no cluster was asked; --cluster asks it" if self.cluster is None else self.unread
        return f"assumed: {what} ({why})" if why else ""


@dataclass(slots=True)
class Namespaces(_LiveFacts):
    """The labels of namespaces, which may opt out of pools. They are read once each."""

    known: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def find_labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace; none if they are not known."""
        if name not in self.known:
            found = self._ask(lambda live: live.get_namespace(name), None)
            self.known[name] = found.labels if found else {}
        return self.known[name]

    @property
    def assumption(self) -> str:
        """Return what the plan assumes of namespaces; empty if it has read them."""
        return self._assume("no label of a namespace opts out of pools")


@dataclass(slots=True)
class Disks(_LiveFacts):
    """Reads the disks of claims that workloads name: from the manifests, else from the cluster."""

    files: FileDisks = field(default_factory=lambda: FileDisks({}))
    unseen: bool = False
    """Some workload names a claim that no manifest has."""

    def add_to(self, workload: WorkloadView) -> WorkloadView:
        """Return a workload with the disks of its claims, as far as they are known."""
        read = (self._find(workload.namespace, claim) for claim in list_volume_claims(workload))
        return dataclasses.replace(workload, disks=tuple(disk for disk in read if disk is not None))

    def _find(self, namespace: str, claim: str) -> Disk | None:
        if self.files.has(namespace, claim):
            return self.files.find_disk(namespace, claim)
        self.unseen = True
        return self._ask(lambda live: live.find_disk(namespace, claim), None)

    @property
    def assumption(self) -> str:
        """Return what the plan assumes of disks; empty if it has read them or needs none."""
        return self._assume("no disk binds pods to a zone") if self.unseen else ""
