"""What GKE fills in: the stored form of a new node pool, and the description of a cluster.

Taken from recordings of the real API published in
https://github.com/GoogleCloudPlatform/k8s-config-connector (containernodepool fixtures), which the
tier `recordings` compares it with. An omitted node count stays 0.
"""

import math
import zlib

from standins.google.gke.model.machines import Machine, list_zones
from standins.google.gke.model.proto_messages import (
    CgroupMode,
    Cluster,
    ClusterStatus,
    LocationPolicy,
    Message,
    NetworkTier,
    UpdateStrategy,
    copy_of,
    tier_of,
)
from standins.google.gke.resource_names import ClusterName, is_zone, region_of

VERSION = "1.34.1-gke.3084001"
_MODEL_LABEL = "goog-gke-node-pool-provisioning-model"
_SCOPES = (
    "https://www.googleapis.com/auth/devstorage.read_only",
    "https://www.googleapis.com/auth/logging.write",
    "https://www.googleapis.com/auth/monitoring",
    "https://www.googleapis.com/auth/service.management.readonly",
    "https://www.googleapis.com/auth/servicecontrol",
    "https://www.googleapis.com/auth/trace.append",
)


def default_zones(location: str) -> list[str]:
    """Return the node zones of a cluster that names none.

    Its own zone, or three zones of its region.
    """
    return [location] if is_zone(location) else list_zones(location)[:3]


def filled_pool(pool: Message, cluster: ClusterName, machine: Machine, zones: list[str]) -> Message:
    """Return the pool as GKE stores it.

    What the caller sent, with defaults where nothing was said.
    """
    stored = copy_of(pool)
    for name in ("status_message", "instance_group_urls", "conditions", "etag", "status"):
        stored.ClearField(name)
    _fill_config(stored.config, machine)
    _fill_network(stored.network_config, cluster)
    stored.config.resource_labels[_MODEL_LABEL] = tier_of(pool)
    if not stored.locations:
        stored.locations.extend(zones)
    if not stored.HasField("max_pods_constraint"):
        stored.max_pods_constraint.max_pods_per_node = 110
    if not stored.HasField("management"):
        flexible = tier_of(pool) == "flex-start"
        stored.management.auto_repair = not flexible
        stored.management.auto_upgrade = True
    if stored.autoscaling.enabled and not stored.autoscaling.location_policy:
        stored.autoscaling.location_policy = LocationPolicy.BALANCED
    if not stored.HasField("upgrade_settings"):
        stored.upgrade_settings.max_surge = 1
        stored.upgrade_settings.strategy = UpdateStrategy.SURGE
    stored.version = pool.version or VERSION
    pods = stored.max_pods_constraint.max_pods_per_node
    stored.pod_ipv4_cidr_size = 32 - math.ceil(math.log2(2 * pods))
    stored.self_link = cluster.pool_link(pool.name)
    return stored


def _fill_network(network: Message, cluster: ClusterName) -> None:
    region, chance = region_of(cluster.location), zlib.crc32(cluster.path.encode())
    network.subnetwork = network.subnetwork or f"projects/{cluster.project}/regions/{region}/subnetworks/default"
    network.pod_range = network.pod_range or f"gke-{cluster.cluster}-pods-{chance:08x}"
    network.pod_ipv4_cidr_block = network.pod_ipv4_cidr_block or f"10.{chance % 64 * 4}.0.0/14"
    if not network.HasField("network_tier_config"):
        network.network_tier_config.network_tier = NetworkTier.NETWORK_TIER_DEFAULT


def _fill_config(config: Message, machine: Machine) -> None:
    config.machine_type = config.machine_type or machine.name
    if not config.HasField("boot_disk"):
        config.disk_size_gb = config.disk_size_gb or 100
        config.disk_type = config.disk_type or machine.disks[0]
        config.boot_disk.disk_type, config.boot_disk.size_gb = config.disk_type, config.disk_size_gb
    config.effective_cgroup_mode = CgroupMode.EFFECTIVE_CGROUP_MODE_V2
    config.windows_node_config.SetInParent()
    kubelet = config.kubelet_config
    if not kubelet.HasField("insecure_kubelet_readonly_port_enabled"):
        kubelet.insecure_kubelet_readonly_port_enabled = False
    kubelet.max_parallel_image_pulls = kubelet.max_parallel_image_pulls or 2
    config.image_type = (config.image_type or "COS_CONTAINERD").upper()
    config.service_account = config.service_account or "default"
    if "disable-legacy-endpoints" not in config.metadata:
        config.metadata["disable-legacy-endpoints"] = "true"
    if not config.oauth_scopes:
        config.oauth_scopes.extend(_SCOPES)
    if machine.is_tpu:
        # Seen on live TPU pools: simultaneous multithreading is off, and the pool says so, asked or
        # not.
        # https://github.com/vllm-project/ci-infra/blob/main/terraform/gcp_old/tpu-inference/k8s/workers.tf
        config.advanced_machine_features.threads_per_core = 1
    if not config.HasField("shielded_instance_config"):
        config.shielded_instance_config.enable_integrity_monitoring = True


def described_cluster(
    name: ClusterName, zones: list[str], created: str, endpoint: str, release_channel: str
) -> Message:
    """Return what GetCluster says about a cluster, without its pools."""
    dns = {"endpoint": f"gke-{name.cluster}.{name.location}.gke.goog", "allow_external_traffic": True}
    return Cluster(
        name=name.cluster,
        location=name.location,
        zone=name.location,
        locations=zones,
        status=ClusterStatus.RUNNING,
        current_master_version=VERSION,
        current_node_version=VERSION,
        initial_cluster_version=VERSION,
        create_time=created,
        endpoint=endpoint,
        self_link=name.self_link,
        network="default",
        subnetwork="default",
        logging_service="logging.googleapis.com/kubernetes",
        monitoring_service="monitoring.googleapis.com/kubernetes",
        release_channel={"channel": release_channel},
        control_plane_endpoints_config={"dns_endpoint_config": dns},
    )
