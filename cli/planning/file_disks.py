"""The disks of claims whose objects are in the manifests, as the cluster will have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shared.edges.disks import read_disk
from shared.model.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.edges.kubernetes import JsonObject
    from shared.model.workloads import Disk

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
