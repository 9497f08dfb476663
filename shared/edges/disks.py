"""Reads in which zones the volume of a PersistentVolumeClaim can be used.

A bound claim has it from the node affinity and the labels of its PersistentVolume, as the scheduler
does: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#node-affinity. A claim without
a volume has it from its StorageClass, if that limits the zones:
https://kubernetes.io/docs/concepts/storage/storage-classes/#allowed-topologies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from shared.edges.kubernetes import ObjectMeta, Record
from shared.edges.pod_requests import Expression  # noqa: TC001 -- msgspec reads it
from shared.edges.pods import RequiredNodes  # noqa: TC001 -- msgspec reads it
from shared.model import labels
from shared.model.errors import Denied, NotFound, Rejected
from shared.model.times import parse_time
from shared.model.workloads import Disk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.edges.kubernetes import KubernetesApi

ZONE_KEYS = (labels.ZONE, "topology.gke.io/zone", "failure-domain.beta.kubernetes.io/zone")
"""The second is that of Google's CSI drivers, the third that of old volumes:
https://github.com/kubernetes-sigs/gcp-compute-persistent-disk-csi-driver."""
_WAITS = "WaitForFirstConsumer"
_BETWEEN_ZONES = "__"
"""Between the zones of a regional disk in a label:
https://pkg.go.dev/k8s.io/cloud-provider/volume/helpers#LabelZonesToSet."""


class VolumeClaimSpec(Record):
    """What a claim asks for, and its volume."""

    volume_name: str = ""
    storage_class_name: str | None = None


class VolumeClaim(Record):
    """A PersistentVolumeClaim."""

    spec: VolumeClaimSpec = msgspec.field(default_factory=VolumeClaimSpec)


class VolumeAffinity(Record):
    """The nodes that can use a volume."""

    required: RequiredNodes | None = None


class VolumeSpec(Record):
    """What a volume is, as far as it is read."""

    node_affinity: VolumeAffinity | None = None


class Volume(Record):
    """A PersistentVolume."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: VolumeSpec = msgspec.field(default_factory=VolumeSpec)


class TopologyTerm(Record):
    """Requirements that hold together."""

    match_label_expressions: list[Expression] | None = None


class StorageClass(Record):
    """A StorageClass."""

    allowed_topologies: list[TopologyTerm] | None = None
    volume_binding_mode: str = "Immediate"
    """``WaitForFirstConsumer``: the volume is made when a pod is placed."""


def read_disk(api: KubernetesApi, namespace: str, claim: str) -> Disk | None:
    """Return where the volume of a claim can be used, or why it can be used nowhere yet.

    None: it can be used anywhere, or an object on the way to it has no name that the API accepts.
    It takes two reads if the claim has a volume or a class, else one. What may not be read is not
    known, so its pods wait, and their owner is told why.
    """
    try:
        return _read_claim(api, namespace, claim)
    except Denied as error:
        return Disk(claim=claim, unbound=f"cannot be judged: {error}")


def _read_claim(api: KubernetesApi, namespace: str, claim: str) -> Disk | None:
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}"
    try:
        spec = api.get(path, VolumeClaim).spec
    except NotFound:
        return Disk(claim=claim, zones=(), unbound="does not exist")
    except Rejected:  # the API server lets each of these names be any text
        return None
    if spec.volume_name:
        return _read_volume(api, claim, spec.volume_name)
    return _read_class(api, claim, spec.storage_class_name or "")


def _read_volume(api: KubernetesApi, claim: str, name: str) -> Disk | None:
    try:
        volume = api.get(f"/api/v1/persistentvolumes/{name}", Volume)
    except (NotFound, Rejected):
        return None
    zones = _find_zones_of_volume(volume)
    made_at = parse_time(volume.metadata.creation_timestamp)
    return Disk(claim=claim, zones=zones, made_at=made_at) if zones else None


def _read_class(api: KubernetesApi, claim: str, name: str) -> Disk | None:
    """Return where a claim without a volume will get it; a class that binds at once must do so."""
    try:
        path = f"/apis/storage.k8s.io/v1/storageclasses/{name}"
        storage = api.get(path, StorageClass) if name else StorageClass()
    except (NotFound, Rejected):
        storage = StorageClass()
    if storage.volume_binding_mode != _WAITS:
        return Disk(claim=claim, zones=(), unbound="is not bound to a volume yet")
    zones = _find_zones(
        each.match_label_expressions or () for each in storage.allowed_topologies or ()
    )
    return Disk(claim=claim, zones=zones, storage_class=name) if zones else None


def _find_zones_of_volume(volume: Volume) -> tuple[str, ...]:
    affinity, own_labels = volume.spec.node_affinity, volume.metadata.labels or {}
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    of_label = next((own_labels[key] for key in ZONE_KEYS if own_labels.get(key)), "")
    labelled = tuple(sorted(set(of_label.split(_BETWEEN_ZONES)))) if of_label else ()
    return _find_zones(each.match_expressions or () for each in terms) or labelled


def _find_zones(terms: Iterable[Iterable[Expression]]) -> tuple[str, ...]:
    """Return the zones that satisfy one of several terms; empty if any zone does."""
    zones: set[str] = set()
    for term in terms:
        # A class has no operator, because it can only list values.
        sets = [
            set(each.values or ())
            for each in term
            if each.key in ZONE_KEYS and each.operator in ("", "In")
        ]
        if not sets:
            return ()
        zones |= set.intersection(*sets)
    return tuple(sorted(zones))
