"""The nodes of a pool as Kubernetes has them, and the events that tell of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from standins.google.gke.machines import Machine, gpus_of
from standins.google.gke.names import ClusterName
from standins.google.gke.pools import VERSION, Message, reservation_path, tier_of
from standins.kit.kubernetes import labels_of_host

_GKE = "cloud.google.com"
_PODS = 110
_GKE_METADATA = 2  # of WorkloadMetadataConfig.Mode
_EFFECTS = {1: "NoSchedule", 2: "PreferNoSchedule", 3: "NoExecute"}
_TOLD_TIERS = ("spot", "preemptible", "flex-start")
_RESERVED = {
    "reservations": "reservation-name",
    "projects": "reservation-project",
    "reservationBlocks": "reservation-blocks",
    "reservationSubBlocks": "reservation-subblocks",
}
"""The label of each piece of the path of a reservation."""


@dataclass(frozen=True)
class Node:
    """One host of a pool and the Node object that stands for it."""

    cluster: ClusterName
    pool: str
    name: str
    zone: str
    manifest: dict[str, Any]


def labels_by_gke(pool: Message, machine: Machine, topology: str) -> dict[str, str]:
    """Return node labels that the control plane writes from a pool's fields, without the zone."""
    tier, gpus, path = tier_of(pool), gpus_of(pool.config), reservation_path(pool)
    labels = {
        f"{_GKE}/gke-nodepool": pool.name,
        f"{_GKE}/machine-family": machine.name.split("-", 1)[0],
        f"{_GKE}/gke-os-distribution": "cos",
        f"{_GKE}/gke-max-pods-per-node": str(_count_pods(pool)),
        f"{_GKE}/gke-provisioning": tier if tier in _TOLD_TIERS else "standard",
        **({f"{_GKE}/gke-{tier}": "true"} if tier in _TOLD_TIERS else {}),
        **(gpus.labels if gpus is not None else {}),
        **{f"{_GKE}/{key}": path[piece] for piece, key in _RESERVED.items() if path.get(piece)},
    }
    if machine.family is not None:
        labels[f"{_GKE}/gke-tpu-accelerator"] = machine.family.accelerator
        labels[f"{_GKE}/gke-tpu-topology"] = topology
        labels[f"{_GKE}/gke-accelerator-count"] = str(machine.chips)
    if pool.placement_policy.policy_name:
        labels[f"{_GKE}/placement-policy-name"] = pool.placement_policy.policy_name.rsplit("/", 1)[-1]
    if pool.config.workload_metadata_config.mode == _GKE_METADATA:
        labels["iam.gke.io/gke-metadata-server-enabled"] = "true"
    if profile := pool.network_config.accelerator_network_profile:
        labels["gke.networks.io/accelerator-network-profile"] = profile
    return labels


def node_object(
    cluster: ClusterName, pool: Message, machine: Machine, topology: str, place: tuple[str, str]
) -> Node:
    """Return the node called `place[0]` in zone `place[1]`, with everything but its conditions.

    The fake reserves nothing, so allocatable is the capacity.
    """
    name, zone = place
    labels = {
        **labels_by_gke(pool, machine, topology),
        **labels_of_host(machine.name, machine.architecture, zone),
        "kubernetes.io/hostname": name,
        **dict(pool.config.labels),
    }
    gpus = gpus_of(pool.config)
    resources = {
        "cpu": str(machine.cpus),
        "memory": f"{machine.memory_gb}Gi",
        "ephemeral-storage": f"{pool.config.boot_disk.size_gb or pool.config.disk_size_gb or 100}Gi",
        "pods": str(_count_pods(pool)),
        **({"google.com/tpu": str(machine.chips)} if machine.chips else {}),
        **({"nvidia.com/gpu": str(gpus.units)} if gpus is not None else {}),
    }
    manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": f"gce://{cluster.project}/{zone}/{name}", "taints": taints_of(pool, machine)},
        "status": {
            "capacity": resources,
            "allocatable": dict(resources),
            "nodeInfo": {"kubeletVersion": f"v{pool.version or VERSION}", "operatingSystem": "linux"},
            "addresses": [{"type": "Hostname", "address": name}],
        },
    }
    return Node(cluster, pool.name, name, zone, manifest)


def taints_of(pool: Message, machine: Machine) -> list[dict[str, str]]:
    """Return the taints of a pool's nodes in Kubernetes' spelling: GKE's own, then the pool's."""
    own = {
        "google.com/tpu": ("present", machine.is_tpu),
        "nvidia.com/gpu": ("present", gpus_of(pool.config) is not None),
        "kubernetes.io/arch": (machine.architecture, machine.architecture != "amd64"),
    }
    values = {(key, "NoSchedule"): value for key, (value, holds) in own.items() if holds}
    values |= {(each.key, _EFFECTS[each.effect]): each.value for each in pool.config.taints}
    return [{"key": key, "value": value, "effect": effect} for (key, effect), value in values.items()]


def _count_pods(pool: Message) -> int:
    return int(pool.max_pods_constraint.max_pods_per_node) or _PODS


@dataclass(frozen=True)
class PoolState:
    """A pool entered a status; `GONE` when it no longer exists."""

    cluster: ClusterName
    pool: str
    status: str


@dataclass(frozen=True)
class NodeUp:
    """A host is ready: its Node object should be registered."""

    node: Node


@dataclass(frozen=True)
class NodesLeave:
    """These nodes go: first their pods should be deleted, then (`gone`) their Node objects."""

    cluster: ClusterName
    pool: str
    names: list[str]
    gone: bool


@dataclass(frozen=True)
class CallMade:
    """A call was answered with `code`."""

    method: str
    cluster: str
    pool: str
    skin: str
    code: str
    at: float


@dataclass(frozen=True)
class OperationMoved:
    """An operation on a pool was accepted, or has ended; what the audit log says of it."""

    cluster: ClusterName
    pool: str
    operation: str
    kind: str  # the type of the operation, for example ``CREATE_NODE_POOL``
    at: str  # RFC 3339
    ended: bool
    code: int = 0  # of the failure; 0 without one
    text: str = ""


Event: TypeAlias = "PoolState | NodeUp | NodesLeave | CallMade | OperationMoved"
Listener: TypeAlias = "Callable[[Event], None]"
