"""What a machine type has, how many hosts a TPU topology takes on it, and which zones have it.

The tables are in `machines.yaml`.
"""

import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from standins.google.gke.errors import invalid, invalid_field

_CUBE_CHIPS = 64
_SMALL_CUBES = frozenset({"1x1x1", "2x2x1", "2x2x2", "2x2x4", "2x4x4"})
_USUAL_ZONES = "a b c"
_GENERAL = re.compile(r"([a-z][0-9]+[a-z]*)-([a-z]+)-([0-9]+)(g?)(?:-[a-z]+)?")


@cache
def read_catalogue() -> dict[str, Any]:
    """Return the tables."""
    path = Path(__file__).parents[1] / "machines.yaml"
    tables: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return tables


@dataclass(frozen=True)
class TpuFamily:
    """One TPU generation on GKE.

    Its node label, legal shapes and boot disks (the first is the default).
    """

    accelerator: str
    disks: tuple[str, ...]
    shapes: frozenset[str] = frozenset()
    most_cubes: int = 0
    by_policy: bool = False
    flex_start: bool = True

    def accepts(self, topology: str) -> bool:
        """Return whether `topology` is a legal shape of this family."""
        if self.most_cubes == 0:
            return topology in self.shapes
        if topology in _SMALL_CUBES:
            return True
        dimensions = dimensions_of(topology)
        return (
            len(dimensions) == 3  # noqa: PLR2004 - a torus has three dimensions
            and all(side % 4 == 0 for side in dimensions)
            and dimensions == sorted(dimensions)
            and math.prod(dimensions) <= self.most_cubes * _CUBE_CHIPS
        )


@dataclass(frozen=True)
class Machine:
    """What one machine type offers: `chips` TPU chips or `gpus` GPUs, vCPUs, memory, boot disks."""

    name: str
    cpus: int
    memory_gb: int
    disks: tuple[str, ...]
    family: TpuFamily | None = None
    chips: int = 0
    gpus: int = 0
    single_host_topology: str = ""
    forms_slices: bool = False

    @property
    def is_tpu(self) -> bool:
        """Return whether the machine carries TPU chips."""
        return self.family is not None


@cache
def _list_tpu_machines() -> dict[str, Machine]:
    families = {
        name: TpuFamily(**{**row, "disks": tuple(row["disks"]), "shapes": frozenset(row.get("shapes", ()))})
        for name, row in read_catalogue()["families"].items()
    }
    found = {}
    for name, (family, cpus, memory_gb, single, slices) in read_catalogue()["tpu_machines"].items():
        chips = int(name.rsplit("-", 1)[1].removesuffix("t"))
        disks = families[family].disks
        found[name] = Machine(name, cpus, memory_gb, disks, families[family], chips, 0, single, slices)
    return found


def find_machine(name: str) -> Machine | None:
    """Return the machine called `name`, None when this catalogue knows no such machine."""
    tables = read_catalogue()
    if name in tables["tpu_machines"]:
        return _list_tpu_machines()[name]
    if name in tables["shared_core"]:
        cpus, memory = tables["shared_core"][name]
        return Machine(name, cpus, memory, _disks_of(""))
    if name in tables["gpu_machines"]:
        _, gpus, cpus, memory = tables["gpu_machines"][name]
        return Machine(name, cpus, memory, _disks_of(name), gpus=gpus)
    match = _GENERAL.fullmatch(name)
    if match is None or match[1].startswith("ct") or match[2] not in tables["memory_per_cpu"]:
        return None
    count, is_gpu = int(match[3]), match[4] == "g"
    cpus = 26 * count if is_gpu else count
    return Machine(
        name, cpus, cpus * tables["memory_per_cpu"][match[2]], _disks_of(name), gpus=count if is_gpu else 0
    )


def _disks_of(name: str) -> tuple[str, ...]:
    rows = read_catalogue()["disks"]
    return tuple(next(disks for prefix, disks in rows.items() if not prefix or name.startswith(f"{prefix}-")))


def dimensions_of(topology: str) -> list[int]:
    """Return the sides of `4x4x8` as numbers, an empty list when the text is no topology."""
    if re.fullmatch(r"[1-9][0-9]*(?:x[1-9][0-9]*){1,2}", topology) is None:
        return []
    return [int(side) for side in topology.split("x")]


def chips_in(topology: str) -> int:
    """Return the number of chips of a topology, 0 when the text is no topology."""
    sides = dimensions_of(topology)
    return math.prod(sides) if sides else 0


def hosts_for(machine: Machine, topology: str) -> int:
    """Return how many machines of this type form `topology`, 0 when they cannot form it."""
    if machine.family is None or not machine.family.accepts(topology):
        return 0
    if topology == machine.single_host_topology:
        return 1
    chips = chips_in(topology)
    fits = machine.forms_slices and chips > machine.chips and chips % machine.chips == 0
    return chips // machine.chips if fits else 0


def list_zones(region: str) -> list[str]:
    """Return the zones of a region: most regions have a, b and c."""
    return [f"{region}-{letter}" for letter in read_catalogue()["zones"].get(region, _USUAL_ZONES).split()]


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
    tables = read_catalogue()
    listed = dict(each.split(":") for each in tables["accelerator_zones"].get(accelerator, "").split())
    if not listed or letter in [*listed.get(region, "")] or zone in tables["ai_zones"].get(accelerator, ()):
        return
    if attached:
        raise invalid(f'Accelerator type "{accelerator}" does not exist in zone {zone}.')
    raise invalid(f'Invalid machine type "{machine}" in zone "{zone}": GCE_NOT_FOUND.')
