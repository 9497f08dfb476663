"""What a pool may have to wait for: the disks of its pods.

Claims are as an API server takes them: of a volume in one zone, and of a class that makes one.
"""

from __future__ import annotations

import contextlib

from tests.loop.bodies import Json, read_manifest
from tests.loop.cloud import wait_for
from tests.loop.workload import Workload

DRIVER = "pd.csi.storage.gke.io"
VOLUMES, CLASSES = "/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/storageclasses"
_ASKS: Json = {"accessModes": ["ReadWriteMany"]}
_SIZE: Json = {"resources": {"requests": {"storage": "1Gi"}}}
_AT_ONCE: Json = {"metadata": {"name": "standard"}, "provisioner": DRIVER, "volumeBindingMode": "Immediate"}


def name_claims(namespace: str) -> str:
    """Return the path of a namespace's claims."""
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"


def list_bound(namespace: str, claim: str, volume: str, zone: str) -> list[tuple[str, Json]]:
    """Return a volume in a zone and a claim of it, each with the path that it is posted to."""
    here = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
    there = {
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": DRIVER, "volumeHandle": volume},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        "storageClassName": "",
    }
    asked = {"volumeName": volume, "storageClassName": ""}
    return [
        (VOLUMES, {"metadata": {"name": volume}, "spec": _ASKS | there}),
        (name_claims(namespace), {"metadata": {"name": claim}, "spec": _ASKS | _SIZE | asked}),
    ]


def list_unbound(namespace: str, claim: str, storage_class: str, zone: str) -> list[tuple[str, Json]]:
    """Return a class of one zone, and a claim that gets its volume of it when a pod is placed."""
    here = {"key": "topology.kubernetes.io/zone", "values": [zone]}
    made = {
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [here]}],
    }
    asked = {"storageClassName": storage_class}
    return [
        (CLASSES, {"metadata": {"name": storage_class}, **made}),
        (name_claims(namespace), {"metadata": {"name": claim}, "spec": _ASKS | _SIZE | asked}),
    ]


class Stored(Workload):
    """A workload with the verbs that are about its claims."""

    def claim(self, words: Json) -> None:
        """Create a claim of a file, which no controller here binds; its class binds at once."""
        with contextlib.suppress(AssertionError):  # another life has made it
            self.cloud.create(CLASSES, _AT_ONCE)
        self.cloud.create(name_claims(self.namespace), read_manifest(words))

    def disk(self, words: Json) -> None:
        """Bind a claim to a new volume in a zone, as a driver does; one that is missing is made."""
        volume = f"{self.namespace}-{words['claim']}"
        made = list_bound(self.namespace, words["claim"], volume, words["zone"])
        (_, body), (claims, claim) = made
        path = f"{claims}/{words['claim']}"
        there = self.cloud.get(path)
        if there:
            own = {key: there["spec"][key] for key in ("storageClassName", "accessModes")}
            refers = {"claimRef": {"namespace": self.namespace, "name": words["claim"]}}
            body["spec"] |= own | refers | {"capacity": there["spec"]["resources"]["requests"]}
        self.cloud.create(VOLUMES, body)
        if not there:
            self.cloud.create(claims, claim)
        elif not self.cloud.is_real:  # the embedded cluster has no controller that binds
            self.cloud.patch(path, {"spec": {"volumeName": volume}})
        wait_for(f"{path} is bound", lambda: (self.cloud.get(path) or {})["spec"].get("volumeName"))
