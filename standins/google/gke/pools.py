"""Messages of `google.container.v1`, what they say of a pool, and what GKE fills in.

The model keeps and answers the client's raw messages, so that nothing has to translate. They are
made at run time and carry no types: `Message` is an honest `Any`. The stored form of a pool is
taken from recordings of the real API in https://github.com/GoogleCloudPlatform/k8s-config-connector
(containernodepool fixtures), which the tier `recordings` compares it with. An omitted node count
stays 0.
"""

from typing import Any, TypeAlias

from google.cloud.container_v1.types import cluster_service as types
from google.protobuf import json_format

from standins.google.gke.machines import Machine, list_zones
from standins.google.gke.names import ClusterName, is_zone

Message: TypeAlias = Any
PoolStatus: Any = types.NodePool.Status
ClusterStatus: Any = types.Cluster.Status
OperationStatus: Any = types.Operation.Status
OperationType: Any = types.Operation.Type
ConditionCode: Any = types.StatusCondition.Code
ReservationType: Any = types.ReservationAffinity.Type
PlacementType: Any = types.NodePool.PlacementPolicy.Type
VERSION = "1.34.1-gke.3084001"
_MODEL_LABEL = "goog-gke-node-pool-provisioning-model"
_SCOPES = ("devstorage.read_only", "logging.write", "monitoring", "service.management.readonly", "servicecontrol")


def raw_class(name: str) -> Any:
    """Return the protobuf class of client message `name`, such as `CreateNodePoolRequest`."""
    return getattr(types, name).pb()


NodePool = raw_class("NodePool")


def copy_of(message: Message) -> Message:
    """Return an independent copy of a message."""
    copied = type(message)()
    copied.CopyFrom(message)
    return copied


def is_autoscaled(pool: Message) -> bool:
    """Return whether the pool's size is left to the cluster autoscaler."""
    return bool(pool.autoscaling.enabled)


def tier_of(pool: Message) -> str:
    """Return how machines are bought.

    `reservation`, `spot`, `preemptible`, `flex-start` or `on-demand`.
    """
    config = pool.config
    tiers = {"reservation": bool(reservation_of(pool)), "spot": config.spot, "preemptible": config.preemptible}
    tiers["flex-start"] = config.flex_start
    return next((name for name, holds in tiers.items() if holds), "on-demand")


def reservation_of(pool: Message) -> str:
    """Return the name of the pool's specific reservation without its path, or an empty string."""
    return reservation_path(pool).get("reservations", "")


def reservation_path(pool: Message) -> dict[str, str]:
    """Return the path pieces of the pool's specific reservation.

    Projects, reservations, reservationBlocks, ….
    """
    affinity = pool.config.reservation_affinity
    if affinity.consume_reservation_type != ReservationType.SPECIFIC_RESERVATION or not affinity.values:
        return {}
    parts = str(affinity.values[0]).split("/")
    if len(parts) % 2:  # it begins with the name, which may have blocks behind it
        parts = ["reservations", *parts]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def default_zones(location: str) -> list[str]:
    """Return the node zones of a cluster that names none.

    Its own zone, or three zones of its region.
    """
    return [location] if is_zone(location) else list_zones(location)[:3]


def complete_pool(pool: Message, cluster: ClusterName, machine: Machine, zones: list[str]) -> Message:
    """Return the pool as GKE stores it.

    What the caller sent, with defaults where nothing was said.
    """
    stored, tier = copy_of(pool), tier_of(pool)
    for name in ("status_message", "instance_group_urls", "conditions", "etag", "status"):
        stored.ClearField(name)
    usual: dict[str, Any] = {
        "locations": zones,
        "max_pods_constraint": {"max_pods_per_node": 110},
        "management": {"auto_repair": tier != "flex-start", "auto_upgrade": True},
        "upgrade_settings": {"max_surge": 1, "strategy": "SURGE"},
        "version": VERSION,
    }
    _fill(stored, usual)
    if stored.autoscaling.enabled:
        _fill(stored.autoscaling, {"location_policy": "BALANCED"})
    _fill_config(stored.config, machine)
    stored.config.resource_labels[_MODEL_LABEL] = tier
    stored.self_link = cluster.pool_link(pool.name)
    return stored


def _fill(message: Message, usual: dict[str, Any]) -> None:
    """Set those fields of a message that it does not have."""
    present = {field.name for field, _ in message.ListFields()}
    json_format.ParseDict({name: value for name, value in usual.items() if name not in present}, message)


def _fill_config(config: Message, machine: Machine) -> None:
    if not config.HasField("boot_disk"):
        _fill(config, {"disk_size_gb": 100, "disk_type": machine.disks[0]})
        config.boot_disk.disk_type, config.boot_disk.size_gb = config.disk_type, config.disk_size_gb
    scopes = [f"https://www.googleapis.com/auth/{name}" for name in (*_SCOPES, "trace.append")]
    usual = {
        "machine_type": machine.name,
        "image_type": "COS_CONTAINERD",
        "service_account": "default",
        "oauth_scopes": scopes,
        "shielded_instance_config": {"enable_integrity_monitoring": True},
    }
    _fill(config, usual)
    config.image_type = config.image_type.upper()
    config.metadata["disable-legacy-endpoints"] = config.metadata.get("disable-legacy-endpoints", "true")
    if machine.is_tpu:
        # Seen on live TPU pools: simultaneous multithreading is off, and the pool says so, asked or
        # not.
        # https://github.com/vllm-project/ci-infra/blob/main/terraform/gcp_old/tpu-inference/k8s/workers.tf
        config.advanced_machine_features.threads_per_core = 1
