"""The machine catalogue of the fake.

What a machine type has, and how many hosts a TPU topology takes on it.

Written independently of the catalogue of the code under test, on purpose: a shared table would hide
its own mistakes. Sources: https://cloud.google.com/kubernetes-engine/docs/concepts/tpus,
https://github.com/GoogleCloudPlatform/cluster-autoscaler (machine tables),
https://cloud.google.com/tpu/docs/v6e.
"""

import math
import re
from dataclasses import dataclass

from standins.google.gke.model.gpu_machines import BUILT_IN

_CUBE_CHIPS = 64
_PD = ("pd-standard", "pd-balanced", "pd-ssd")
_V4_DISKS = (*_PD, "hyperdisk-balanced")
_V5_DISKS = ("pd-balanced", "pd-ssd")
_HYPERDISK = ("hyperdisk-balanced",)
_SQUARES = frozenset({"1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"})
_V3_SHAPES = frozenset({"2x2", "4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32", "32x64"})
_SMALL_CUBES = frozenset({"1x1x1", "2x2x1", "2x2x2", "2x2x4", "2x4x4"})


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


_V3_DEVICE = TpuFamily("tpu-v3-device", _PD, _V3_SHAPES, flex_start=False)
_V3 = TpuFamily("tpu-v3-slice", _PD, _V3_SHAPES, flex_start=False)
_V4_LITE = TpuFamily("tpu-v4-lite-device", _V4_DISKS, frozenset({"2x2"}), flex_start=False)
_V4 = TpuFamily("tpu-v4-podslice", _V4_DISKS, most_cubes=64, flex_start=False)
_V5E = TpuFamily("tpu-v5-lite-podslice", _V5_DISKS, _SQUARES)
_V5E_DEVICE = TpuFamily("tpu-v5-lite-device", _V5_DISKS, _SQUARES, flex_start=False)
_V5P = TpuFamily("tpu-v5p-slice", _V5_DISKS, most_cubes=140)
_V6E = TpuFamily("tpu-v6e-slice", _HYPERDISK, _SQUARES)
_V7X = TpuFamily("tpu7x", _HYPERDISK, most_cubes=144, by_policy=True)
_V7 = TpuFamily("tpu7", _HYPERDISK, most_cubes=4, by_policy=True)


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


def _tpu(
    name: str, family: TpuFamily, cpus: int, memory_gb: int, single: str, *, slices: bool = False
) -> tuple[str, Machine]:
    chips = int(name.rsplit("-", 1)[1].removesuffix("t"))
    return name, Machine(name, cpus, memory_gb, family.disks, family, chips, 0, single, slices)


TPU_MACHINES: dict[str, Machine] = dict(
    [
        _tpu("ct3-hightpu-4t", _V3_DEVICE, 96, 340, "2x2"),
        _tpu("ct3p-hightpu-4t", _V3, 48, 340, "", slices=True),
        _tpu("ct4l-hightpu-4t", _V4_LITE, 48, 340, "2x2"),
        _tpu("ct4p-hightpu-4t", _V4, 240, 407, "2x2x1", slices=True),
        _tpu("ct5l-hightpu-1t", _V5E_DEVICE, 24, 48, "1x1"),
        _tpu("ct5l-hightpu-4t", _V5E_DEVICE, 112, 192, "2x2"),
        _tpu("ct5l-hightpu-8t", _V5E_DEVICE, 224, 384, "2x4"),
        _tpu("ct5lp-hightpu-1t", _V5E, 24, 48, "1x1"),
        _tpu("ct5lp-hightpu-4t", _V5E, 112, 192, "2x2", slices=True),
        _tpu("ct5lp-hightpu-8t", _V5E, 224, 384, "2x4"),
        _tpu("ct5p-hightpu-4t", _V5P, 208, 448, "2x2x1", slices=True),
        _tpu("ct6e-standard-1t", _V6E, 44, 176, "1x1"),
        _tpu("ct6e-standard-4t", _V6E, 180, 720, "2x2", slices=True),
        _tpu("ct6e-standard-8t", _V6E, 180, 1440, "2x4"),
        _tpu("tpu7-standard-1t", _V7, 56, 240, "1x1x1"),
        _tpu("tpu7-standard-4t", _V7, 224, 960, "2x2x1", slices=True),
        _tpu("tpu7x-standard-1t", _V7X, 56, 240, "1x1x1"),
        _tpu("tpu7x-standard-4t", _V7X, 224, 960, "2x2x1", slices=True),
        _tpu("tpu7x-ultranet-4t", _V7X, 224, 960, "2x2x1", slices=True),
    ]
)

# GB of memory per vCPU of the general families, and boot disks where they are restricted.
_MEMORY_PER_CPU = {
    "standard": 4,
    "highmem": 8,
    "highcpu": 1,
    "highgpu": 8,
    "megagpu": 9,
    "ultragpu": 13,
    "edgegpu": 8,
}
_RESTRICTED_DISKS = {
    "a2": _PD,
    "g2": _V5_DISKS,
    "a3-ultragpu": _HYPERDISK,
    "a3": (*_V5_DISKS, "hyperdisk-balanced"),
    "a4x": _HYPERDISK,
    "a4": _HYPERDISK,
    "g4": _HYPERDISK,
    "n1": _PD,
}
_ANY_DISK = (
    "pd-balanced",
    "pd-standard",
    "pd-ssd",
    "hyperdisk-balanced",
    "hyperdisk-extreme",
    "hyperdisk-throughput",
)
_GENERAL = re.compile(r"([a-z][0-9]+[a-z]*)-([a-z]+)-([0-9]+)(g?)(?:-[a-z]+)?")
_SHARED_CORE = {
    "e2-micro": (2, 1),
    "e2-small": (2, 2),
    "e2-medium": (2, 4),
    "g1-small": (1, 2),
    "f1-micro": (1, 1),
}


def find_machine(name: str) -> Machine | None:
    """Return the machine called `name`, None when this catalogue knows no such machine."""
    if name in TPU_MACHINES:
        return TPU_MACHINES[name]
    if name in _SHARED_CORE:
        cpus, memory = _SHARED_CORE[name]
        return Machine(name, cpus, memory, _ANY_DISK)
    if name in BUILT_IN:
        _, gpus, cpus, memory = BUILT_IN[name]
        return Machine(name, cpus, memory, _disks_of(name), gpus=gpus)
    match = _GENERAL.fullmatch(name)
    if match is None or match[1].startswith("ct") or match[2] not in _MEMORY_PER_CPU:
        return None
    count, is_gpu = int(match[3]), match[4] == "g"
    cpus = 26 * count if is_gpu else count
    return Machine(name, cpus, cpus * _MEMORY_PER_CPU[match[2]], _disks_of(name), gpus=count if is_gpu else 0)


def _disks_of(name: str) -> tuple[str, ...]:
    for prefix, disks in _RESTRICTED_DISKS.items():
        if name.startswith(f"{prefix}-"):
            return disks
    return _ANY_DISK


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
