"""What a pool may be: names, labels, taints, tiers, shape and size. Pure.

Sources: https://cloud.google.com/kubernetes-engine/docs/concepts/dws, /docs/concepts/spot-vms and
the preconditions of https://github.com/GoogleCloudPlatform/cluster-toolkit
(modules/compute/gke-node-pool).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from standins.google.errors import ApiError
from standins.google.gke.machines import Machine, check_accelerators, check_zone, find_machine, gpus_of, hosts_for
from standins.google.gke.names import POOL_NAME, invalid, invalid_field, is_zone, not_emulated, region_of
from standins.google.gke.nodes import labels_by_gke
from standins.google.gke.pools import Message, PlacementType, ReservationType, is_autoscaled
from standins.google.gke.scenario import Scenario

NODE_LABEL_BUDGET = 1024
RESERVATION_KEY = "compute.googleapis.com/reservation-name"
POLICY = re.compile(r"(?:.*/)?tpu-provisioner-(\d+(?:x\d+)+)")
"""The workload policies that there are, in each region, and of which topology."""
_MOST_LISTED = 64
_LONGEST_PREFIX = 253
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_RESERVATION = re.compile(
    r"(?:projects/[^/]+/reservations/)?[a-z](?:[-a-z0-9]*[a-z0-9])?"
    r"(?:/reservationBlocks/[^/]+(?:/reservationSubBlocks/[^/]+)?)?"
)
_WEEK = 7 * 86_400
_DISK_GB, _PODS = (10, 65_536), (8, 256)
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
    _check_match("node_pool.name", pool.name, POOL_NAME)
    for zone in pool.locations:
        if not is_zone(zone) or region_of(zone) != region_of(location):
            raise invalid_field("node_pool.locations", zone, f"Must be a zone of region {region_of(location)}.")
    shape = _shape(pool, location, zones)
    check_accelerators(pool.config, shape.machine)
    _check_disk(pool.config, shape.machine)
    _check_counts(pool, shape, late_count=late_count)
    _check_tier(pool, shape.machine)
    accelerator = "" if scenario.machines_everywhere else _find_accelerator(pool, shape.machine)
    for zone in zones:
        check_zone(shape.machine.name, accelerator, zone, attached=bool(pool.config.accelerators))
    _check_upgrades(pool, scenario.release_channel)
    _check_node_labels(dict(pool.config.labels), labels_by_gke(pool, shape.machine, shape.topology))
    _check_marks(pool.config)
    _check_taints(pool.config.taints)
    return shape


def _check_match(field: str, text: str, pattern: str) -> None:
    if re.fullmatch(pattern, text) is None:
        raise invalid_field(field, text, f"Must be a match of regex '{pattern}'.")


def _check_between(field: str, number: int, bounds: tuple[int, int]) -> None:
    if not bounds[0] <= number <= bounds[1]:
        raise invalid_field(field, number, f"Must be {bounds[0]} to {bounds[1]}.")


def _check_node_labels(labels: Mapping[str, str], written_by_gke: Mapping[str, str]) -> None:
    """Refuse node labels that are malformed, reserved, too many, or contradict what GKE writes."""
    total = sum(len(key) + len(value) for key, value in labels.items())
    if total > NODE_LABEL_BUDGET:
        raise invalid(
            f"Node labels have {total} characters in total; all keys and values together may have at most "
            f"{NODE_LABEL_BUDGET}."
        )
    for key, value in labels.items():
        field = f"config.labels[{key}]"
        _check_key("config.labels", key)
        if value and _NAME.fullmatch(value) is None:
            raise invalid_field(field, value, "A value has at most 63 characters: alphanumerics, '-', '_', '.'.")
        prefix = key.rpartition("/")[0]
        if prefix in ("k8s.io", "kubernetes.io") or prefix.endswith(".kubernetes.io"):
            raise invalid_field("config.labels", key, "Keys with this prefix are reserved for Kubernetes.")
        own = written_by_gke.get(key, value)
        if value != own:
            raise invalid_field(field, value, f'GKE writes this label itself, with the value "{own}".')


def _check_key(field: str, key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    good_prefix = not slash or (len(prefix) <= _LONGEST_PREFIX and _PREFIX.fullmatch(prefix) is not None)
    if not good_prefix or _NAME.fullmatch(name) is None:
        wanted = "A key is an optional DNS prefix of at most 253 characters, '/', and a name of at most 63."
        raise invalid_field(field, key, wanted)


def _check_marks(config: Message) -> None:
    """Refuse billing labels and network tags that Compute Engine would refuse."""
    for field, items in (("config.resource_labels", config.resource_labels), ("config.tags", config.tags)):
        if len(items) > _MOST_LISTED:
            raise invalid_field(field, len(items), f"At most {_MOST_LISTED} are allowed.")
    for key, value in config.resource_labels.items():
        _check_match("config.resource_labels", key, "[a-z][-a-z0-9_]{0,62}")
        _check_match(f"config.resource_labels[{key}]", value, "[-a-z0-9_]{0,63}")
    for tag in config.tags:
        _check_match("config.tags", tag, "[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def _check_taints(taints: Iterable[Message]) -> None:
    """Refuse taints without a valid key or effect, and two with the same key and effect."""
    keys: set[tuple[str, int]] = set()
    for taint in taints:
        _check_key("config.taints.key", taint.key)
        field = f"config.taints[{taint.key}]"
        if taint.value and _NAME.fullmatch(taint.value) is None:
            raise invalid_field(f"{field}.value", taint.value, "Must be a valid label value.")
        if taint.effect not in (1, 2, 3):
            wanted = "Must be one of NO_SCHEDULE (1), PREFER_NO_SCHEDULE (2), NO_EXECUTE (3)."
            raise invalid_field(f"{field}.effect", taint.effect, wanted)
        if (taint.key, taint.effect) in keys:
            raise invalid_field("config.taints", taint.key, "A key and effect may stand only once.")
        keys.add((taint.key, taint.effect))


def _check_tier(pool: Message, machine: Machine) -> None:
    """Refuse combinations of capacity types that GKE refuses."""
    config = pool.config
    _check_affinity(config.reservation_affinity, machine)
    kinds = (ReservationType.UNSPECIFIED, ReservationType.NO_RESERVATION)
    tiers = {
        "spot": config.spot,
        "preemptible": config.preemptible,
        "flex_start": config.flex_start,
        "reservation_affinity": config.reservation_affinity.consume_reservation_type not in kinds,
    }
    chosen = [name for name, on in tiers.items() if on]
    if len(chosen) > 1:
        raise invalid(f"Node pool settings {' and '.join(chosen)} exclude each other.")
    if config.flex_start:
        _check_flex_start(pool, machine)
    if pool.queued_provisioning.enabled:
        raise not_emulated("queued provisioning")


def _check_affinity(affinity: Message, machine: Machine) -> None:
    kind = affinity.consume_reservation_type
    if kind == ReservationType.SPECIFIC_RESERVATION:
        if affinity.key != RESERVATION_KEY:
            raise invalid_field("reservation_affinity.key", affinity.key, f'Must be "{RESERVATION_KEY}".')
        if len(affinity.values) != 1 or _RESERVATION.fullmatch(affinity.values[0]) is None:
            wanted = (
                "Must be one value: NAME or projects/P/reservations/NAME, with /reservationBlocks/B or "
                "/reservationBlocks/B/reservationSubBlocks/S behind it where needed."
            )
            raise invalid_field("reservation_affinity.values", ",".join(affinity.values), wanted)
    elif affinity.key or affinity.values:
        raise invalid("reservation_affinity.key and .values need consume_reservation_type SPECIFIC_RESERVATION.")
    elif machine.is_tpu and kind in (ReservationType.ANY_RESERVATION, ReservationType.ANY_RESERVATION_THEN_FAIL):
        raise invalid("TPU node pools consume specific reservations only; ANY_RESERVATION is not supported.")


def _check_flex_start(pool: Message, machine: Machine) -> None:
    rules = {
        "autoscaling enabled": is_autoscaled(pool),
        "initial node count to be set to 0": pool.initial_node_count == 0,
        "autoscaling.min_node_count to be set to 0": pool.autoscaling.min_node_count == 0,
        "auto repair to be disabled": not pool.management.auto_repair,
    }
    for words, holds in rules.items():
        if not holds:
            raise invalid(f"Flex start node pools require {words}.")
    if machine.family is not None and not machine.family.flex_start:
        raise invalid(f'Machine type "{machine.name}" does not support flex start.')
    seconds = pool.config.max_run_duration.seconds
    if seconds > _WEEK:
        raise invalid_field("config.max_run_duration", f"{seconds}s", "At most 7 days (604800s).")


def _find_accelerator(pool: Message, machine: Machine) -> str:
    gpus = gpus_of(pool.config)
    return machine.family.accelerator if machine.family else gpus.accelerator if gpus else ""


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


def _shape(pool: Message, location: str, zones: list[str]) -> Shape:
    machine = find_machine(pool.config.machine_type or "e2-medium")
    if machine is None:
        raise invalid_field(
            "node_pool.config.machine_type", pool.config.machine_type, "No such machine type exists."
        )
    placement = pool.placement_policy
    topology = _find_topology(placement, location)
    if placement.type_ == PlacementType.COMPACT and len(zones) != 1:
        raise invalid_field("node_pool.locations", ",".join(zones), "Compact placement needs exactly one zone.")
    if not machine.is_tpu:
        if placement.tpu_topology:
            raise _wrong_topology(placement.tpu_topology, f"{machine.name} is not a TPU machine.")
        return Shape(machine)
    shape = _tpu_shape(machine, topology, zones)
    if shape.atomic and not placement.policy_name:
        _check_no_policy(machine, topology)
    return shape


def _check_no_policy(machine: Machine, topology: str) -> None:
    if machine.family is not None and machine.family.by_policy:
        raise invalid(
            f'Multi-host node pools of machine type "{machine.name}" need a workload policy in '
            f'placement_policy.policy_name whose accelerator topology is "{topology}".'
        )


def _find_topology(placement: Message, location: str) -> str:
    name = placement.policy_name
    if not name:
        return str(placement.tpu_topology)
    if placement.type_ == PlacementType.COMPACT:
        raise invalid("placement_policy.type COMPACT and placement_policy.policy_name exclude each other.")
    policy = POLICY.fullmatch(name)
    if policy is None:
        wanted = f"No such resource policy exists in region {region_of(location)}."
        raise invalid_field("placement_policy.policy_name", name, wanted)
    if placement.tpu_topology not in ("", policy[1]):
        wanted = f'Policy "{name.rpartition("/")[2]}" is for topology "{policy[1]}".'
        raise _wrong_topology(placement.tpu_topology, wanted)
    return policy[1]


def _tpu_shape(machine: Machine, topology: str, zones: list[str]) -> Shape:
    if not topology:
        if not machine.single_host_topology:
            raise invalid(f'Machine type "{machine.name}" needs placement_policy.tpu_topology.')
        return Shape(machine, machine.single_host_topology)
    hosts = hosts_for(machine, topology)
    if hosts == 0:
        raise _wrong_topology(topology, f'Not a valid TPU topology for machine type "{machine.name}".')
    if hosts > 1 and len(zones) != 1:
        wanted = "A multi-host TPU slice needs exactly one zone."
        raise invalid_field("node_pool.locations", ",".join(zones), wanted)
    return Shape(machine, topology, hosts)


def _wrong_topology(topology: str, wanted: str) -> ApiError:
    return invalid_field("placement_policy.tpu_topology", topology, wanted)


def _check_disk(config: Message, machine: Machine) -> None:
    if config.HasField("boot_disk") and (config.disk_type or config.disk_size_gb):
        raise invalid("config.boot_disk excludes config.disk_type and config.disk_size_gb.")
    kind = config.boot_disk.disk_type or config.disk_type
    if kind and kind not in machine.disks:
        wanted = f"{machine.name} accepts only: {', '.join(machine.disks)}."
        raise invalid_field("node_pool.config.disk_type", kind, wanted)
    if size := config.boot_disk.size_gb or config.disk_size_gb:
        _check_between("node_pool.config.disk_size_gb", size, _DISK_GB)


def _check_counts(pool: Message, shape: Shape, *, late_count: bool) -> None:
    count = pool.initial_node_count
    if count < 0 or (count > _MOST_NODES and not shape.atomic):
        raise invalid_field("node_pool.initial_node_count", count, f"Must be 0 to {_MOST_NODES} for each zone.")
    if pool.HasField("max_pods_constraint"):
        pods = pool.max_pods_constraint.max_pods_per_node
        _check_between("max_pods_constraint.max_pods_per_node", pods, _PODS)
    check_autoscaling(pool.autoscaling, shape)
    if shape.atomic and count not in (0, shape.hosts) and not late_count:
        raise wrong_size(count, shape.topology)


def check_autoscaling(scaling: Message, shape: Shape) -> None:
    """Refuse bounds that contradict each other, or that a TPU slice cannot have."""
    if not scaling.enabled:
        return
    most = max(scaling.max_node_count, scaling.total_max_node_count)
    if not 0 <= scaling.min_node_count <= most or most < 1:
        wanted = "Must be 1 or more, and the minimum."
        raise invalid_field("autoscaling.max_node_count", scaling.max_node_count, wanted)
    if shape.atomic and scaling.max_node_count != shape.hosts:
        raise wrong_size(scaling.max_node_count, shape.topology)


def wrong_size(count: int, topology: str) -> ApiError:
    """Return the error for a node count that a TPU slice cannot have."""
    return invalid(f'{count} is not a valid size of TPU pod slice with topology "{topology}".')
