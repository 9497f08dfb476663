"""What machine types and GPUs there are, which TPU topologies they form, and which zones have them.

The tables are in `machines.yaml`. Sources: https://cloud.google.com/kubernetes-engine/docs/how-to/gpus,
https://cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus.
"""

import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from standins.google.gke.names import invalid, invalid_field

CATALOGUE: dict[str, Any] = yaml.load(
    Path(__file__).with_name("machines.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)
BUILT_IN: dict[str, tuple[str, int, int, int]] = {
    name: tuple(row) for name, row in CATALOGUE["gpu_machines"].items()
}
"""By machine type: accelerator, GPUs, vCPUs, GB."""
_CUBE_CHIPS = 64
_SMALL_CUBES = frozenset({"1x1x1", "2x2x1", "2x2x2", "2x2x4", "2x4x4"})
_GENERAL = re.compile(r"([a-z][0-9]+[a-z]*)-([a-z]+)-([0-9]+)(?:-[a-z]+)?")
_TOPOLOGY = re.compile(r"[1-9][0-9]*(?:x[1-9][0-9]*){1,2}")
_CLIENTS = range(2, 49)
_STRATEGIES = {0: "", 1: "time-sharing", 2: "mps"}
_DRIVERS = {0: "default", 1: "disabled", 2: "default", 3: "latest"}
_STORAGE_SCOPES = ("cloud-platform", "devstorage")


@dataclass(frozen=True)
class TpuFamily:
    """One TPU generation: its node label, legal shapes, and boot disks, the default first."""

    accelerator: str
    disks: list[str]
    shapes: tuple[str, ...] = ()
    most_cubes: int = 0
    by_policy: bool = False
    flex_start: bool = True

    def accepts(self, topology: str) -> bool:
        """Return whether `topology` is a legal shape of this family."""
        if self.shapes or topology in _SMALL_CUBES:
            return topology in (self.shapes or _SMALL_CUBES)
        sides = dimensions_of(topology)
        multiples = len(sides) == len("xyz") and all(side % 4 == 0 for side in sides)
        return multiples and sides == sorted(sides) and math.prod(sides) <= self.most_cubes * _CUBE_CHIPS


@dataclass(frozen=True)
class Machine:
    """What one machine type offers: `chips` TPU chips or `gpus` GPUs, vCPUs, memory, boot disks."""

    name: str
    cpus: int
    memory_gb: int
    disks: list[str]
    family: TpuFamily | None = None
    chips: int = 0
    gpus: int = 0
    single_host_topology: str = ""
    forms_slices: bool = False

    @property
    def is_tpu(self) -> bool:
        """Return whether the machine carries TPU chips."""
        return self.family is not None

    @property
    def architecture(self) -> str:
        """Return the architecture of its processors."""
        return "arm64" if self.name.startswith("a4x-") else "amd64"


@cache
def find_machine(name: str) -> Machine | None:
    """Return the machine called `name`, None when this catalogue knows no such machine."""
    if row := CATALOGUE["tpu_machines"].get(name):
        family = TpuFamily(**CATALOGUE["families"][row[0]])
        chips = int(name.rsplit("-", 1)[1].removesuffix("t"))
        return Machine(name, row[1], row[2], family.disks, family, chips, 0, row[3], row[4])
    if row := CATALOGUE["shared_core"].get(name):
        return Machine(name, row[0], row[1], _disks_of(""))
    if row := BUILT_IN.get(name):
        return Machine(name, row[2], row[3], _disks_of(name), gpus=row[1])
    match = _GENERAL.fullmatch(name)
    per_cpu = CATALOGUE["memory_per_cpu"].get(match[2]) if match else None
    if match is None or per_cpu is None:
        return None
    return Machine(name, int(match[3]), int(match[3]) * per_cpu, _disks_of(name))


def _disks_of(name: str) -> list[str]:
    rows = CATALOGUE["disks"].items()
    return next(disks for prefix, disks in rows if not prefix or name.startswith(f"{prefix}-"))


def dimensions_of(topology: str) -> list[int]:
    """Return the sides of `4x4x8` as numbers, an empty list when the text is no topology."""
    return [int(side) for side in topology.split("x")] if _TOPOLOGY.fullmatch(topology) else []


def hosts_for(machine: Machine, topology: str) -> int:
    """Return how many machines of this type form `topology`, 0 when they cannot form it."""
    if machine.family is None or not machine.family.accepts(topology):
        return 0
    if topology == machine.single_host_topology:
        return 1
    chips = math.prod(dimensions_of(topology))
    fits = machine.forms_slices and chips > machine.chips and chips % machine.chips == 0
    return chips // machine.chips if fits else 0


def list_zones(region: str) -> list[str]:
    """Return the zones of a region: most regions have a, b and c."""
    return [f"{region}-{letter}" for letter in CATALOGUE["zones"].get(region, "a b c").split()]


def check_zone(machine: str, accelerator: str, zone: str, *, attached: bool) -> None:
    """Refuse a zone that does not exist, and one without the accelerator; "" is in every zone.

    `attached`: the pool asks for the accelerator by name. The words about it are GKE's own
    (https://github.com/GoogleCloudPlatform/k8s-config-connector/pull/1902), and so are those about
    a machine type (https://github.com/keras-team/kinetic/issues/305). Those about a zone that does
    not exist are a guess in Compute Engine's words.
    """
    region, _, letter = zone.rpartition("-")
    if zone not in list_zones(region):
        raise invalid_field("node_pool.locations", zone, "Unknown zone.")
    rows = CATALOGUE["accelerator_zones"].get(accelerator, "").split()
    letters = dict(each.split(":") for each in rows)
    if not rows or letter in [*letters.get(region, "")] or zone in CATALOGUE["ai_zones"].get(accelerator, ()):
        return
    if attached:
        raise invalid(f'Accelerator type "{accelerator}" does not exist in zone {zone}.')
    raise invalid(f'Invalid machine type "{machine}" in zone "{zone}": GCE_NOT_FOUND.')


@dataclass(frozen=True)
class Gpus:
    """The GPUs of one node, and how many of them pods see: parts and shares count each."""

    accelerator: str
    count: int
    units: int
    labels: dict[str, str]


def gpus_of(config: Any) -> Gpus | None:
    """Return what a node of this configuration has, None without GPUs.

    `check_accelerators` accepted it.
    """
    if not config.accelerators:
        if config.machine_type not in BUILT_IN:
            return None
        kind, count, *_ = BUILT_IN[config.machine_type]
        return Gpus(kind, count, count, _label_gpu(kind))
    gpus = config.accelerators[0]
    kind, count, units = gpus.accelerator_type, int(gpus.accelerator_count), int(gpus.accelerator_count)
    labels, size = _label_gpu(kind), gpus.gpu_partition_size
    labels["cloud.google.com/gke-gpu-driver-version"] = _DRIVERS[
        gpus.gpu_driver_installation_config.gpu_driver_version
    ]
    if size:
        labels["cloud.google.com/gke-gpu-partition-size"] = size
        units *= CATALOGUE["partitions"][kind][size]
    if strategy := _STRATEGIES[gpus.gpu_sharing_config.gpu_sharing_strategy]:
        clients = int(gpus.gpu_sharing_config.max_shared_clients_per_gpu)
        labels["cloud.google.com/gke-gpu-sharing-strategy"] = strategy
        labels["cloud.google.com/gke-max-shared-clients-per-gpu"] = str(clients)
        units *= clients
    return Gpus(kind, count, units, labels)


def _label_gpu(kind: str) -> dict[str, str]:
    return {"cloud.google.com/gke-accelerator": kind, "cloud.google.com/gke-gpu": "true"}


def check_accelerators(config: Any, machine: Machine) -> None:
    """Refuse GPUs that the machine does not have or cannot get, and wrong settings of them."""
    if not config.accelerators:
        return
    if machine.is_tpu:
        raise invalid_field("node_pool.config.accelerators", "", "TPU machines have no other accelerators.")
    if len(config.accelerators) > 1:
        raise invalid_field("node_pool.config.accelerators", "", "Only one type of accelerator is supported.")
    _check_count(machine, config.accelerators[0].accelerator_type, int(config.accelerators[0].accelerator_count))
    _check_parts(config.accelerators[0])
    if config.oauth_scopes and not any(word in scope for scope in config.oauth_scopes for word in _STORAGE_SCOPES):
        raise invalid("Nodes with GPUs need an OAuth scope to read from storage.")


def _check_parts(gpus: Any) -> None:
    sizes, size = CATALOGUE["partitions"].get(gpus.accelerator_type, {}), gpus.gpu_partition_size
    if size and size not in sizes:
        raise invalid_field("accelerators.gpu_partition_size", size, f"Must be one of {sorted(sizes)}.")
    clients = int(gpus.gpu_sharing_config.max_shared_clients_per_gpu)
    if clients not in (_CLIENTS if gpus.gpu_sharing_config.gpu_sharing_strategy else (0,)):
        field = "accelerators.gpu_sharing_config.max_shared_clients_per_gpu"
        raise invalid_field(field, clients, "Must be 2 to 48, with a strategy.")


def _check_count(machine: Machine, kind: str, count: int) -> None:
    if row := BUILT_IN.get(machine.name):
        if (kind, count) != row[:2]:
            wanted = f"Machine type {machine.name} has {row[1]} x {row[0]}."
            raise invalid_field("node_pool.config.accelerators", f"{count} x {kind}", wanted)
        return
    most = CATALOGUE["attachable"].get(kind)
    if most is None or not machine.name.startswith("n1-"):
        wanted = f"Cannot be attached to machine type {machine.name}."
        raise invalid_field("accelerators.accelerator_type", kind, wanted)
    if machine.cpus > most.get(count, 0):
        wanted = f"Must be one of {sorted(most)} that allow {machine.cpus} vCPUs."
        raise invalid_field("accelerators.accelerator_count", count, wanted)
