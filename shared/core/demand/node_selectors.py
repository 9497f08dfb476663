"""Reads the node labels that a pool needs for its pods, and refuses selectors that never match.

Keys with GKE's or Kubernetes' own prefixes are interpreted, never copied, since the API rejects or
overwrites them. A selector that no node would match is refused, because the pool would cost money
and never be used.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.demand.disks import check_zone, choose_zone
from shared.core.errors import NotAllowed, Rejected
from shared.core.settings import is_allowed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.core.demand.capacity import Capacity
    from shared.core.settings import Settings
    from shared.core.shapes.shape import Shape
    from shared.core.workloads import Disk, PodTemplate

ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z0-9]+")

SET_BY_GKE = frozenset(
    {
        labels.ACCELERATOR,
        labels.TOPOLOGY,
        labels.SPOT,
        labels.FLEX_START,
        labels.PROVISIONING,
        labels.RESERVATION_NAME,
        labels.RESERVATION_PROJECT,
        labels.RESERVATION_BLOCKS,
        labels.RESERVATION_SUBBLOCKS,
        labels.ZONE,
        labels.REGION,
        labels.RESERVATION_ZONE,
        labels.INSTANCE_TYPE,
        labels.GPU_ACCELERATOR,
        labels.GPU_PARTITION,
        labels.GPU_SHARING,
        labels.GPU_CLIENTS,
        labels.GPU_DRIVER,
    }
)
"""Node labels that GKE derives from the pool's fields; other modules of `shared.core` read them."""

COPIED_FROM_SELECTORS = frozenset(
    {labels.ICI_RESILIENCY, labels.LOCATION_HINT, labels.POOL_GROUP_NAME, labels.WORKLOAD_TYPE}
)
"""GKE's own keys that GKE reads from the labels of a new pool."""


class UnsupportedSelector(Rejected):
    """The pod selects a node label that no pool of this provisioner has."""

    reason = "selector_unsupported"


class ZoneMissing(Rejected):
    """Neither the pod nor the settings name a zone for the pool."""

    reason = "zone_missing"


def read_node_labels(
    template: PodTemplate,
    shape: Shape,
    capacity: Capacity,
    settings: Settings,
    *,
    pins: Mapping[str, str],
    given: Mapping[str, str],
) -> dict[str, str]:
    """Return the node labels that a pool needs besides owner labels and `read_operator_labels`.

    Args:
        template: what the pod needs.
        shape: the slice's shape, which selectors must not contradict.
        capacity: the slice's tier.
        settings: the operator's settings.
        pins: labels by which the kind pins pods to nodes; a value is empty if these are not pinned.
        given: further labels of the nodes; none contradicts a selector.

    Raises:
        UnsupportedSelector: the nodes would not have a label that the pod selects.
        NotAllowed: the copy-labels annotation names a label outside the allow-list.
    """
    found = _copy_pod_labels(template, settings)
    found.update({key: value for key, value in {**pins, **given}.items() if value})
    if capacity.max_run_duration_seconds and template.selects(labels.MAX_RUN_DURATION):
        found[labels.MAX_RUN_DURATION] = str(capacity.max_run_duration_seconds)
    copied = read_operator_labels(template, settings)
    anyway = {*found, *copied, labels.HOSTNAME, labels.OPERATING_SYSTEM, labels.ARCHITECTURE}
    anyway |= {labels.OS_DISTRIBUTION, *[labels.GPU_NODE] * bool(shape.gpus)}
    for key in {**template.node_affinity, **template.node_selector}:
        if key in given or key in SET_BY_GKE:
            continue
        if key == labels.METADATA_SERVER:
            _check_metadata_server(template, settings)
            continue
        value = template.find_selector(key)
        if value is not None:
            found.update(_read_selector(key, value, shape, pins))
        elif key not in anyway:
            raise UnsupportedSelector(
                "the operator Exists gives no value for the node label",
                field=f"spec.affinity.nodeAffinity {key}",
                value="Exists",
                valid="the operator In with one value",
            )
    return found


def read_operator_labels(template: PodTemplate, settings: Settings) -> dict[str, str]:
    """Return the pod's labels that the setting ``copy_labels`` copies to the nodes."""
    return {
        key: template.labels[key]
        for key in settings.copy_labels
        if key in template.labels and not labels.is_owner_key(key)
    }


