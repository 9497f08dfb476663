"""Builds the node pool of one demand, in the JSON of the GKE API v1. Pure: it calls nothing.

Fields: https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools.
The settings and the pod can set everything that the Go TPU Provisioner can set.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.errors import LabelBudgetExceeded
from shared.model.names import build_owner_labels, build_pool_name
from shared.model.priorities import NodeSource
from shared.model.workloads import SPOT_TAINT
from shared.needs.capacity import Tier
from shared.shapes.gpus import is_compact
from shared.shapes.shape import Placement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.needs.demand import Demand
    from shared.settings import Settings

Json = dict[str, Any]

NODE_LABEL_CHARACTERS_MAX = 1024  # assumes: label-limit
"""All node labels of one request together: comment on ``NodeConfig.labels``,
https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/NodeConfig."""
_SEPARATORS_PER_LABEL = 2  # '=' and ',', in case GKE counts the joined text
CLOUD_PLATFORM_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def build_node_pool(
    demand: Demand,
    *,
    attempt: int,
    created_at: int,
    settings: Settings,
    cluster_uid: str = "",
    on_channel: bool = True,
) -> Json:
    """Return the ``nodePool`` of a CreateNodePool request.

    Args:
        demand: what the slice needs.
        attempt: the number of the try; part of the name and the labels.
        created_at: unix seconds, for a label, because GKE does not record when a pool was created.
        settings: the operator's settings.
        cluster_uid: UID of the cluster's namespace ``kube-system``, for a label.
        on_channel: whether a release channel upgrades the cluster, as with every new cluster.

    Raises:
        LabelBudgetExceeded: the node labels exceed GKE's 1,024 characters.
    """
    shape, autoscaled = demand.shape, demand.nodes_from == NodeSource.AUTOSCALER
    pool: Json = {
        "name": build_pool_name(demand.claim, attempt),
        "config": _build_config(
            demand, build_labels(demand, attempt, created_at, cluster_uid), settings
        ),
        "initialNodeCount": 0 if autoscaled else shape.node_count,
        "locations": [demand.zone],
        **_build_upkeep(demand, on_channel=on_channel),
        # The setting is for one pod of the workload on each node.
        "maxPodsConstraint": {
            "maxPodsPerNode": str(settings.node_max_pods + shape.pods_per_node - 1)
        },
    }
    if autoscaled:  # assumes: empty-slice
        # The limit is per zone: GKE reads a limit in total alone as 0 for a slice of several hosts.
        pool["autoscaling"] = {
            "enabled": True,
            "maxNodeCount": shape.node_count,
            "locationPolicy": "ANY",
        }
    if placement := _build_placement(demand, settings):
        pool["placementPolicy"] = placement
    if demand.networks:
        pairs = [pair.partition(":") for pair in demand.networks]
        networks = [
            {"network": network, "subnetwork": subnetwork} for network, _, subnetwork in pairs
        ]
        pool["networkConfig"] = {"additionalNodeNetworkConfigs": networks}
    elif demand.network_profile:
        # GKE creates and maintains the networks itself.
        pool["networkConfig"] = {"acceleratorNetworkProfile": "auto"}
    return pool


def describe_placement(demand: Demand, settings: Settings) -> str:
    """Return the placement in words: ``COMPACT 4x4``, ``workload policy N`` or ``none``."""
    placement = _build_placement(demand, settings)
    if "policyName" in placement:
        return f"workload policy {placement['policyName']}"
    return (
        f"{placement['type']} {placement.get('tpuTopology', '')}".strip() if placement else "none"
    )


def _build_placement(demand: Demand, settings: Settings) -> Json:
    shape = demand.shape
    if shape.placement == Placement.COMPACT:
        return {"type": "COMPACT", "tpuTopology": shape.topology}  # assumes: slice-form
    if shape.placement == Placement.WORKLOAD_POLICY:  # assumes: workload-policy
        return {"policyName": f"{settings.workload_policy_prefix}{shape.topology}"}
    if shape.gpus and shape.multi_host and not demand.elastic and is_compact(shape.accelerator):
        return {"type": "COMPACT"}
    return {}


def _build_upkeep(demand: Demand, *, on_channel: bool) -> Json:
    """Return what GKE may do to the nodes: repair them, and upgrade none on which a job runs.

    On a release channel, GKE refuses a pool without auto-upgrade; an exclusion puts upgrades off:
    https://cloud.google.com/kubernetes-engine/docs/how-to/node-auto-upgrades.
    """
    if demand.capacity.tier == Tier.FLEX_START:
        # Its nodes live for seven days at most, and SHORT_LIVED upgrades replace none before.
        management = {"autoRepair": False, "autoUpgrade": on_channel}
        return {"management": management, "upgradeSettings": {"strategy": "SHORT_LIVED"}}
    # A full rack has no room for one more host.
    full = demand.shape.gpus and demand.shape.topology
    upkeep: Json = {
        "management": {
            "autoRepair": True,
            "autoUpgrade": on_channel,
        },  # assumes: auto-upgrade, no-channel
        "upgradeSettings": {"maxSurge": 0, "maxUnavailable": 1} if full else {"maxSurge": 1},
    }
    if on_channel:  # assumes: exclusion
        upkeep["maintenancePolicy"] = {"exclusionUntilEndOfSupport": {"enabled": True}}
    return upkeep


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


def _build_config(demand: Demand, node_labels: dict[str, str], settings: Settings) -> Json:
    config: Json = {
        "machineType": demand.shape.machine_type,
        "labels": node_labels,
        "oauthScopes": [CLOUD_PLATFORM_SCOPE],
        "shieldedInstanceConfig": {
            "enableIntegrityMonitoring": True,
            "enableSecureBoot": settings.node_secure_boot,
        },
    }
    if settings.node_workload_identity:
        config["workloadMetadataConfig"] = {"mode": "GKE_METADATA"}
    optional: Json = {
        "serviceAccount": demand.node_service_account,
        "tags": list(settings.node_tags),
        "resourceLabels": _build_billing_labels(demand) | settings.resource_labels,
        "bootDiskKmsKey": settings.node_boot_disk_kms_key,
        "enableConfidentialStorage": settings.node_confidential_storage,
        "diskType": _choose_disk_type(demand, settings),
        "diskSizeGb": demand.disk_gb,
        "taints": _build_taints(demand),
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


def build_labels(demand: Demand, attempt: int, created_at: int, cluster_uid: str) -> dict[str, str]:
    """Return the node labels of a demand's pool; the arguments are those of `build_node_pool`.

    Raises:
        LabelBudgetExceeded: see there.
    """
    owner = build_owner_labels(
        demand.claim,
        attempt=attempt,
        created_at=created_at,
        fingerprint=demand.fingerprint,
        optional={
            labels.CANDIDATE: demand.candidate_mark,
            labels.CLUSTER_UID: cluster_uid,
            labels.IDLE: demand.idle_seconds,
        },
    )
    # Owner labels last, so that no label of a pod can overwrite them.
    merged = demand.operator_labels | demand.node_labels | owner
    check_label_budget(merged)
    return merged


def measure_labels(node_labels: Mapping[str, str]) -> int:
    """Return how many characters of GKE's budget these node labels take, separators included."""
    return sum(len(key) + len(value) + _SEPARATORS_PER_LABEL for key, value in node_labels.items())


