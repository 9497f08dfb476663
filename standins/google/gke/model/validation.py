"""Which node pools GKE accepts: name, machine, disk, shape, capacity type, limits.

Pure; raises INVALID_ARGUMENT.

Sources: https://cloud.google.com/kubernetes-engine/docs/concepts/tpus, /docs/concepts/spot-vms,
/docs/concepts/dws and the request builder in
https://github.com/GoogleCloudPlatform/cluster-autoscaler. Whether a name is free or a cluster busy
is decided in `admission`.
"""

import re
from dataclasses import dataclass

from standins.google.gke.errors import invalid, invalid_field
from standins.google.gke.faults.scenario import Scenario
from standins.google.gke.model.gpu_machines import check_accelerators, gpus_of
from standins.google.gke.model.label_rules import (
    check_node_labels,
    check_resource_labels,
    check_tags,
    check_taints,
)
from standins.google.gke.model.machine_zones import check_zone
from standins.google.gke.model.machines import Machine, find_machine, hosts_for
from standins.google.gke.model.node_objects import labels_by_gke
from standins.google.gke.model.proto_messages import Message, PlacementType, is_autoscaled
from standins.google.gke.model.tiers import check_tier
from standins.google.gke.resource_names import POOL_NAME, is_zone, region_of

_SMALLEST_DISK_GB, _LARGEST_DISK_GB = 10, 65_536
_FEWEST_PODS, _MOST_PODS = 8, 256
_MOST_NODES = 1000


@dataclass(frozen=True)
class Shape:
    """What a pool is made of.

    Its machine, and for TPUs the topology and how many hosts form one slice.
    """

    machine: Machine
    topology: str = ""
    hosts: int = 1

    @property
    def atomic(self) -> bool:
        """Return whether the hosts come and go as one: a multi-host TPU slice."""
        return self.hosts > 1


def check_pool(pool: Message, location: str, zones: list[str], scenario: Scenario, *, late_count: bool) -> Shape:
    """Return the shape of an acceptable new pool.

    Raises ApiError (INVALID_ARGUMENT) at the first violation.

    `late_count` leaves a node count that does not fit the topology to the operation, as some real
    calls did.
    """
    if re.fullmatch(POOL_NAME, pool.name) is None:
        raise invalid_field("node_pool.name", pool.name, f"Must be a match of regex '{POOL_NAME}'.")
    _check_zones(pool, location)
    shape = _shape(pool, location, zones, scenario)
    check_accelerators(pool.config, shape.machine.cpus, is_tpu=shape.machine.is_tpu)
    _check_disk(pool, shape.machine)
    _check_counts(pool, shape, late_count=late_count)
    check_tier(pool, shape.machine)
    accelerator = "" if scenario.machines_everywhere else _find_accelerator(pool, shape.machine)
    for zone in zones:
        check_zone(shape.machine.name, accelerator, zone, attached=bool(pool.config.accelerators))
    _check_upgrades(pool, scenario.release_channel)
    check_node_labels(dict(pool.config.labels), labels_by_gke(pool, shape.machine, shape.topology))
    check_resource_labels(dict(pool.config.resource_labels))
    check_tags(pool.config.tags)
    check_taints(pool.config.taints)
    return shape


def _find_accelerator(pool: Message, machine: Machine) -> str:
    gpus = gpus_of(pool.config)
    return machine.family.accelerator if machine.family else gpus.accelerator if gpus else ""


def _check_zones(pool: Message, location: str) -> None:
    for zone in pool.locations:
        if not is_zone(zone) or region_of(zone) != region_of(location):
            raise invalid_field("node_pool.locations", zone, f"Must be a zone of region {region_of(location)}.")


def _check_upgrades(pool: Message, channel: str) -> None:
    """Refuse what a cluster's release channel does not allow.

    The first text is GKE's own; that an exclusion needs a channel is Google's page, its text a
    guess: https://cloud.google.com/kubernetes-engine/docs/how-to/node-auto-upgrades.
    """
    on_channel = channel != "UNSPECIFIED"
    if on_channel and pool.HasField("management") and not pool.management.auto_upgrade:
        raise invalid(f"Auto_upgrade must be true when release_channel {channel} is set.")
    if not on_channel and pool.maintenance_policy.exclusion_until_end_of_support.enabled:
        raise invalid("A maintenance exclusion of a node pool needs a cluster on a release channel.")


