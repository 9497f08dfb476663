"""Resolves a need to what GKE needs, and builds the node pool of one of its slots. Pure.

The body is in the JSON of the GKE API v1, whose fields are in
https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools.
The settings and the pod can set everything that the Go TPU Provisioner can set; free text of the
pods is used only within the operator's allow-lists.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import structs

from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.errors import refuse
from shared.model.names import Claim, Try, build_name, build_owner_labels
from shared.model.needs import Tier, Way
from shared.model.times import read_seconds
from shared.model.workloads import SPOT_TAINT, PodTemplate
from shared.needs import templates
from shared.needs.ways import Demand, find_unbound, list_ways
from shared.settings import Settings
from shared.shapes.catalogue import GPUS, Placement
from shared.shapes.slices import find_disk

Json = dict[str, Any]


def complete(demand: Demand) -> Demand:
    """Return a demand with all that its pods and the settings say.

    What is refused first is what its owner should mend first.
    """
    template, workload, settings = demand.template, demand.workload, demand.settings
    templates.check_workload(workload, template, settings)
    templates.check_own_keys(template, workload)
    templates.check_resources(template, settings)
    templates.check_affinity(template)
    node_labels = templates.read_node_labels(template, demand.shape, demand.selected, settings)
    demand = structs.replace(demand, node_labels=node_labels)
    need = structs.replace(
        demand.need,
        flex_wait_seconds=demand.flex_wait,
        ways=list_ways(demand),
        part=demand.group.elastic and 2 * template.units < demand.shape.units_per_host,
        waits_for=find_unbound(template, workload),
        warm_seconds=_read_idle_seconds(demand),
    )
    return structs.replace(
        demand,
        need=need,
        networks=_read_networks(template, settings) or settings.node_additional_networks,
        node_service_account=_read_service_account(template, settings),
        disk_gb=find_disk(template, demand.shape, settings.room, settings.node_disk_size_gb),
    )


def _read_networks(template: PodTemplate, settings: Settings) -> tuple[str, ...]:
    """Return the ``network:subnetwork`` pairs that the annotation names."""
    field = f"annotation {labels.ADDITIONAL_NODE_NETWORKS}"
    text = template.annotations.get(labels.ADDITIONAL_NODE_NETWORKS, "")
    pairs = tuple(pair.replace(" ", "") for pair in text.split(",") if pair.strip())
    for pair in pairs:
        network, _, subnetwork = pair.partition(":")
        if not network or not subnetwork or ":" in subnetwork:
            raise refuse("no_network_pair", pair, field=field)
        templates.check_listed(pair, settings.allowed_node_networks, "allowed_node_networks", field)
    return pairs


def _read_service_account(template: PodTemplate, settings: Settings) -> str:
    account = template.annotations.get(labels.NODE_SERVICE_ACCOUNT, "")
    if account not in ("", settings.node_service_account):
        field = f"annotation {labels.NODE_SERVICE_ACCOUNT}"
        listed = settings.allowed_node_service_accounts
        templates.check_listed(account, listed, "allowed_node_service_accounts", field)
    return account or settings.node_service_account


def _read_idle_seconds(demand: Demand) -> int:
    """Return for how long the annotation, else the setting, asks that the pool stays.

    A pool that no other workload may use never stays: a pinned one, an elastic one, and one of
    several hosts whose pods nothing keeps together, because pods like these could be spread over
    several idle pools.
    """
    group, settings = demand.group, demand.settings
    text = demand.template.annotations.get(labels.IDLE_SECONDS, str(settings.idle_seconds))
    most = max(settings.idle_seconds, settings.idle_seconds_max)
    seconds = read_seconds(text, f"annotation {labels.IDLE_SECONDS}", most=most)
    together = group.whole or demand.template.node_pool_affinity or demand.shape.node_count == 1
    return seconds if together and not (group.pinned or group.elastic) else 0


def build_body(
    demand: Demand,
    claim: Claim,
    tried: Try,
    *,
    maximum: int,
    created_at: int,
    cluster_uid: str,
    on_channel: bool,
) -> Json:
    """Return the ``nodePool`` of a CreateNodePool request; an elastic one has a maximum.

    The time of creation and the UID of the cluster's ``kube-system`` are for labels: GKE records
    neither. A release channel upgrades most clusters, as every new one.
    """
    warm = demand.need.warm_seconds
    owner = build_owner_labels(
        claim, tried, created_at=created_at, cluster_uid=cluster_uid, warm_seconds=warm
    )
    settings = demand.settings
    # Owner labels last, so that no label of a pod can overwrite them.
    node_labels = demand.node_labels | owner
    pool: Json = {
        "name": build_name(claim, tried.attempt, tried.useless),
        "config": _build_config(demand, claim, node_labels),
        "locations": [demand.way.zone],
        **_size_pool(demand, maximum),
        **_build_upkeep(demand, on_channel=on_channel),
        # The setting is for one pod of the workload on each node.
        "maxPodsConstraint": {
            "maxPodsPerNode": str(settings.node_max_pods + demand.shape.pods_per_node - 1)
        },
    }
    if placement := _build_placement(demand):
        pool["placementPolicy"] = placement
    if demand.networks:
        pairs = [pair.partition(":") for pair in demand.networks]
        networks = [{"network": name, "subnetwork": subnetwork} for name, _, subnetwork in pairs]
        pool["networkConfig"] = {"additionalNodeNetworkConfigs": networks}
    elif demand.shape.machine.networks:
        # GKE creates and maintains the networks itself.
        pool["networkConfig"] = {"acceleratorNetworkProfile": "auto"}
    return pool


def _size_pool(demand: Demand, maximum: int) -> Json:
    """Return how many nodes the pool begins with, and how many its autoscaler may make.

    GKE's autoscaler would move pods that use less than half of a host, so their pool keeps its
    nodes. A pool that is made before pods exist begins with all nodes: no pod asks for them.
    """
    if demand.need.elastic:
        least = maximum if demand.need.part else 0
        return {
            "initialNodeCount": 0 if demand.empty else maximum,
            "autoscaling": {"enabled": True, "minNodeCount": least, "maxNodeCount": maximum},
        }
    if not demand.empty:
        return {"initialNodeCount": demand.shape.node_count}
    # The limit is per zone: GKE reads a limit in total alone as 0 for a slice of several hosts.
    nodes = demand.shape.node_count
    autoscaling = {"enabled": True, "maxNodeCount": nodes, "locationPolicy": "ANY"}
    return {"initialNodeCount": 0, "autoscaling": autoscaling}  # assumes: empty-slice


def _build_placement(demand: Demand) -> Json:
    shape = demand.shape
    policy = dict(demand.need.asks.labels).get(labels.PLACEMENT_POLICY)
    if policy:
        topology = {"tpuTopology": shape.topology} if shape.placement == Placement.COMPACT else {}
        return {"policyName": policy} | topology
    if shape.placement == Placement.COMPACT:
        return {"type": "COMPACT", "tpuTopology": shape.topology}  # assumes: slice-form
    if shape.placement == Placement.WORKLOAD_POLICY:  # assumes: workload-policy
        prefix = demand.settings.workload_policy_prefix
        return {"policyName": f"{prefix}{shape.topology}"}
    gang = shape.gpus and shape.node_count > 1 and not demand.need.elastic
    return {"type": "COMPACT"} if gang and GPUS[shape.family.accelerator].compact else {}


def _build_upkeep(demand: Demand, *, on_channel: bool) -> Json:
    """Return what GKE may do to the nodes: repair them, and upgrade none on which a job runs.

    On a release channel, GKE refuses a pool without auto-upgrade; an exclusion puts upgrades off:
    https://cloud.google.com/kubernetes-engine/docs/how-to/node-auto-upgrades.
    """
    if demand.way.tier == Tier.FLEX_START:
        # Its nodes live for seven days at most, and SHORT_LIVED upgrades replace none before.
        management = {"autoRepair": False, "autoUpgrade": on_channel}
        return {"management": management, "upgradeSettings": {"strategy": "SHORT_LIVED"}}
    # A full rack has no room for one more host.
    full = demand.shape.gpus and demand.shape.topology
    upkeep: Json = {  # assumes: auto-upgrade, no-channel
        "management": {"autoRepair": True, "autoUpgrade": on_channel},
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
    accelerator: Json = {
        "acceleratorType": shape.family.accelerator,
        "acceleratorCount": str(shape.machine.chips),
        "gpuDriverInstallationConfig": {"gpuDriverVersion": gpus.driver},
    }
    if gpus.partition:
        accelerator["gpuPartitionSize"] = gpus.partition
    if gpus.strategy:
        accelerator["gpuSharingConfig"] = {
            "gpuSharingStrategy": gpus.strategy,
            "maxSharedClientsPerGpu": str(gpus.clients),
        }
    return [accelerator]


def _build_config(demand: Demand, claim: Claim, node_labels: dict[str, str]) -> Json:
    settings = demand.settings
    config: Json = {
        "machineType": demand.shape.machine.name,
        "labels": node_labels,
        "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
        "shieldedInstanceConfig": {
            "enableIntegrityMonitoring": True,
            "enableSecureBoot": settings.node_secure_boot,
        },
    }
    if settings.node_workload_identity:
        config["workloadMetadataConfig"] = {"mode": "GKE_METADATA"}
    disk_type, accepted = settings.node_disk_type, demand.shape.family.boot_disks
    if disk_type and disk_type not in accepted:
        disk_type = accepted[0]  # the machine's default
    # A label of machines has fewer characters than a name of Kubernetes.
    bills = {
        f"tpu-provisioner-{key}": re.sub(r"[^a-z0-9_-]", "-", name.lower())
        for key, name in (("namespace", claim.namespace), ("workload", claim.name))
    }
    optional: Json = {
        "serviceAccount": demand.node_service_account,
        "tags": list(settings.node_tags),
        "resourceLabels": bills | settings.resource_labels,
        "bootDiskKmsKey": settings.node_boot_disk_kms_key,
        "enableConfidentialStorage": settings.node_confidential_storage,
        "diskType": disk_type,
        "diskSizeGb": demand.disk_gb,
        "taints": _build_taints(demand, claim),
        "accelerators": _build_accelerators(demand),
    }
    config |= {key: value for key, value in optional.items() if value}
    if settings.node_secondary_boot_disk:
        # A container image cache needs image streaming.
        config["secondaryBootDisks"] = [
            {"diskImage": settings.node_secondary_boot_disk, "mode": "CONTAINER_IMAGE_CACHE"}
        ]
        config["gcfsConfig"] = {"enabled": True}
    return config | _build_capacity(demand.way, claim)


def _build_taints(demand: Demand, claim: Claim) -> list[Json]:
    """Return the taints that GKE does not add itself; GKE adds those of TPUs and GPUs.

    GKE does not add that of spot nodes, and pods may select spot without a toleration:
    https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms.
    """
    keys = []
    if demand.way.tier == Tier.SPOT and demand.template.tolerates(SPOT_TAINT):
        keys.append(labels.SPOT)  # assumes: spot-taint
    if demand.need.pin:
        keys.append(get_kind(claim.kind).pin_taint)
    return [{"key": key, "value": "true", "effect": "NO_SCHEDULE"} for key in keys]


def _build_capacity(way: Way, claim: Claim) -> Json:
    if way.tier == Tier.SPOT:
        return {"spot": True}
    if way.tier == Tier.FLEX_START:
        return {
            "flexStart": True,  # assumes: flex-start
            "maxRunDuration": f"{way.run_seconds}s",
            "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
        }
    if way.tier == Tier.RESERVATION:
        path = way.reservation.path
        if "/" in path and not path.startswith("projects/"):
            # A block in the cluster's own project: GKE accepts blocks by full path only.
            path = f"projects/{claim.cluster.split('/')[1]}/reservations/{path}"
        return {
            "reservationAffinity": {
                "consumeReservationType": "SPECIFIC_RESERVATION",
                "key": "compute.googleapis.com/reservation-name",  # assumes: reservation-key
                "values": [path],
            }
        }
    return {}
