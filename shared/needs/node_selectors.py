"""Reads the node labels that a pool needs for its pods, and refuses selectors that never match.

Keys with GKE's or Kubernetes' own prefixes are interpreted, never copied, since the API rejects or
overwrites them. A selector that no node would match is refused, because the pool would cost money
and never be used.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.errors import NotAllowed, Rejected
from shared.model.topology_terms import Requirement, is_own
from shared.needs.capacity import Tier
from shared.needs.disks import check_zone, choose_zone
from shared.settings import is_allowed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.model.workloads import Disk, PodTemplate
    from shared.needs.capacity import Capacity
    from shared.settings import Settings
    from shared.shapes.shape import Shape

ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z0-9]+")

SET_BY_GKE = frozenset(
    {
        *(
            labels.ACCELERATOR,
            labels.TOPOLOGY,
            labels.GPU_NODE,
            labels.GPU_ACCELERATOR,
            labels.GPU_PARTITION,
        ),
        *(labels.GPU_SHARING, labels.GPU_CLIENTS, labels.GPU_DRIVER),
        *(labels.SPOT, labels.FLEX_START, labels.PROVISIONING),
        *(labels.RESERVATION_NAME, labels.RESERVATION_PROJECT),
        *(labels.RESERVATION_BLOCKS, labels.RESERVATION_SUBBLOCKS, labels.RESERVATION_ZONE),
        *(labels.ZONE, labels.REGION, labels.INSTANCE_TYPE, labels.MACHINE_FAMILY),
        *(labels.OPERATING_SYSTEM, labels.OS_DISTRIBUTION, labels.ARCHITECTURE),
    }
)
"""Node labels that GKE derives from the pool's fields; other modules of `shared.core` read them."""