def read_zone(template: PodTemplate, cluster: str, settings: Settings, disks: Sequence[Disk] = ()) -> str:
    """Return the zone of the pool: of the pod, else of the setting, else of a zonal cluster.

    If the pod selects none, and its disks are elsewhere than the setting says, it is theirs.

    Raises:
        ZoneMissing: there is none.
        UnsupportedSelector: the pod selects a zone outside the cluster's region.
        CapacityConflict: the pod's disks are in another zone than it selects, or in several.
    """
    location = cluster.split("/")[3]
    chosen = template.find_selector(labels.ZONE) or template.find_selector(labels.RESERVATION_ZONE)
    zone = chosen or settings.clusters[cluster].zone or (location if ZONE.fullmatch(location) else "")
    if chosen:
        check_zone(chosen, disks, field=f"spec.nodeSelector {labels.ZONE}")
    elif disks:
        zone = chosen = choose_zone(zone, disks)
    if not zone:
        raise ZoneMissing(
            "no zone is set for the node pool",
            field=f"spec.nodeSelector {labels.ZONE}",
            valid=f"a zone of {location} in this selector or in the setting clusters.{cluster}.zone",
        )
    region = find_region(cluster)
    if chosen and not chosen.startswith(f"{region}-"):
        raise UnsupportedSelector(
            "not a zone of the cluster's region", field=labels.ZONE, value=chosen, valid=f"a zone of {region}"
        )
    wanted_region = template.find_selector(labels.REGION)
    if wanted_region and wanted_region != region:
        raise UnsupportedSelector(
            "not the region of the cluster", field=labels.REGION, value=wanted_region, valid=region
        )
    return zone


def find_region(cluster: str) -> str:
    """Return the region of a cluster."""
    return "-".join(cluster.split("/")[3].split("-")[:2])


def _copy_pod_labels(template: PodTemplate, settings: Settings) -> dict[str, str]:
    asked = [key.strip() for key in template.annotations.get(labels.COPY_LABELS, "").split(",")]
    for key in asked:
        if key and (labels.is_reserved(key) or not is_allowed(key, settings.allowed_label_prefixes)):
            raise NotAllowed(
                "this label may not be copied to nodes",
                field=f"annotation {labels.COPY_LABELS}",
                value=key,
                valid="a key in allowed_label_prefixes, outside the domains of Google and Kubernetes",
            )
    return {key: template.labels[key] for key in asked if key in template.labels}


def _read_selector(key: str, value: str, shape: Shape, pins: Mapping[str, str]) -> dict[str, str]:
    """Return the label that satisfies one selector; empty if the nodes have it in any case."""
    if key == labels.ACCELERATOR_COUNT:
        _check_agrees(key, value, str(shape.chips_per_host))
        return {key: value}
    fixed = {
        labels.MACHINE_FAMILY: shape.machine_type.split("-")[0],
        labels.OPERATING_SYSTEM: "linux",
        labels.OS_DISTRIBUTION: "cos",
        labels.GPU_NODE: "true" if shape.gpus else "",
        labels.ARCHITECTURE: shape.architecture,
        **pins,
    }
    if key in fixed:
        _check_agrees(key, value, fixed[key])
        return {}
    if key == labels.RESERVATION_AFFINITY or key in COPIED_FROM_SELECTORS:
        return {key: value}
    if key == labels.MAX_RUN_DURATION:
        return {}
    if labels.is_reserved(key):
        raise UnsupportedSelector(
            "this provisioner cannot set this label on nodes",
            field="spec.nodeSelector",
            value=f"{key}={value}",
            valid="remove this selector; or, for node pools of your own that have this label, the annotation "
            f'{labels.DISABLE_AUTOPROVISIONING}: "true" on the pod',
        )
    return {key: value}


def _check_metadata_server(template: PodTemplate, settings: Settings) -> None:
    """Accept a selector of the label that GKE gives to nodes with its metadata server."""
    if not settings.node_workload_identity:
        raise UnsupportedSelector(
            "the setting node_workload_identity is off, so the nodes do not have GKE's metadata server",
            field="spec.nodeSelector",
            value=labels.METADATA_SERVER,
            valid="turn on the setting, or remove this selector",
        )
    _check_agrees(labels.METADATA_SERVER, template.find_selector(labels.METADATA_SERVER) or "true", "true")


def _check_agrees(key: str, value: str, expected: str) -> None:
    if value != expected:
        raise UnsupportedSelector(
            "contradicts the other fields of the pod",
            field=key,
            value=value,
            valid=expected or "remove this selector",
        )
