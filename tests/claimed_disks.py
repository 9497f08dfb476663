"""Claims as an API server takes them: of a volume in one zone, and of a class that makes one."""

from typing import Any

Json = dict[str, Any]
DRIVER = "pd.csi.storage.gke.io"
VOLUMES, CLASSES = "/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/storageclasses"
_ASKS: Json = {"accessModes": ["ReadWriteMany"]}
_SIZE: Json = {"resources": {"requests": {"storage": "1Gi"}}}


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
