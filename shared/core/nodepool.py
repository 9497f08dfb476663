"""Build the node pool of one demand, in the JSON of the GKE API v1. Pure: no call is made here.

Fields: https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools.
Everything that the Go TPU Provisioner can set is set here too, by the operator's settings or by the pod.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from shared.core import labels
from shared.core.capacity import Tier
from shared.core.catalogue import Placement
from shared.core.gpus import is_compact
from shared.core.kinds.table import get_kind
from shared.core.names import build_owner_labels, build_pool_name

if TYPE_CHECKING:
    from shared.core.demand import Demand
    from shared.core.settings import Settings

Json = dict[str, Any]

CLOUD_PLATFORM_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def build_node_pool(demand: Demand, *, attempt: int, created_at: int, settings: Settings) -> Json:
    """Return the ``nodePool`` of a CreateNodePool request.

    Args:
        demand: what the slice asks for.
        attempt: which try this is; part of name and labels.
        created_at: unix seconds; GKE itself remembers no creation time.
        settings: the operator's settings.

    Raises:
        LabelBudgetExceeded: the node labels exceed GKE's 1,024 characters.
    """
    shape, capacity = demand.shape, demand.capacity
    flexible = capacity.tier == Tier.FLEX_START
    pool: Json = {
        "name": build_pool_name(demand.claim, attempt),
        "config": _build_config(demand, attempt=attempt, created_at=created_at, settings=settings),
        "initialNodeCount": 0 if flexible else shape.node_count,
        "locations": [demand.zone],
        # Repair keeps a slice's hosts whole; an upgrade would restart a running job for nothing.
        "management": {"autoRepair": not flexible, "autoUpgrade": False},
        "upgradeSettings": {"strategy": "SHORT_LIVED"} if flexible else _build_upgrades(demand),
        # The setting is for one pod of the workload on each node.
        "maxPodsConstraint": {"maxPodsPerNode": str(settings.node_max_pods + shape.pods_per_node - 1)},
    }
    if flexible:
        # Flex-start pools start empty and are filled by GKE's autoscaler; per-zone limits, never totals.
        pool["autoscaling"] = {"enabled": True, "maxNodeCount": shape.node_count, "locationPolicy": "ANY"}
    placement = _build_placement(demand, settings)
    if placement:
        pool["placementPolicy"] = placement
    if demand.networks:
        pool["networkConfig"] = {
            "additionalNodeNetworkConfigs": [_build_network(pair) for pair in demand.networks]
        }
    elif shape.own_networks:
        # GKE makes and keeps the networks itself.
        pool["networkConfig"] = {"acceleratorNetworkProfile": "auto"}
    return pool


def describe_placement(demand: Demand, settings: Settings) -> str:
    """Return the placement in words, for logs and reports: ``COMPACT 4x4``, ``workload policy N`` or ``none``."""
    placement = _build_placement(demand, settings)
    if "policyName" in placement:
        return f"workload policy {placement['policyName']}"
    return f"{placement['type']} {placement.get('tpuTopology', '')}".strip() if placement else "none"


def _build_placement(demand: Demand, settings: Settings) -> Json:
    shape = demand.shape
    if shape.placement == Placement.COMPACT:
        return {"type": "COMPACT", "tpuTopology": shape.topology}
    if shape.placement == Placement.WORKLOAD_POLICY:
        return {"policyName": f"{settings.workload_policy_prefix}{shape.topology}"}
    if shape.gpus and shape.multi_host and not demand.elastic and is_compact(shape.accelerator):
        return {"type": "COMPACT"}
    return {}


def _build_upgrades(demand: Demand) -> Json:
    # No further host fits into a rack that is full.
    return {"maxSurge": 0, "maxUnavailable": 1} if demand.shape.gpus and demand.shape.topology else {"maxSurge": 1}


def _build_accelerators(demand: Demand) -> list[Json]:
    """Return the GPUs of each node; TPUs come with the machine."""
    shape, gpus = demand.shape, demand.shape.gpus
    if gpus is None:
        return []
    found: Json = {
        "acceleratorType": shape.accelerator,
        "acceleratorCount": str(shape.chips_per_host),
        "gpuDriverInstallationConfig": {"gpuDriverVersion": gpus.driver},
    }
    if gpus.partition:
        found["gpuPartitionSize"] = gpus.partition
    if gpus.strategy:
        found["gpuSharingConfig"] = {
            "gpuSharingStrategy": gpus.strategy,
            "maxSharedClientsPerGpu": str(gpus.clients),
        }
    return [found]


def _build_config(demand: Demand, *, attempt: int, created_at: int, settings: Settings) -> Json:
    config: Json = {
        "machineType": demand.shape.machine_type,
        "labels": _build_labels(demand, attempt=attempt, created_at=created_at),
        "oauthScopes": [CLOUD_PLATFORM_SCOPE],
        "shieldedInstanceConfig": {
            "enableIntegrityMonitoring": True,
            "enableSecureBoot": settings.node_secure_boot,
        },
    }
    if settings.node_workload_identity:
        config["workloadMetadataConfig"] = {"mode": "GKE_METADATA"}
    taints = _build_taints(demand)
    optional: Json = {
        "serviceAccount": demand.node_service_account,
        "tags": list(settings.node_tags),
        "resourceLabels": _build_billing_labels(demand) | settings.resource_labels,
        "bootDiskKmsKey": settings.node_boot_disk_kms_key,
        "enableConfidentialStorage": settings.node_confidential_storage,
        "diskType": _choose_disk_type(demand, settings),
        "diskSizeGb": settings.node_disk_size_gb,
        "taints": taints,
        "accelerators": _build_accelerators(demand),
    }
    config |= {key: value for key, value in optional.items() if value}
    if settings.node_secondary_boot_disk:
        # A container image cache needs image streaming.
        config["secondaryBootDisks"] = [
            {"diskImage": settings.node_secondary_boot_disk, "mode": "CONTAINER_IMAGE_CACHE"}
        ]
        config["gcfsConfig"] = {"enabled": True}
    return config | _build_capacity(demand)


def _build_labels(demand: Demand, *, attempt: int, created_at: int) -> dict[str, str]:
    owner = build_owner_labels(
        demand.claim, attempt=attempt, created_at=created_at, fingerprint=demand.fingerprint
    )
    # Owner labels last: nothing that a pod's author chooses can overwrite them.
    merged = demand.operator_labels | demand.node_labels | owner
    labels.check_label_budget(merged)
    return merged


def _build_billing_labels(demand: Demand) -> dict[str, str]:
    """Return labels of the virtual machines by which a bill can be split, cleaned of what they may not contain."""
    claim = demand.claim
    said = {"tpu-provisioner-namespace": claim.namespace, "tpu-provisioner-workload": claim.name}
    return {key: re.sub(r"[^a-z0-9_-]", "-", value.lower())[:63] for key, value in said.items()}


def _build_taints(demand: Demand) -> list[Json]:
    """Return the taints that GKE does not add by itself; those of TPUs and GPUs come from GKE."""
    taints = []
    if demand.capacity.tier == Tier.SPOT:
        taints.append({"key": labels.SPOT, "value": "true", "effect": "NO_SCHEDULE"})
    if demand.pinned:
        taints.append({"key": get_kind(demand.claim.kind).pin_taint, "value": "true", "effect": "NO_SCHEDULE"})
    return taints


def _build_capacity(demand: Demand) -> Json:
    capacity = demand.capacity
    if capacity.tier == Tier.SPOT:
        return {"spot": True}
    if capacity.tier == Tier.FLEX_START:
        return {
            "flexStart": True,
            "maxRunDuration": f"{capacity.max_run_duration_seconds}s",
            "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
        }
    if capacity.tier == Tier.RESERVATION:
        return {
            "reservationAffinity": {
                "consumeReservationType": "SPECIFIC_RESERVATION",
                "key": "compute.googleapis.com/reservation-name",
                "values": [_reservation_value(demand)],
            }
        }
    return {}


def _reservation_value(demand: Demand) -> str:
    path = demand.capacity.reservation_path
    if "/" in path and not path.startswith("projects/"):
        # A block of a reservation in the cluster's own project: blocks are named by full path only.
        project = demand.claim.cluster.split("/")[1]
        return f"projects/{project}/reservations/{path}"
    return path


def _choose_disk_type(demand: Demand, settings: Settings) -> str:
    """Return the operator's disk type where the machine accepts it, so that no default breaks v6e or tpu7x."""
    wanted = settings.node_disk_type
    return wanted if wanted in demand.shape.boot_disks else demand.shape.boot_disks[0] if wanted else ""


def _build_network(pair: str) -> Json:
    network, _, subnetwork = pair.partition(":")
    return {"network": network, "subnetwork": subnetwork}
