"""Reads in which zones the volume of a PersistentVolumeClaim can be used.

A bound claim has it from the node affinity and the labels of its PersistentVolume, as the scheduler
does: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#node-affinity. A claim without
a volume has it from its StorageClass, if that limits the zones:
https://kubernetes.io/docs/concepts/storage/storage-classes/#allowed-topologies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shared.edges.kubernetes import JsonObject, read_values, reading
from shared.kinds.objects import read_objects, read_text, read_texts
from shared.model import labels
from shared.model.errors import Denied, NotFound, Rejected
from shared.model.workloads import Disk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.kinds.objects import Json

ZONE_KEYS = (labels.ZONE, "topology.gke.io/zone", "failure-domain.beta.kubernetes.io/zone")
"""The second is that of Google's CSI drivers, the third that of old volumes:
https://github.com/kubernetes-sigs/gcp-compute-persistent-disk-csi-driver."""
_WAITS = "WaitForFirstConsumer"
"""The volume of such a class is made when a pod is placed."""
_BETWEEN_ZONES = "__"
"""Between the zones of a regional disk in a label:
https://pkg.go.dev/k8s.io/cloud-provider/volume/helpers#LabelZonesToSet."""


Get = Callable[[str, type[JsonObject]], JsonObject]
"""Returns one object by its path in the API."""


def read_disk(get: Get, namespace: str, claim: str) -> Disk | None:
    """Return where the volume of a claim can be used, or why it can be used nowhere yet.

    None: it can be used anywhere, or an object on the way to it has no name that the API accepts.
    It takes two reads if the claim has a volume or a class, else one. What may not be read is not
    known, so its pods wait, and their owner is told why.
    """
    try:
        with reading(f"the disk of claim {namespace}/{claim}"):
            return _read_claim(get, namespace, claim)
    except Denied as error:
        return Disk(claim=claim, unbound=f"cannot be judged: {error}")


def _read_claim(get: Get, namespace: str, claim: str) -> Disk | None:
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}"
    try:
        body = get(path, JsonObject)
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
        return get(path, JsonObject)
    except (NotFound, Rejected):
        return None


def _find_zones(terms: Sequence[Sequence[Json]]) -> tuple[str, ...]:
    """Return the zones that satisfy one of several terms; empty if any zone does."""
    zones: set[str] = set()
    for term in terms:
        # A class has no operator, because it can only list values.
        listed = [each for each in term if read_text(each, "operator") in ("", "In")]
        sets = [set(read_values(each)) for each in listed if read_text(each, "key") in ZONE_KEYS]
        if not sets:
            return ()
        zones |= set.intersection(*sets)
    return tuple(sorted(zones))