def check_label_budget(node_labels: Mapping[str, str]) -> None:
    """Accept node labels that fit GKE's budget.

    Raises:
        LabelBudgetExceeded: they take more than `NODE_LABEL_CHARACTERS_MAX`.
    """
    total = measure_labels(node_labels)
    if total > NODE_LABEL_CHARACTERS_MAX:
        copied = [key for key in node_labels if not labels.is_owner_key(key)] or list(node_labels)
        longest = max(copied, key=lambda key: len(key) + len(node_labels[key]))
        raise LabelBudgetExceeded(
            f"the node labels have {total} characters together; the longest label is {longest}",
            field="nodePool.config.labels",
            valid=f"at most {NODE_LABEL_CHARACTERS_MAX} characters together; copy fewer or shorter labels",
        )


def _build_billing_labels(demand: Demand) -> dict[str, str]:
    """Return labels of the virtual machines that split a bill, with valid characters only."""
    claim = demand.claim
    own_labels = {
        "tpu-provisioner-namespace": claim.namespace,
        "tpu-provisioner-workload": claim.name,
    }
    return {
        key: re.sub(r"[^a-z0-9_-]", "-", value.lower())[:63] for key, value in own_labels.items()
    }


def _build_taints(demand: Demand) -> list[Json]:
    """Return the taints that GKE does not add itself; GKE adds those of TPUs and GPUs."""
    taints = []
    # GKE does not add this one itself; pods may select spot without a toleration:
    # https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms.
    if demand.capacity.tier == Tier.SPOT and any(
        each.covers(SPOT_TAINT) for each in demand.tolerated
    ):
        taints.append(
            {"key": labels.SPOT, "value": "true", "effect": "NO_SCHEDULE"}
        )  # assumes: spot-taint
    if demand.pinned:
        taints.append(
            {"key": get_kind(demand.claim.kind).pin_taint, "value": "true", "effect": "NO_SCHEDULE"}
        )
    return taints


def _build_capacity(demand: Demand) -> Json:
    capacity = demand.capacity
    if capacity.tier == Tier.SPOT:
        return {"spot": True}
    if capacity.tier == Tier.FLEX_START:
        return {
            "flexStart": True,  # assumes: flex-start
            "maxRunDuration": f"{capacity.max_run_duration_seconds}s",
            "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
        }
    if capacity.tier == Tier.RESERVATION:
        return {
            "reservationAffinity": {
                "consumeReservationType": "SPECIFIC_RESERVATION",
                "key": "compute.googleapis.com/reservation-name",  # assumes: reservation-key
                "values": [_reservation_value(demand)],
            }
        }
    return {}


def _reservation_value(demand: Demand) -> str:
    path = demand.capacity.reservation_path
    if "/" in path and not path.startswith("projects/"):
        # A block in the cluster's own project: GKE accepts blocks by full path only.
        project = demand.claim.cluster.split("/")[1]
        return f"projects/{project}/reservations/{path}"
    return path


def _choose_disk_type(demand: Demand, settings: Settings) -> str:
    """Return the operator's disk type if the machine accepts it, else the machine's default."""
    wanted = settings.node_disk_type
    return (
        wanted
        if wanted in demand.shape.boot_disks
        else demand.shape.boot_disks[0]
        if wanted
        else ""
    )
