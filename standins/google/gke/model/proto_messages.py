"""Protobuf message classes of `google.container.v1`, from the official client, and small readers.

The model keeps and answers these raw messages, so that no skin has to translate. They are generated
at run time and carry no types: `Message` is an honest `Any`. No rule about GKE lives here.
"""

from typing import Any, TypeAlias

from google.cloud.container_v1.types import cluster_service as types

Message: TypeAlias = Any


def raw_class(name: str) -> Any:
    """Return the protobuf class of client message `name`, such as `CreateNodePoolRequest`."""
    wrapper: Any = getattr(types, name)
    return type(wrapper.pb(wrapper()))


NodePool = raw_class("NodePool")
Operation = raw_class("Operation")
Cluster = raw_class("Cluster")
StatusCondition = raw_class("StatusCondition")
ListNodePoolsResponse = raw_class("ListNodePoolsResponse")
ListOperationsResponse = raw_class("ListOperationsResponse")
ListClustersResponse = raw_class("ListClustersResponse")

PoolStatus: Any = types.NodePool.Status
OperationStatus: Any = types.Operation.Status
OperationType: Any = types.Operation.Type
ConditionCode: Any = types.StatusCondition.Code
ReservationType: Any = types.ReservationAffinity.Type
PlacementType: Any = types.NodePool.PlacementPolicy.Type
TaintEffect: Any = types.NodeTaint.Effect
ClusterStatus: Any = types.Cluster.Status
UpdateStrategy: Any = types.NodePoolUpdateStrategy
LocationPolicy: Any = types.NodePoolAutoscaling.LocationPolicy
CgroupMode: Any = types.NodeConfig.EffectiveCgroupMode
NetworkTier: Any = types.NetworkTierConfig.NetworkTier


def copy_of(message: Message) -> Message:
    """Return an independent copy of a message."""
    copied = type(message)()
    copied.CopyFrom(message)
    return copied


def is_autoscaled(pool: Message) -> bool:
    """Return whether the pool's size is left to the cluster autoscaler."""
    return bool(pool.autoscaling.enabled)


def is_queued(pool: Message) -> bool:
    """Return whether the pool gets nodes only through ProvisioningRequests."""
    return bool(pool.queued_provisioning.enabled)


def tier_of(pool: Message) -> str:
    """Return how machines are bought.

    `reservation`, `spot`, `preemptible`, `flex-start` or `on-demand`.
    """
    config = pool.config
    if config.reservation_affinity.consume_reservation_type == ReservationType.SPECIFIC_RESERVATION:
        return "reservation"
    if config.spot:
        return "spot"
    if config.preemptible:
        return "preemptible"
    if config.flex_start or is_queued(pool):
        return "flex-start"
    return "on-demand"


def reservation_of(pool: Message) -> str:
    """Return the name of the pool's specific reservation without its path, or an empty string."""
    affinity = pool.config.reservation_affinity
    if affinity.consume_reservation_type != ReservationType.SPECIFIC_RESERVATION or not affinity.values:
        return ""
    parts = str(affinity.values[0]).split("/")
    return parts[parts.index("reservations") + 1] if "reservations" in parts[:-1] else parts[0]


def reservation_path(pool: Message) -> dict[str, str]:
    """Return the path pieces of the pool's specific reservation.

    Projects, reservations, reservationBlocks, ….
    """
    name = reservation_of(pool)
    if not name:
        return {}
    parts = str(pool.config.reservation_affinity.values[0]).split("/")
    pieces = dict(zip(parts[::2], parts[1::2], strict=False)) if len(parts) > 1 else {}
    return {**pieces, "reservations": name}