COPIED_FROM_SELECTORS = frozenset(
    {labels.ICI_RESILIENCY, labels.LOCATION_HINT, labels.POOL_GROUP_NAME, labels.WORKLOAD_TYPE}
)
"""GKE's own keys that GKE reads from the labels of a new pool."""
TOPOLOGY_KEYS = (labels.NODE_POOL, labels.HOSTNAME, labels.ZONE)
"""The topology labels by which pods may require to be together or apart."""
_SELECTED = COPIED_FROM_SELECTORS | {labels.ACCELERATOR_COUNT, labels.RESERVATION_AFFINITY}


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

    A value of `pins`, by which the kind pins pods to nodes, is empty if these are not pinned. No
    label of `given` contradicts a selector.

    Raises:
        UnsupportedSelector: the nodes would not have a label that the pod selects.
        NotAllowed: the copy-labels annotation names a label outside the allow-list.
    """
    found = _copy_pod_labels(template, settings)
    found.update({key: value for key, value in {**pins, **given}.items() if value})
    if capacity.max_run_duration_seconds and template.selects(labels.MAX_RUN_DURATION):
        found[labels.MAX_RUN_DURATION] = str(capacity.max_run_duration_seconds)
    settled = {*given, *pins, *SET_BY_GKE, labels.METADATA_SERVER}
    if settings.force_on_demand or labels.MAX_RUN_DURATION in found:
        settled.add(labels.MAX_RUN_DURATION)
    for key in {**template.node_affinity, **template.node_selector}:
        if key in settled:
            continue
        value = template.find_selector(key)
        if value is None and key not in (
            *found,
            *read_operator_labels(template, settings),
            labels.HOSTNAME,
        ):
            raise UnsupportedSelector(
                "the operator Exists gives no value for the node label",
                field=f"spec.affinity.nodeAffinity {key}",
                value="Exists",
                valid="the operator In with one value",
            )
        if value is not None and labels.is_reserved(key) and key not in _SELECTED:
            raise UnsupportedSelector(
                "this provisioner cannot set this label on nodes",
                field="spec.nodeSelector",
                value=f"{key}={value}",
                valid="remove this selector; or, for node pools of your own that have this label, the annotation "
                f'{labels.DISABLE_AUTOPROVISIONING}: "true" on the pod',
            )
        if value is not None:
            found[key] = str(shape.chips_per_host) if key == labels.ACCELERATOR_COUNT else value
    return found


def check_affinity(template: PodTemplate, *, several: bool) -> None:
    """Accept pods whose required terms of affinity the nodes of one pool can satisfy.

    All nodes of a pool are alike, and a new one has no topology label but those of `TOPOLOGY_KEYS`.

    Args:
        template: of the pods.
        several: whether a pool has several of them.

    Raises:
        UnsupportedSelector: node affinity has several terms, or a topology term is about a label
            that no node has, or keeps apart by it the pods of one pool.
    """
    if len(template.node_terms) > 1:
        raise UnsupportedSelector(
            "several nodeSelectorTerms, and the nodes of a pool are all alike",
            field="spec.affinity.nodeAffinity",
            value="; or ".join(", ".join(map(str, term)) for term in template.node_terms),
            valid="one nodeSelectorTerm, or a nodeSelector",
        )
    for term in template.topology_terms:
        if is_own(term.key) and not template.list_values(term.key):
            raise UnsupportedSelector(
                "no node of a new node pool has this topology label",
                field=f"{term.kind} topologyKey",
                value=term.key,
                valid=f"{', '.join(TOPOLOGY_KEYS)}; a preferred term; or a nodeSelector with a value of "
                f"{term.key}, which the new nodes then get",
            )
        alike = term.key == labels.ZONE or is_own(term.key)
        if several and alike and term.keeps_apart(term.key, template.labels):
            raise UnsupportedSelector(
                "the pods of one node pool must differ in this topology label, and all nodes of a pool have one "
                "value of it",
                field=f"{term.kind} topologyKey",
                value=term.key,
                valid=f"{labels.HOSTNAME}, which keeps them on different nodes; or a preferred term",
            )


def check_nodes(
    template: PodTemplate,
    shape: Shape,
    capacity: Capacity,
    zone: str,
    own: Mapping[str, str],
    settings: Settings,
) -> None:
    """Accept nodes on which the node selector and the required node affinity let the pods run.

    Besides those of its `own`, some labels of a pool are known before it exists. Others of Google,
    of Kubernetes and of software are not, and refuse nothing.

    Raises:
        UnsupportedSelector: it names a requirement that the nodes do not meet.
    """
    known = {**_list_known_labels(shape, capacity, zone, settings), **own}
    # An own label of the author may have an empty value; of others it says that they lack it.
    present = {key: value for key, value in known.items() if value or not labels.is_reserved(key)}
    selected = [Requirement(key, "In", (value,)) for key, value in template.node_selector.items()]
    asked = (*selected, *(each for term in template.node_terms for each in term))
    certain = (each for each in asked if each.key in known or is_own(each.key))
    unmet = next((each for each in certain if not each.holds(present)), None)
    if unmet is None:
        return
    key = unmet.key
    has = (
        f"{present[key]}, as these nodes have it"
        if key in present
        else "remove this selector: they lack it"
    )
    if key == labels.METADATA_SERVER and key not in present:
        has = "remove this selector, or turn on the setting node_workload_identity"
    shown, problem = str(unmet), "the pods do not accept the nodes that they would get"
    raise UnsupportedSelector(problem, field=key, value=shown, valid=has)


def _list_known_labels(
    shape: Shape, capacity: Capacity, zone: str, settings: Settings
) -> dict[str, str]:
    """Return labels of the nodes of a pool; empty for those that GKE does not give to them."""
    tier, gpus = capacity.tier, shape.gpus
    found = {
        labels.MANAGER: labels.MANAGER_VALUE,
        labels.REGION: zone.rpartition("-")[0],
        labels.INSTANCE_TYPE: shape.machine_type,
        labels.MACHINE_FAMILY: shape.machine_type.split("-")[0],
        labels.OPERATING_SYSTEM: "linux",
        labels.OS_DISTRIBUTION: "cos",
        labels.ARCHITECTURE: shape.architecture,
        labels.ACCELERATOR: "" if gpus else shape.accelerator,
        labels.TOPOLOGY: "" if gpus else shape.topology,
        labels.GPU_ACCELERATOR: shape.accelerator if gpus else "",
        labels.GPU_NODE: "true" if gpus else "",
        labels.GPU_PARTITION: gpus.partition if gpus else "",
        labels.METADATA_SERVER: "true" if settings.node_workload_identity else "",
    }
    if settings.force_on_demand:  # a webhook may remove the tier, and Kueue may choose the zone
        return found
    return found | {
        labels.ZONE: zone,
        labels.SPOT: "true" if tier == Tier.SPOT else "",
        labels.FLEX_START: "true" if tier == Tier.FLEX_START else "",
        labels.PREEMPTIBLE: "",
        labels.PROVISIONING: tier if tier in (Tier.SPOT, Tier.FLEX_START) else "standard",
        labels.RESERVATION_NAME: capacity.reservation,
    }


def read_operator_labels(template: PodTemplate, settings: Settings) -> dict[str, str]:
    """Return the pod's labels that the setting ``copy_labels`` copies to the nodes."""
    return {
        key: template.labels[key]
        for key in settings.copy_labels
        if key in template.labels and not labels.is_owner_key(key)
    }


def read_zone(
    template: PodTemplate, cluster: str, settings: Settings, disks: Sequence[Disk] = ()
) -> str:
    """Return the zone of the pool: of the pod, else of the setting, else of a zonal cluster.

    If the pod selects none, and its disks are elsewhere than the setting says, it is theirs.

    Raises:
        ZoneMissing: there is none.
        UnsupportedSelector: the pod selects a zone outside the cluster's region.
        CapacityConflict: the pod's disks are in another zone than it selects, or in several.
    """
    location = cluster.split("/")[3]
    chosen = template.find_selector(labels.ZONE) or template.find_selector(labels.RESERVATION_ZONE)
    zone = (
        chosen or settings.clusters[cluster].zone or (location if ZONE.fullmatch(location) else "")
    )
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
            "not a zone of the cluster's region",
            field=labels.ZONE,
            value=chosen,
            valid=f"a zone of {region}",
        )
    return zone


def find_region(cluster: str) -> str:
    """Return the region of a cluster."""
    return "-".join(cluster.split("/")[3].split("-")[:2])


def _copy_pod_labels(template: PodTemplate, settings: Settings) -> dict[str, str]:
    asked = [key.strip() for key in template.annotations.get(labels.COPY_LABELS, "").split(",")]
    for key in asked:
        if key and (
            labels.is_reserved(key) or not is_allowed(key, settings.allowed_label_prefixes)
        ):
            raise NotAllowed(
                "this label may not be copied to nodes",
                field=f"annotation {labels.COPY_LABELS}",
                value=key,
                valid="a key in allowed_label_prefixes, outside the domains of Google and Kubernetes",
            )
    return {key: template.labels[key] for key in asked if key in template.labels}