def _shape(pool: Message, location: str, zones: list[str], scenario: Scenario) -> Shape:
    machine = find_machine(pool.config.machine_type or "e2-medium")
    if machine is None:
        raise invalid_field(
            "node_pool.config.machine_type", pool.config.machine_type, "No such machine type exists."
        )
    placement = pool.placement_policy
    compact = placement.type_ == PlacementType.COMPACT
    topology = _topology(pool, location, scenario, compact=compact)
    if compact and len(zones) != 1:
        raise invalid_field("node_pool.locations", ",".join(zones), "Compact placement needs exactly one zone.")
    if not machine.is_tpu:
        if placement.tpu_topology:
            raise invalid_field(
                "placement_policy.tpu_topology", placement.tpu_topology, f"{machine.name} is not a TPU machine."
            )
        return Shape(machine)
    shape = _tpu_shape(machine, topology, zones)
    if shape.atomic and machine.family is not None and machine.family.by_policy and not placement.policy_name:
        raise invalid(
            f'Multi-host node pools of machine type "{machine.name}" need a workload policy in '
            f'placement_policy.policy_name whose accelerator topology is "{topology}".'
        )
    return shape


def _topology(pool: Message, location: str, scenario: Scenario, *, compact: bool) -> str:
    placement = pool.placement_policy
    if not placement.policy_name:
        return str(placement.tpu_topology)
    if compact:
        raise invalid("placement_policy.type COMPACT and placement_policy.policy_name exclude each other.")
    name = placement.policy_name.rsplit("/", 1)[-1]
    topology = scenario.policy_topology(name, location)
    if topology is None:
        raise invalid_field(
            "placement_policy.policy_name",
            placement.policy_name,
            f"No such resource policy exists in region {region_of(location)}.",
        )
    if placement.tpu_topology and placement.tpu_topology != topology:
        raise invalid_field(
            "placement_policy.tpu_topology",
            placement.tpu_topology,
            f'Policy "{name}" is for topology "{topology}".',
        )
    return topology


def _tpu_shape(machine: Machine, topology: str, zones: list[str]) -> Shape:
    if not topology:
        if not machine.single_host_topology:
            raise invalid(f'Machine type "{machine.name}" needs placement_policy.tpu_topology.')
        return Shape(machine, machine.single_host_topology)
    hosts = hosts_for(machine, topology)
    if hosts == 0:
        raise invalid_field(
            "placement_policy.tpu_topology",
            topology,
            f'Not a valid TPU topology for machine type "{machine.name}".',
        )
    if hosts > 1 and len(zones) != 1:
        raise invalid_field(
            "node_pool.locations", ",".join(zones), "A multi-host TPU slice needs exactly one zone."
        )
    return Shape(machine, topology, hosts)


def _check_disk(pool: Message, machine: Machine) -> None:
    config = pool.config
    if config.HasField("boot_disk") and (config.disk_type or config.disk_size_gb):
        raise invalid("config.boot_disk excludes config.disk_type and config.disk_size_gb.")
    kind = config.boot_disk.disk_type or config.disk_type
    if kind and kind not in machine.disks:
        raise invalid_field(
            "node_pool.config.disk_type", kind, f"{machine.name} accepts only: {', '.join(machine.disks)}."
        )
    size = config.boot_disk.size_gb or config.disk_size_gb
    if size and not _SMALLEST_DISK_GB <= size <= _LARGEST_DISK_GB:
        raise invalid_field(
            "node_pool.config.disk_size_gb", size, f"Must be {_SMALLEST_DISK_GB} to {_LARGEST_DISK_GB}."
        )


def _check_counts(pool: Message, shape: Shape, *, late_count: bool) -> None:
    count, scaling = pool.initial_node_count, pool.autoscaling
    if count < 0 or (count > _MOST_NODES and not shape.atomic):
        raise invalid_field("node_pool.initial_node_count", count, f"Must be 0 to {_MOST_NODES} for each zone.")
    if pool.HasField("max_pods_constraint"):
        pods = pool.max_pods_constraint.max_pods_per_node
        if not _FEWEST_PODS <= pods <= _MOST_PODS:
            raise invalid_field(
                "max_pods_constraint.max_pods_per_node", pods, f"Must be {_FEWEST_PODS} to {_MOST_PODS}."
            )
    if is_autoscaled(pool) and scaling.min_node_count > max(scaling.max_node_count, scaling.total_max_node_count):
        raise invalid_field(
            "autoscaling.min_node_count", scaling.min_node_count, f"Must not exceed {scaling.max_node_count}."
        )
    if not shape.atomic:
        return
    if is_autoscaled(pool) and scaling.max_node_count != shape.hosts:
        raise wrong_size(scaling.max_node_count, shape.topology)
    if count not in (0, shape.hosts) and not late_count:
        raise wrong_size(count, shape.topology)


def wrong_size(count: int, topology: str) -> Exception:
    """Return the error for a node count that a TPU slice cannot have."""
    return invalid(f'{count} is not a valid size of TPU pod slice with topology "{topology}".')
