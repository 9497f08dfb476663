"""Which node labels a pool must carry so that its pods match, and which selectors no pool of ours can satisfy.

Keys under GKE's and Kubernetes' own prefixes are interpreted, never copied: the API rejects or overwrites them. A
selector that nobody would set on the nodes is refused, since the pool would be paid for and never used.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.errors import NotAllowed, Rejected
from shared.core.settings import is_allowed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.core.capacity import Capacity
    from shared.core.settings import Settings
    from shared.core.shapes import Shape
    from shared.core.workloads import PodTemplate

_RESERVED = re.compile(r"(.*\.)?(google\.com|gke\.io|kubernetes\.io|k8s\.io)")
_ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z0-9]+")

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
"""Node labels that the control plane derives from the pool's fields; each is read elsewhere in `shared.core`."""

COPIED_FROM_SELECTORS = frozenset(
    {labels.ICI_RESILIENCY, labels.LOCATION_HINT, labels.POOL_GROUP_NAME, labels.WORKLOAD_TYPE}
)
"""GKE's own keys that a pool's creator sends as labels: GKE reads them from there."""


class UnsupportedSelector(Rejected):
    """The pod selects a node label that no pool of ours would carry."""

    reason = "selector_unsupported"


class ZoneMissing(Rejected):
    """Neither the pod nor the settings name a zone for the pool."""

    reason = "zone_missing"


def read_node_labels(
    template: PodTemplate, shape: Shape, capacity: Capacity, settings: Settings, *, pins: Mapping[str, str]
) -> dict[str, str]:
    """Return the node labels that a pool needs besides its owner labels.

    What the operator copies by a setting is not among them (`read_operator_labels`).

    Args:
        template: what the pod says.
        shape: the slice's shape, for selectors that must agree with it.
        capacity: the slice's tier, likewise.
        settings: allow-lists and labels that are always copied.
        pins: labels by which the workload's kind pins pods to nodes; empty values when it does not pin these.

    Raises:
        UnsupportedSelector: a selector names a label that the nodes would not have.
        NotAllowed: the copy-labels annotation names a label outside the allow-list.
    """
    found = _copy_pod_labels(template, settings)
    found.update({key: value for key, value in pins.items() if value})
    if capacity.max_run_duration_seconds and template.selects(labels.MAX_RUN_DURATION):
        found[labels.MAX_RUN_DURATION] = str(capacity.max_run_duration_seconds)
    copied = read_operator_labels(template, settings)
    anyway = {*found, *copied, labels.HOSTNAME, labels.OPERATING_SYSTEM, labels.ARCHITECTURE}
    for key in {**template.node_affinity, **template.node_selector}:
        value = template.find_selector(key)
        if value is not None and key not in SET_BY_GKE:
            found.update(_read_selector(key, value, shape, pins))
        elif value is None and key not in SET_BY_GKE | anyway:
            raise UnsupportedSelector(
                "must exist, but nobody says its value", field=key, value="Exists", valid="In with one value"
            )
    return found


def read_operator_labels(template: PodTemplate, settings: Settings) -> dict[str, str]:
    """Return the pod's labels that the setting ``copy_labels`` names; no demand of the workload's own."""
    return {
        key: template.labels[key]
        for key in settings.copy_labels
        if key in template.labels and not labels.is_owner_key(key)
    }


def read_zone(template: PodTemplate, cluster: str, settings: Settings) -> str:
    """Return the one zone of the pool: the pod's choice, else the cluster's setting, else a zonal cluster's own.

    Raises:
        ZoneMissing: nobody names one.
        UnsupportedSelector: the pod names a zone outside the cluster's region.
    """
    location = cluster.split("/")[3]
    chosen = template.find_selector(labels.ZONE) or template.find_selector(labels.RESERVATION_ZONE)
    zone = chosen or settings.clusters[cluster].zone or (location if _ZONE.fullmatch(location) else "")
    if not zone:
        raise ZoneMissing(
            "no zone for the pool; a multi-host slice lives in exactly one",
            field=f"spec.nodeSelector {labels.ZONE}",
            valid=f"a zone of {location}, or the setting clusters.{cluster}.zone",
        )
    region = "-".join(location.split("-")[:2])
    if chosen and not chosen.startswith(f"{region}-"):
        raise UnsupportedSelector(
            "not a zone of the cluster's region", field=labels.ZONE, value=chosen, valid=f"{region}-…"
        )
    wanted_region = template.find_selector(labels.REGION)
    if wanted_region and wanted_region != region:
        raise UnsupportedSelector("another region", field=labels.REGION, value=wanted_region, valid=region)
    return zone


def _copy_pod_labels(template: PodTemplate, settings: Settings) -> dict[str, str]:
    asked = [key.strip() for key in template.annotations.get(labels.COPY_LABELS, "").split(",")]
    for key in asked:
        if key and (_is_reserved(key) or not is_allowed(key, settings.allowed_label_prefixes)):
            raise NotAllowed(
                "this label may not be copied to nodes",
                field=f"annotation {labels.COPY_LABELS}",
                value=key,
                valid="keys that the setting allowed_label_prefixes lists, outside Google's and Kubernetes' own",
            )
    return {key: template.labels[key] for key in asked if key in template.labels}


def _read_selector(key: str, value: str, shape: Shape, pins: Mapping[str, str]) -> dict[str, str]:
    """Return the label that satisfies one selector; empty when the nodes have it anyway."""
    if key == labels.ACCELERATOR_COUNT:
        _check_agrees(key, value, str(shape.chips_per_host))
        return {key: value}
    fixed = {
        labels.MACHINE_FAMILY: shape.machine_type.split("-")[0],
        labels.OPERATING_SYSTEM: "linux",
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
    if _is_reserved(key):
        raise UnsupportedSelector(
            "no pool of this provisioner carries this label",
            field="spec.nodeSelector",
            value=f"{key}={value}",
            valid="a key of your own domain, or one of the documented accelerator and capacity selectors",
        )
    return {key: value}


def _check_agrees(key: str, value: str, expected: str) -> None:
    if value != expected:
        raise UnsupportedSelector(
            "contradicts the rest of the pod", field=key, value=value, valid=expected or "leave it out"
        )


def _is_reserved(key: str) -> bool:
    domain, slash, _ = key.rpartition("/")
    return bool(slash) and bool(_RESERVED.fullmatch(domain))
