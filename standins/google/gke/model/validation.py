"""What a pool may be: names, labels, taints, tiers, shape and size. Pure.

Sources: https://cloud.google.com/kubernetes-engine/docs/concepts/dws, /docs/concepts/spot-vms and
the preconditions of https://github.com/GoogleCloudPlatform/cluster-toolkit
(modules/compute/gke-node-pool).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from standins.google.gke.errors import invalid, invalid_field
from standins.google.gke.faults.scenario import Scenario
from standins.google.gke.model.gpu_machines import check_accelerators, gpus_of
from standins.google.gke.model.machines import Machine, check_zone, find_machine, hosts_for
from standins.google.gke.model.node_objects import labels_by_gke
from standins.google.gke.model.proto_messages import (
    Message,
    PlacementType,
    ReservationType,
    TaintEffect,
    is_autoscaled,
    is_queued,
)
from standins.google.gke.resource_names import POOL_NAME, is_zone, region_of

NODE_LABEL_BUDGET = 1024
_MOST_RESOURCE_LABELS = 64
_MOST_TAGS = 64
_LONGEST_PREFIX = 253
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_RESOURCE_KEY = re.compile(r"[a-z][-a-z0-9_]{0,62}")
_RESOURCE_VALUE = re.compile(r"[-a-z0-9_]{0,63}")
_TAG = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")


def check_node_labels(labels: Mapping[str, str], written_by_gke: Mapping[str, str]) -> None:
    """Refuse node labels that are malformed, reserved, too many, or contradict what GKE writes."""
    total = sum(len(key) + len(value) for key, value in labels.items())
    if total > NODE_LABEL_BUDGET:
        raise invalid(
            f"Node labels have {total} characters in total; all keys and values together may have at most "
            f"{NODE_LABEL_BUDGET}."
        )
    for key, value in labels.items():
        _check_key("config.labels", key)
        if value and _NAME.fullmatch(value) is None:
            raise invalid_field(
                f"config.labels[{key}]", value, "A value has at most 63 characters: alphanumerics, '-', '_', '.'."
            )
        prefix = key.rpartition("/")[0]
        if prefix in ("k8s.io", "kubernetes.io") or prefix.endswith(".kubernetes.io"):
            raise invalid_field("config.labels", key, "Keys with this prefix are reserved for Kubernetes.")
        if key in written_by_gke and value != written_by_gke[key]:
            raise invalid_field(
                f"config.labels[{key}]",
                value,
                f'GKE writes this label itself, with the value "{written_by_gke[key]}".',
            )


def _check_key(field: str, key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    good_prefix = not slash or (len(prefix) <= _LONGEST_PREFIX and _PREFIX.fullmatch(prefix) is not None)
    if not good_prefix or _NAME.fullmatch(name) is None:
        raise invalid_field(
            field, key, "A key is an optional DNS prefix of at most 253 characters, '/', and a name of at most 63."
        )


def check_resource_labels(labels: Mapping[str, str]) -> None:
    """Refuse billing labels that Compute Engine would refuse."""
    if len(labels) > _MOST_RESOURCE_LABELS:
        raise invalid_field("config.resource_labels", len(labels), f"At most {_MOST_RESOURCE_LABELS} are allowed.")
    for key, value in labels.items():
        if _RESOURCE_KEY.fullmatch(key) is None:
            raise invalid_field("config.resource_labels", key, "Must be a match of regex '[a-z][-a-z0-9_]{0,62}'.")
        if _RESOURCE_VALUE.fullmatch(value) is None:
            raise invalid_field(
                f"config.resource_labels[{key}]", value, "Must be a match of regex '[-a-z0-9_]{0,63}'."
            )


def check_tags(tags: Iterable[str]) -> None:
    """Refuse network tags that Compute Engine would refuse."""
    listed = list(tags)
    if len(listed) > _MOST_TAGS:
        raise invalid_field("config.tags", len(listed), f"At most {_MOST_TAGS} are allowed.")
    for tag in listed:
        if _TAG.fullmatch(tag) is None:
            raise invalid_field("config.tags", tag, "Must be a match of regex '[a-z]([-a-z0-9]{0,61}[a-z0-9])?'.")


def check_taints(taints: Iterable[Message]) -> None:
    """Refuse taints without a valid key or effect, and two with the same key and effect."""
    seen: set[tuple[str, int]] = set()
    for taint in taints:
        _check_key("config.taints.key", taint.key)
        if taint.value and _NAME.fullmatch(taint.value) is None:
            raise invalid_field(f"config.taints[{taint.key}].value", taint.value, "Must be a valid label value.")
        if taint.effect not in (TaintEffect.NO_SCHEDULE, TaintEffect.PREFER_NO_SCHEDULE, TaintEffect.NO_EXECUTE):
            raise invalid_field(
                f"config.taints[{taint.key}].effect",
                taint.effect,
                "Must be one of NO_SCHEDULE (1), PREFER_NO_SCHEDULE (2), NO_EXECUTE (3).",
            )
        if (taint.key, taint.effect) in seen:
            raise invalid_field("config.taints", taint.key, "A key and effect may stand only once.")
        seen.add((taint.key, taint.effect))


RESERVATION_KEY = "compute.googleapis.com/reservation-name"
_WEEK = 7 * 86_400
_VALUE = re.compile(
    r"(?:projects/[^/]+/reservations/)?[a-z](?:[-a-z0-9]*[a-z0-9])?"
    r"(?:/reservationBlocks/[^/]+(?:/reservationSubBlocks/[^/]+)?)?"
)


def check_tier(pool: Message, machine: Machine) -> None:
    """Refuse combinations of capacity types that GKE refuses."""
    config = pool.config
    _check_affinity(pool, machine)
    reserved = config.reservation_affinity.consume_reservation_type not in (
        ReservationType.UNSPECIFIED,
        ReservationType.NO_RESERVATION,
    )
    chosen = [
        name
        for name, on in (
            ("spot", config.spot),
            ("preemptible", config.preemptible),
            ("flex_start", config.flex_start),
            ("reservation_affinity", reserved),
        )
        if on
    ]
    if is_queued(pool) and not config.flex_start:
        chosen.append("queued_provisioning")
    if len(chosen) > 1:
        raise invalid(f"Node pool settings {' and '.join(chosen)} exclude each other.")
    if config.flex_start:
        _check_flex_start(pool, machine)
    if is_queued(pool):
        _check_queued(pool)


def _check_affinity(pool: Message, machine: Machine) -> None:
    affinity = pool.config.reservation_affinity
    kind = affinity.consume_reservation_type
    if kind == ReservationType.SPECIFIC_RESERVATION:
        if affinity.key != RESERVATION_KEY:
            raise invalid_field("reservation_affinity.key", affinity.key, f'Must be "{RESERVATION_KEY}".')
        if len(affinity.values) != 1 or _VALUE.fullmatch(affinity.values[0]) is None:
            raise invalid_field(
                "reservation_affinity.values",
                ",".join(affinity.values),
                "Must be one value: NAME or projects/P/reservations/NAME, with /reservationBlocks/B or "
                "/reservationBlocks/B/reservationSubBlocks/S behind it where needed.",
            )
        return
    if affinity.key or affinity.values:
        raise invalid("reservation_affinity.key and .values need consume_reservation_type SPECIFIC_RESERVATION.")
    if machine.is_tpu and kind in (ReservationType.ANY_RESERVATION, ReservationType.ANY_RESERVATION_THEN_FAIL):
        raise invalid("TPU node pools consume specific reservations only; ANY_RESERVATION is not supported.")


def _check_flex_start(pool: Message, machine: Machine) -> None:
    if not is_autoscaled(pool):
        raise invalid("Flex start node pools require autoscaling enabled.")
    if pool.initial_node_count != 0:
        raise invalid("Flex start node pools require initial node count to be set to 0.")
    if pool.autoscaling.min_node_count != 0:
        raise invalid("Flex start node pools require autoscaling.min_node_count to be set to 0.")
    if pool.management.auto_repair:
        raise invalid("Flex start node pools require auto repair to be disabled.")
    if machine.family is not None and not machine.family.flex_start:
        raise invalid(f'Machine type "{machine.name}" does not support flex start.')
    if pool.config.max_run_duration.seconds > _WEEK:
        raise invalid_field(
            "config.max_run_duration", f"{pool.config.max_run_duration.seconds}s", "At most 7 days (604800s)."
        )


def _check_queued(pool: Message) -> None:
    if not is_autoscaled(pool):
        raise invalid("Queued provisioning requires autoscaling enabled.")
    if pool.initial_node_count != 0 or pool.autoscaling.min_node_count != 0:
        raise invalid("Queued provisioning requires initial and minimum node count to be set to 0.")


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
